// The definition of batched scores in plain loops, and how far from it a correct result may lie.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <sstream>
#include <string>

#include <headwise/contract.hpp>
#include <headwise/tensor.hpp>

namespace headwise::test {

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], summed in double from d = 0 on.
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<double> reference_scores(const Q& q_like, const K& k_like, double scale = 1) {
    const auto q = as_view(q_like);
    const auto k = as_view(k_like);
    tensor<double> out(detail::scores_shape(q.shape(), k.shape()));
    const auto [B, H, L, M] = out.shape();
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    double sum = 0;
                    for (std::ptrdiff_t d = 0; d < q.shape()[3]; ++d)
                        sum += static_cast<double>(q(b, h, l, d)) * static_cast<double>(k(b, h, m, d));
                    out(b, h, l, m) = scale * sum;
                }
    return out;
}

/// gamma_n = n u / (1 - n u): the relative error of n roundings (Higham, "Accuracy and Stability of Numerical
/// Algorithms", lemma 3.1). For n u >= 1 the lemma says nothing.
template <class Scalar>
[[nodiscard]] double gamma(std::ptrdiff_t n) {
    const double nu = static_cast<double>(n) * static_cast<double>(std::numeric_limits<Scalar>::epsilon()) / 2;
    return nu < 1 ? nu / (1 - nu) : std::numeric_limits<double>::infinity();
}

/// How far a result in Scalar, its sums in any order, with FMA or without, may lie from `reference_scores`: each
/// product goes through at most D roundings, D + 1 with a scale, so gamma_D * |scale| * sum |q| |k|; the reference adds
/// its own. Below the normal range a rounding is absolute: half the smallest denormal for each.
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<double> bound(const Q& q_like, const K& k_like, double scale = 1) {
    using Scalar = scalar_of<Q>;
    const auto magnitudes = [](const auto& view) {
        tensor<Scalar> result(view.shape());
        for (std::ptrdiff_t b = 0; b < view.shape()[0]; ++b)
            for (std::ptrdiff_t h = 0; h < view.shape()[1]; ++h)
                if (view.size() != 0) result.head(b, h) = view.head(b, h).cwiseAbs();
        return result;
    };
    const tensor<Scalar> q = magnitudes(as_view(q_like)), k = magnitudes(as_view(k_like));
    tensor<double> out = reference_scores(q, k, std::abs(scale));
    const std::ptrdiff_t roundings = q.shape()[3] + (scale != 1);
    const double relative = gamma<Scalar>(roundings) + gamma<double>(roundings);
    const double absolute =
        static_cast<double>(roundings) * static_cast<double>(std::numeric_limits<Scalar>::denorm_min());
    for (std::ptrdiff_t i = 0; i < out.size(); ++i)
        out.data()[i] = relative * out.data()[i] + absolute * std::max(1.0, std::abs(scale));
    return out;
}

/// Empty when every element of `result` is within `bound` of the reference (NaN where that is NaN, the same infinity
/// where that is infinite); otherwise names the first that is not.
template <class Result, class Q, class K>
[[nodiscard]] std::string mismatch(const Result& result_like, const Q& q, const K& k, double scale = 1) {
    const auto result = as_view(result_like);
    const tensor<double> expected = reference_scores(q, k, scale), allowed = bound(q, k, scale);
    std::ostringstream os;
    os.precision(17);
    if (result.shape() != expected.shape()) os << "shape " << detail::text_of(result.shape());
    const auto [B, H, L, M] = expected.shape();
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M && os.str().empty(); ++m) {
                    const double is = static_cast<double>(result(b, h, l, m)), must = expected(b, h, l, m);
                    const bool agrees = std::isfinite(must) ? std::abs(is - must) <= allowed(b, h, l, m)
                                                            : is == must || (std::isnan(is) && std::isnan(must));
                    if (!agrees)
                        os << "at (" << b << ", " << h << ", " << l << ", " << m << ") is " << is << ", must be "
                           << must << " within " << allowed(b, h, l, m);
                }
    return os.str();
}

}  // namespace headwise::test
