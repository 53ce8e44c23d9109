// OpenBLAS with Eigen: a head at a time sgemm, softmax by Eigen's vectorised exp (this file is compiled for this
// machine), sgemm; the weights of one head stay in a cache.
#include <cstdlib>
#include <limits>

#include <Eigen/Core>

#include "../race_peers/shared_library.hpp"
#include "problem.hpp"

namespace race {
namespace {

enum { row_major = 101, no_transpose = 111, transpose = 112 };
using gemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

gemm* sgemm = nullptr;

int narrow(std::ptrdiff_t n) { return static_cast<int>(n); }

void softmax(const attention_problem& p) {
    for (std::ptrdiff_t l = 0; l < p.rows; ++l) {
        const std::ptrdiff_t seen = p.causal ? l + p.columns - p.rows + 1 : p.columns;
        Eigen::Map<Eigen::ArrayXf> row(p.weights + l * p.columns, seen), rest(row.data() + seen, p.columns - seen);
        row = (row - row.maxCoeff()).exp();
        row /= row.sum();
        rest.setZero();
    }
}

runner prepare(const attention_problem& p) {
    return repeat([p] {
        const int L = narrow(p.rows), M = narrow(p.columns), D = narrow(p.depth);
        for (std::ptrdiff_t head = 0; head < p.batches * p.heads; ++head) {
            const float* const k = p.k + head / p.group() * M * D;
            const float* const v = p.v + head / p.group() * M * D;
            sgemm(row_major, no_transpose, transpose, L, M, D, p.scale(), p.q + head * L * D, D, k, D, 0, p.weights, M);
            softmax(p);
            sgemm(row_major, no_transpose, no_transpose, L, D, M, 1, p.weights, M, v, D, 0, p.out + head * L * D, D);
        }
    });
}

}  // namespace

std::vector<attention_contender> openblas_attention() {
    // Left-overs in the environment make it pick a wrong kernel or block size.
    for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS"}) unsetenv(name);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    static const shared_library library(HEADWISE_RACE_OPENBLAS);
    sgemm = library.get<gemm>("cblas_sgemm");
    return {{"openblas + Eigen", prepare}};
}

}  // namespace race
