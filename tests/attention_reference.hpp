// The definition of attention in plain loops in double, and how far from it a correct result may lie.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <headwise/attention_options.hpp>

#include "reference.hpp"

namespace headwise::test {

/// q (B, H, L, D), k (B, Hkv, M, D), v (B, Hkv, M, Dv).
struct extents {
    std::ptrdiff_t B, H, Hkv, L, M, D, Dv;
    [[nodiscard]] std::string text() const {
        return detail::text_of({B, H, L, M}) + ", Hkv, D, Dv = " + detail::text_of({Hkv, D, Dv, 0});
    }
};

/// The options again, without memory: masks and biases as tensors, everything by its meaning.
template <class Scalar>
struct attention_case {
    std::string name{};
    bool causal = false, top_left = false;
    attention_window window = {};
    double softcap = 0, scale = 0;      ///< 0: the default
    shape4 mask_shape{}, bias_shape{};  ///< empty: none

    [[nodiscard]] tensor<bool> mask() const {
        tensor<bool> result(mask_shape);
        detail::splitmix64 random(5);
        for (std::ptrdiff_t i = 0; i < result.size(); ++i) result.data()[i] = random() % 4 != 0;
        return result;
    }
    [[nodiscard]] tensor<Scalar> bias() const { return randn<Scalar>(bias_shape, 6); }

    /// The options without the views.
    [[nodiscard]] attention_options<Scalar> options(isa name_of = isa::automatic) const {
        attention_options<Scalar> o;
        if (scale != 0) o.scale = scale;
        o.causal = causal;
        o.alignment = top_left ? causal_alignment::top_left : causal_alignment::bottom_right;
        o.window = window;
        o.softcap = softcap;
        o.isa = name_of;
        return o;
    }
    /// Calls `body(options)`, with their views alive.
    template <class Body>
    void with_options(isa name_of, const Body& body) const {
        const tensor<bool> hidden = mask();
        const tensor<Scalar> added = bias();
        attention_options<Scalar> all = options(name_of);
        if (hidden.size() != 0) all.mask = hidden;
        if (added.size() != 0) all.bias = added;
        body(all);
    }
};

struct attention_expected {
    tensor<double> out, weights, logits, lse;
    tensor<double> out_bound, weights_bound, logits_bound, lse_bound;
};

/// Everything from q, k, v and the options. The bounds: a logit is off by at most the D + 3 roundings of its sum,
/// scale, softcap (tanh to 4 ULP) and bias; a weight by the logits' errors and some roundings of its own, relatively; a
/// result by those of its weights and of a sum of M terms. Below the normal numbers each rounding is off by up to half
/// of the least number instead.
template <class Scalar>
attention_expected expect_attention(const tensor<Scalar>& q, const tensor<Scalar>& k, const tensor<Scalar>& v,
                                    const attention_options<Scalar>& how) {
    const auto [B, H, L, D] = q.shape();
    const std::ptrdiff_t M = k.shape()[2], group = H == 0 ? 1 : H / k.shape()[1], Dv = v.shape()[3];
    const auto at = [](const auto& t, std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, std::ptrdiff_t m) {
        const shape4& n = t.shape();
        return t(n[0] == 1 ? 0 : b, n[1] == 1 ? 0 : h, n[2] == 1 ? 0 : l, n[3] == 1 ? 0 : m);
    };
    const double scale = how.scale.value_or(1 / std::sqrt(static_cast<double>(D)));
    // The reference rounds as well.
    const double u =
        (static_cast<double>(std::numeric_limits<Scalar>::epsilon()) + std::numeric_limits<double>::epsilon()) / 2;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr auto least = static_cast<double>(std::numeric_limits<Scalar>::denorm_min());
    attention_expected e{tensor<double>({B, H, L, Dv}), tensor<double>({B, H, L, M}),  tensor<double>({B, H, L, M}),
                         tensor<double>({B, H, L, 1}),  tensor<double>({B, H, L, Dv}), tensor<double>({B, H, L, M}),
                         tensor<double>({B, H, L, M}),  tensor<double>({B, H, L, 1})};
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l) {
                const std::ptrdiff_t place = how.alignment == causal_alignment::top_left ? l : l + M - L;
                double most = -infinity, sum = 0, off = 0;
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    double dot = 0, magnitude = 0;
                    for (std::ptrdiff_t d = 0; d < D; ++d) {
                        const double product =
                            static_cast<double>(q(b, h, l, d)) * static_cast<double>(k(b, h / group, m, d));
                        dot += product;
                        magnitude += std::abs(product);
                    }
                    double logit = D == 0 ? 0 : scale * dot;
                    double bound =
                        D == 0 ? 0 : static_cast<double>(D + 3) * (u * magnitude + least) * std::abs(scale) + least;
                    if (how.softcap != 0)
                        logit = how.softcap * std::tanh(logit / how.softcap),
                        bound += 10 * u * std::abs(logit) + (how.softcap + 1) * least;
                    if (how.bias.data() != nullptr) {
                        logit += static_cast<double>(at(how.bias, b, h, l, m));
                        bound += u * std::abs(logit);
                    }
                    bool seen = how.mask.data() == nullptr || at(how.mask, b, h, l, m);
                    if (how.causal && m > place) seen = false;
                    if (how.window.left >= 0 && place - m > how.window.left) seen = false;
                    if (how.window.right >= 0 && m - place > how.window.right) seen = false;
                    if (!seen) logit = -infinity, bound = 0;
                    e.logits(b, h, l, m) = logit;
                    e.logits_bound(b, h, l, m) = bound;
                    most = std::max(most, logit);
                    if (seen) off = std::max(off, bound + 2 * u * std::abs(logit));
                }
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    sum += most == -infinity ? 0 : e.weights(b, h, l, m) = std::exp(e.logits(b, h, l, m) - most);
                off += 2 * u * (most == -infinity ? 0 : std::abs(most));
                // Twice for numerator and denominator; the sum over m and its rescalings.
                const double relative = 2 * off + static_cast<double>(M + 20) * u;
                e.lse(b, h, l, 0) = most + std::log(sum);
                e.lse_bound(b, h, l, 0) = relative + 2 * u * std::abs(e.lse(b, h, l, 0));
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    double& w = e.weights(b, h, l, m);
                    w = sum == 0 ? 0 : w / sum;
                    e.weights_bound(b, h, l, m) = relative * w + least;
                    for (std::ptrdiff_t d = 0; d < Dv; ++d) {
                        const double term = w * static_cast<double>(v(b, h / group, m, d));
                        e.out(b, h, l, d) += term;
                        e.out_bound(b, h, l, d) += (relative + static_cast<double>(M + 4) * u) * std::abs(term);
                    }
                }
                for (std::ptrdiff_t d = 0; d < Dv; ++d) e.out_bound(b, h, l, d) += static_cast<double>(M + 4) * least;
            }
    return e;
}
template <class Scalar>
attention_expected expect_attention(const tensor<Scalar>& q, const tensor<Scalar>& k, const tensor<Scalar>& v,
                                    const attention_case<Scalar>& how) {
    attention_expected e;
    how.with_options(isa::automatic,
                     [&](const attention_options<Scalar>& options) { e = expect_attention(q, k, v, options); });
    return e;
}

/// What AVX-512 BF16's rounding of the weights may add to a result's error: u / (1 - u), u = 2^-8, of the weighted
/// distance of the values from it; and what is below the normal range: weights, and products of pairs.
template <class Scalar>
void add_rounding_of_weights(attention_expected& e, const tensor<Scalar>& v) {
    const auto [B, H, L, M] = e.weights.shape();
    const std::ptrdiff_t group = H == 0 ? 1 : H / v.shape()[1], Dv = v.shape()[3];
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t d = 0; d < Dv; ++d) {
                    double apart = 0, all = static_cast<double>(M);
                    for (std::ptrdiff_t m = 0; m < M; ++m) {
                        const auto value = static_cast<double>(v(b, h / group, m, d));
                        apart += e.weights(b, h, l, m) * std::abs(value - e.out(b, h, l, d));
                        all += std::abs(value);
                    }
                    e.out_bound(b, h, l, d) += apart / 255 + 0x1p-126 * all;
                }
}

/// Empty, or the first element of `result` that is further from `expected` than `bound`.
template <class Result>
[[nodiscard]] std::string beyond(const Result& result_like, const tensor<double>& expected,
                                 const tensor<double>& bound) {
    const auto result = as_view(result_like);
    if (result.shape() != expected.shape()) return "shape " + detail::text_of(result.shape());
    const auto [B, H, L, M] = expected.shape();
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    const double is = static_cast<double>(result(b, h, l, m)), must = expected(b, h, l, m);
                    const bool agrees = std::isfinite(must) ? std::abs(is - must) <= bound(b, h, l, m)
                                                            : is == must || (std::isnan(is) && std::isnan(must));
                    if (agrees) continue;
                    std::ostringstream os;
                    os.precision(17);
                    os << "at " << detail::text_of({b, h, l, m}) << " is " << is << ", must be " << must << " within "
                       << bound(b, h, l, m);
                    return os.str();
                }
    return {};
}

/// One of each kind of option, and all together.
template <class Scalar = float>
[[nodiscard]] std::vector<attention_case<Scalar>> usual_cases(const extents& n) {
    return {{.name = "plain"},
            {.name = "causal, scale", .causal = true, .scale = -0.7},
            {.name = "window, top left", .top_left = true, .window = {3, 2}},
            {.name = "mask of keys", .mask_shape = {n.B, 1, 1, n.M}},
            {.name = "bias of heads", .bias_shape = {1, n.H, n.L, n.M}},
            {.name = "everything",
             .causal = true,
             .window = {45, 3},
             .softcap = 2,
             .scale = 0.3,
             .mask_shape = {1, n.H, n.L, n.M},
             .bias_shape = {1, 1, n.L, n.M}}};
}

}  // namespace headwise::test
