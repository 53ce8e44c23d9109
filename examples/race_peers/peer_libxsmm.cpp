// libxsmm: a kernel generated once per shape, called once per head. Column-major: out^T (M x L) = K^T' * Q^T, so that
// its A is our K and is transposed. Version 2 generates that; 1.17 cannot, and its own transpose of K is part of the
// work.
#include "contender.hpp"

#include <libxsmm.h>  // after the standard headers, which its macros upset

namespace race {
namespace {

libxsmm_blasint narrow(std::ptrdiff_t n) { return static_cast<libxsmm_blasint>(n); }

#if LIBXSMM_VERSION_MAJOR >= 2

template <class Scalar>
runner prepare(const problem<Scalar>& p) {
    const auto type = std::is_same_v<Scalar, float> ? LIBXSMM_DATATYPE_F32 : LIBXSMM_DATATYPE_F64;
    const libxsmm_gemm_shape shape =
        libxsmm_create_gemm_shape(narrow(p.columns), narrow(p.rows), narrow(p.depth), narrow(p.k_steps.row),
                                  narrow(p.q_steps.row), narrow(p.out_steps.row), type, type, type, type);
    const libxsmm_gemmfunction kernel =
        libxsmm_dispatch_gemm(shape, LIBXSMM_GEMM_FLAG_TRANS_A | LIBXSMM_GEMM_FLAG_BETA_0, LIBXSMM_PREFETCH_NONE);
    if (kernel == nullptr) return {};
    return repeat([p, kernel] {
        for_each_head(p, [&](std::ptrdiff_t i) {
            libxsmm_gemm_param arguments{};
            arguments.a.primary = const_cast<Scalar*>(p.k_head(i));
            arguments.b.primary = const_cast<Scalar*>(p.q_head(i));
            arguments.c.primary = p.out_head(i);
            kernel(&arguments);
        });
    });
}
constexpr const char* form = "transposed A generated";

#else

template <class Scalar>
auto dispatch(const problem<Scalar>& p) {
    const libxsmm_blasint lda = narrow(p.columns), ldb = narrow(p.q_steps.row), ldc = narrow(p.out_steps.row);
    const Scalar alpha(1), beta(0);
    const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;
    const libxsmm_blasint m = narrow(p.columns), n = narrow(p.rows), k = narrow(p.depth);
    if constexpr (std::is_same_v<Scalar, float>)
        return libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
    else return libxsmm_dmmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
}

template <class Scalar>
runner prepare(const problem<Scalar>& p) {
    const auto kernel = dispatch(p);
    if (kernel == nullptr) return {};
    const auto k_size = static_cast<std::size_t>(p.columns * p.depth);
    return repeat([p, kernel, k_size] {
        for_each_head(p, [&](std::ptrdiff_t i) {
            thread_local std::vector<Scalar> transposed;
            if (transposed.size() < k_size) transposed.resize(k_size);
            libxsmm_otrans(transposed.data(), p.k_head(i), sizeof(Scalar), narrow(p.depth), narrow(p.columns),
                           narrow(p.k_steps.row), narrow(p.columns));
            kernel(transposed.data(), p.q_head(i), p.out_head(i));
        });
    });
}
constexpr const char* form = "K transposed by libxsmm_otrans, counted";

#endif

}  // namespace

std::vector<contender> libxsmm_contenders(int) {
    libxsmm_init();
    const std::string version = std::string("libxsmm ") + LIBXSMM_VERSION + ", " + libxsmm_get_target_arch();
    return {{"libxsmm", version + ", " + form, false, prepare<float>, prepare<double>}};
}

}  // namespace race
