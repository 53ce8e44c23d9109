// BLIS through its own typed interface (general strides), not the CBLAS names that it shares with OpenBLAS.
#include <cstdint>
#include <cstdlib>

#include "contender.hpp"
#include "shared_library.hpp"

namespace race {
namespace {

using integer = std::int64_t;  // dim_t and inc_t, in every build whose bli_info_get_int_type_size() is 64
template <class Scalar>
using gemm = void(int trans_a, int trans_b, integer m, integer n, integer k, const Scalar* alpha, const Scalar* a,
                  integer a_row, integer a_column, const Scalar* b, integer b_row, integer b_column, const Scalar* beta,
                  Scalar* c, integer c_row, integer c_column);
using set_threads = void(integer);

/// Threads go to the heads where there are enough of them, else into each product.
template <class Scalar>
runner per_head(const problem<Scalar>& p, gemm<Scalar>* call, set_threads* set) {
#if defined(_OPENMP)
    const bool over_heads = p.threads > 1 && p.all_heads() >= p.threads;
#else
    const bool over_heads = false;
#endif
    problem<Scalar> shared = p;
    if (!over_heads) shared.threads = 1;
    return [=](std::ptrdiff_t times) {
        const Scalar one(1), zero(0);
        set(over_heads ? 1 : p.threads);
        for (; times > 0; --times)
            for_each_head(shared, [&](std::ptrdiff_t i) {
                call(0, 0, p.rows, p.columns, p.depth, &one, p.q_head(i), p.q_steps.row, 1, p.k_head(i), 1,
                     p.k_steps.row, &zero, p.out_head(i), p.out_steps.row, 1);
            });
    };
}

}  // namespace

std::vector<contender> blis_contenders(int) {
    unsetenv("BLIS_NUM_THREADS");
#if defined(__x86_64__)
    // Left to itself BLIS 0.9 does not know newer AMD processors and takes AVX2 kernels; 0 is its AVX-512 (skx) set.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) setenv("BLIS_ARCH_TYPE", "0", 1);
#endif
    const shared_library library(HEADWISE_RACE_BLIS);
    if (library.get<integer()>("bli_info_get_int_type_size")() != 64) return {};
    auto* set = library.get<set_threads>("bli_thread_set_num_threads");
    auto* sgemm = library.get<gemm<float>>("bli_sgemm");
    auto* dgemm = library.get<gemm<double>>("bli_dgemm");
    library.get<void()>("bli_init")();
    const int architecture = library.get<int()>("bli_arch_query_id")();
    const std::string version = std::string("BLIS ") + library.get<const char*()>("bli_info_get_version_str")() +
                                ", kernels " + library.get<const char*(int)>("bli_arch_string")(architecture) + ", " +
                                shared_library::provider(sgemm);
    return {{"blis", version, false, [=](const problem<float>& p) { return per_head(p, sgemm, set); },
             [=](const problem<double>& p) { return per_head(p, dgemm, set); }}};
}

}  // namespace race
