// Eigen at its best: compiled for this machine, fixed inner stride, one product per head. Its namespace is renamed, so
// that none of its functions can be merged by the linker with those of the library, which was compiled without flags.
#define Eigen eigen_native
#include <Eigen/Core>

#include "contender.hpp"

namespace race {
namespace {

template <class Scalar>
runner prepare(const problem<Scalar>& p) {
    using matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using input = Eigen::Map<const matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
    using output = Eigen::Map<matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
    return repeat([p] {
        for_each_head(p, [&p](std::ptrdiff_t i) {
            const input q(p.q_head(i), p.rows, p.depth, Eigen::OuterStride<>(p.q_steps.row));
            const input k(p.k_head(i), p.columns, p.depth, Eigen::OuterStride<>(p.k_steps.row));
            output out(p.out_head(i), p.rows, p.columns, Eigen::OuterStride<>(p.out_steps.row));
            out.noalias() = q * k.transpose();
        });
    });
}

}  // namespace

std::vector<contender> eigen_contenders(int threads) {
    Eigen::setNbThreads(threads);  // with OpenMP: one head's product is split, but not inside a parallel region
    const std::string version = std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                                std::to_string(EIGEN_MINOR_VERSION) + ", built for this machine";
    return {{"eigen", "Eigen " + version, false, prepare<float>, prepare<double>}};
}

}  // namespace race
