// OpenBLAS through CBLAS: one sgemm per head, and its batched form where this version has one.
#include <cstdlib>
#include <memory>

#include "contender.hpp"
#include "shared_library.hpp"

namespace race {
namespace {

enum { row_major = 101, no_transpose = 111, transpose = 112 };

template <class Scalar>
using gemm = void(int order, int trans_a, int trans_b, int m, int n, int k, Scalar alpha, const Scalar* a, int lda,
                  const Scalar* b, int ldb, Scalar beta, Scalar* c, int ldc);
template <class Scalar>
using gemm_batch = void(int order, const int* trans_a, const int* trans_b, const int* m, const int* n, const int* k,
                        const Scalar* alpha, const Scalar** a, const int* lda, const Scalar** b, const int* ldb,
                        const Scalar* beta, Scalar** c, const int* ldc, int groups, const int* group_size);
using set_threads = void(int);

int narrow(std::ptrdiff_t n) { return static_cast<int>(n); }

/// Threads go to the heads where there are enough of them, else into each product.
template <class Scalar>
runner per_head(const problem<Scalar>& p, gemm<Scalar>* call, set_threads* set) {
#if defined(_OPENMP)
    const bool over_heads = p.threads > 1 && p.all_heads() >= p.threads;
#else
    const bool over_heads = false;
#endif
    const int inside = over_heads ? 1 : p.threads;
    problem<Scalar> shared = p;
    if (!over_heads) shared.threads = 1;
    return [=](std::ptrdiff_t times) {
        set(inside);
        for (; times > 0; --times)
            for_each_head(shared, [&](std::ptrdiff_t i) {
                call(row_major, no_transpose, transpose, narrow(p.rows), narrow(p.columns), narrow(p.depth), Scalar(1),
                     p.q_head(i), narrow(p.q_steps.row), p.k_head(i), narrow(p.k_steps.row), Scalar(0), p.out_head(i),
                     narrow(p.out_steps.row));
            });
    };
}

template <class Scalar>
runner batched(const problem<Scalar>& p, gemm_batch<Scalar>* call, set_threads* set) {
    struct pointers {
        std::vector<const Scalar*> q, k;
        std::vector<Scalar*> out;
    };
    auto heads = std::make_shared<pointers>();
    for (std::ptrdiff_t i = 0; i < p.all_heads(); ++i) {
        heads->q.push_back(p.q_head(i));
        heads->k.push_back(p.k_head(i));
        heads->out.push_back(p.out_head(i));
    }
    return [=](std::ptrdiff_t times) {
        const int trans_q = no_transpose, trans_k = transpose, m = narrow(p.rows), n = narrow(p.columns);
        const int depth = narrow(p.depth), count = narrow(p.all_heads()), q_row = narrow(p.q_steps.row);
        const int k_row = narrow(p.k_steps.row), out_row = narrow(p.out_steps.row);
        const Scalar one(1), zero(0);
        set(p.threads);
        for (; times > 0; --times)
            call(row_major, &trans_q, &trans_k, &m, &n, &depth, &one, heads->q.data(), &q_row, heads->k.data(), &k_row,
                 &zero, heads->out.data(), &out_row, 1, &count);
    };
}

}  // namespace

std::vector<contender> openblas_contenders(int) {
    // Left-overs in the environment make it pick a wrong kernel or block size; idle threads that spin disturb the next.
    for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"})
        unsetenv(name);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);  // 2^20 cycles
    const shared_library library(HEADWISE_RACE_OPENBLAS);
    auto* set = library.get<set_threads>("openblas_set_num_threads");
    auto* sgemm = library.get<gemm<float>>("cblas_sgemm");
    auto* dgemm = library.get<gemm<double>>("cblas_dgemm");
    const std::string config = library.get<char*()>("openblas_get_config")();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
    const std::string version = config.substr(0, config.find(' ', config.find(' ') + 1)) + ", core " +
                                library.get<char*()>("openblas_get_corename")() + ", " +
                                shared_library::provider(sgemm);
    std::vector<contender> found{{"openblas", version, false,
                                  [=](const problem<float>& p) { return per_head(p, sgemm, set); },
                                  [=](const problem<double>& p) { return per_head(p, dgemm, set); }}};
    auto* sgemm_batch = library.find<gemm_batch<float>>("cblas_sgemm_batch");
    auto* dgemm_batch = library.find<gemm_batch<double>>("cblas_dgemm_batch");
    if (sgemm_batch != nullptr && dgemm_batch != nullptr)
        found.push_back({"openblas-b", "the same, cblas_?gemm_batch", false,
                         [=](const problem<float>& p) { return batched(p, sgemm_batch, set); },
                         [=](const problem<double>& p) { return batched(p, dgemm_batch, set); }});
    return found;
}

}  // namespace race
