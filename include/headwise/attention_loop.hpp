// Attention, the readable way, one head at a time: the definition of what the fused routines compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <headwise/attention_options.hpp>
#include <headwise/scores_loop.hpp>

namespace headwise {

namespace detail {

/// Refuses what `attention_logits_loop` does not take.
template <class Q, class K, class Out>
void check_logits(const Q& q, const K& k, const Out& out, const attention_options_for<Q>& options) {
    const shape4 shape = logits_shape(q.shape(), k.shape());
    check_grouped_inputs(q.shape(), k.shape());
    check_output(out, shape);
    check_options(options, shape);
    check_outputs_apart(options, out, q, k);
}

/// Calls `compute(view)`, which writes out itself; or floats, which out then gets, rounded to its sixteen bits.
template <class Result, class Compute>
void compute_and_round(const tensor_view<Result>& out, const Compute& compute) {
    if constexpr (!is_sixteen_bit<Result>) {
        compute(out);
    } else {
        tensor<float> exact(out.shape(), uninitialized);
        compute(exact.view());
        const auto [B, H, L, M] = out.shape();
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t m = 0; m < M; ++m) out(b, h, l, m) = static_cast<Result>(exact(b, h, l, m));
    }
}

}  // namespace detail

/// logits[b,h,l,m] = softcap * tanh(scale * (q_l . k_m) / softcap) + bias, minus infinity where m is not visible to l
/// (see `attention_options`); head h of q is multiplied with head h / (Hq / Hkv) of k.
///
/// q (B, Hq, L, D), k (B, Hkv, M, D), out (B, Hq, L, M), any strides; Hq is a multiple of Hkv. Of `Eigen::bfloat16` and
/// `Eigen::half` all is computed in float, and so here and below: out is rounded to the same type, once, to nearest
/// even, or is float. options.lse is not written. Throws `std::invalid_argument` on anything else, before out is
/// touched.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void attention_logits_loop(const Q& q_like, const K& k_like, Out&& out_like,
                           const attention_options_for<Q>& options = {}) {
    using Scalar = attention_scalar<scalar_of<Q>>;
    const tensor_view<const scalar_of<Q>> q = as_view(q_like), k = as_view(k_like);
    const tensor_view<scalar_of<Out>> result = as_view(out_like);
    detail::check_logits(q, k, result, options);

    const Scalar scale = static_cast<Scalar>(detail::scale_of(options, q.shape()[3]));
    const Scalar softcap = static_cast<Scalar>(options.softcap);
    detail::compute_and_round(result, [&](const tensor_view<Scalar>& out) {
        batched_scores_loop(q, k, out);
        const auto [B, H, L, M] = out.shape();
        const auto visible = detail::visible_of(options, L, M);
        const auto mask = detail::broadcast_to(options.mask, out.shape());
        const auto bias = detail::broadcast_to(options.bias, out.shape());
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t m = 0; m < M; ++m) {
                        Scalar& logit = out(b, h, l, m);
                        logit *= scale;
                        if (softcap != 0) logit = softcap * std::tanh(logit / softcap);
                        if (bias.data()) logit += bias(b, h, l, m);
                        const bool seen =
                            visible.first(l) <= m && m < visible.last(l) && (!mask.data() || mask(b, h, l, m));
                        if (!seen) logit = -std::numeric_limits<Scalar>::infinity();
                    }
    });
}

/// Softmax of the logits over m: weights[b,h,l,m] = e^(logit - lse), lse[b,h,l] = log of the sum over m of e^logit.
///
/// A row that sees nothing has weights of zero and an lse of minus infinity. A NaN among the logits that a row sees
/// makes its weights NaN; so does plus infinity. Logits of any size are right: their largest is subtracted first.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void attention_weights_loop(const Q& q_like, const K& k_like, Out&& out_like,
                            const attention_options_for<Q>& options = {}) {
    using Scalar = attention_scalar<scalar_of<Q>>;
    const tensor_view<const scalar_of<Q>> q = as_view(q_like), k = as_view(k_like);
    const tensor_view<scalar_of<Out>> result = as_view(out_like);
    detail::check_logits(q, k, result, options);
    detail::compute_and_round(result, [&](const tensor_view<Scalar>& out) {
        attention_logits_loop(q, k, out, options);
        const auto [B, H, L, M] = out.shape();
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l) {
                    Scalar most = -std::numeric_limits<Scalar>::infinity(), sum = 0;
                    for (std::ptrdiff_t m = 0; m < M; ++m) most = std::max(most, out(b, h, l, m));
                    if (most == -std::numeric_limits<Scalar>::infinity()) most = 0;
                    for (std::ptrdiff_t m = 0; m < M; ++m) sum += out(b, h, l, m) = std::exp(out(b, h, l, m) - most);
                    for (std::ptrdiff_t m = 0; m < M && sum != 0; ++m) out(b, h, l, m) /= sum;
                    if (options.lse.data()) options.lse(b, h, l, 0) = most + std::log(sum);
                }
    });
}

/// out[b,h,l,d] = sum over m of weights[b,h,l,m] * v[b,h',m,d], that is softmax(scale q k^T + ...) v; h' = h / (Hq /
/// Hkv).
///
/// v (B, Hkv, M, Dv), out (B, Hq, L, Dv). Keys of weight zero do not count: an infinite or NaN v there does not spread
/// (the fused routine leaves out only those that are masked). So a row that sees nothing is zero. Makes the weights of
/// all heads: O(L M) memory.
template <class Q, class K, class V, class Out>
    requires same_scalar<Q, K> && same_scalar<Q, V> && product_output_for<Out, scalar_of<Q>>
void attention_loop(const Q& q, const K& k, const V& v_like, Out&& out_like,
                    const attention_options_for<Q>& options = {}) {
    using Scalar = attention_scalar<scalar_of<Q>>;
    const tensor_view<const scalar_of<Q>> v = as_view(v_like);
    const tensor_view<scalar_of<Out>> whole = as_view(out_like);
    detail::check_attention_inputs(q.shape(), k.shape(), v.shape());
    detail::check_output(whole, detail::attention_shape(q.shape(), v.shape()));
    detail::check_options(options, detail::logits_shape(q.shape(), k.shape()));
    detail::check_outputs_apart(options, whole, q, k, v);
    tensor<Scalar> weights(detail::logits_shape(q.shape(), k.shape()), uninitialized);
    attention_weights_loop(q, k, weights, options);
    if (whole.size() == 0) return;

    detail::compute_and_round(whole, [&](const tensor_view<Scalar>& out) {
        const auto [B, H, L, D] = out.shape();
        const bool far = detail::reaches_far(v) || detail::reaches_far(out);
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h) {
                auto result = out.head(b, h);
                result.setZero();
                if (v.size() == 0) continue;
                const auto values = v.head(b, h / (H / v.shape()[1])).template cast<Scalar>();
                const auto weight = std::as_const(weights).head(b, h);
                if (values.allFinite()) {
                    detail::multiply(result, weight, values, far);
                    continue;
                }
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t m = 0; m < weight.cols(); ++m)
                        if (weight(l, m) != 0) result.row(l) += weight(l, m) * values.row(m);
            }
    });
}

/// The same, into a new tensor.
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> attention_logits_loop(const Q& q, const K& k,
                                                         const attention_options_for<Q>& options = {}) {
    detail::check_grouped_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::logits_shape(q.shape(), k.shape()), uninitialized);
    attention_logits_loop(q, k, out, options);
    return out;
}
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> attention_weights_loop(const Q& q, const K& k,
                                                          const attention_options_for<Q>& options = {}) {
    detail::check_grouped_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::logits_shape(q.shape(), k.shape()), uninitialized);
    attention_weights_loop(q, k, out, options);
    return out;
}
template <class Q, class K, class V>
    requires same_scalar<Q, K> && same_scalar<Q, V>
[[nodiscard]] tensor<scalar_of<Q>> attention_loop(const Q& q, const K& k, const V& v,
                                                  const attention_options_for<Q>& options = {}) {
    detail::check_attention_inputs(q.shape(), k.shape(), v.shape());
    tensor<scalar_of<Q>> out(detail::attention_shape(q.shape(), v.shape()), uninitialized);
    attention_loop(q, k, v, out, options);
    return out;
}

}  // namespace headwise
