// The weights of attention, and the logits behind them: scores, everything that is done to them, and softmax, in one
// pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/attention_plan.hpp>

namespace headwise {

namespace detail {

/// Outputs larger than the caches go around them, where every row begins with a line.
template <class In, class Out>
[[nodiscard]] bool stream_weights(const kernel::attention_arguments<In, Out>& a, std::ptrdiff_t heads) noexcept {
    constexpr std::ptrdiff_t bytes = sizeof(Out), large = std::ptrdiff_t{8} << 20;
    const std::ptrdiff_t steps = a.out.strides[0] | a.out.strides[1] | a.out.strides[2];
    return a.out.column() == 1 && steps * bytes % 64 == 0 && reinterpret_cast<std::uintptr_t>(a.out.data) % 64 == 0 &&
           heads * a.rows * a.columns * bytes > large;
}

template <class Scalar, class Result>
void run_weights(const attention_call<Scalar, Result>& call, const attention_options<attention_scalar<Scalar>>& options,
                 decltype(attention_call<Scalar, Result>::Kernel::weigh) run) {
    if (call.is_empty()) return;
    const auto plan = call.plan_weights(options);
    const auto a = call.arguments();
    run_tiles(call, plan, options, attention_memory(plan, options.workspace), run,
              stream_weights(a, call.kv_heads() * a.group));
}

}  // namespace detail

/// out[b,h,l,m] = softmax over m of the logits (see `attention_options`): softmax(q k^T / sqrt(D)) unless the options
/// say otherwise. `attention_weights_loop` is the definition; the rules are those of `attention`.
///
/// q (B, Hq, L, D), k (B, Hkv, M, D), out (B, Hq, L, M), of float, double or, with the results of the same type or
/// float, a sixteen-bit type; Hq is a multiple of Hkv; any strides, any alignment. (On AVX-512 BF16 products of
/// bfloat16 are summed in pairs, as those of `batched_scores_vectorized`.) out and options.lse share no memory with the
/// others nor with each other. Each row is finished in the nearest cache and written once; needs M * (D + 28) scalars
/// of memory a thread. Throws `std::invalid_argument` on anything else, before anything is written.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void attention_weights(const Q& q, const K& k, Out&& out, const attention_options_for<Q>& options = {}) {
    const detail::attention_call<scalar_of<Q>, scalar_of<Out>> call(as_view(q), as_view(k), as_view(out), options);
    detail::run_weights(call, options, call.kernel.weigh);
}

/// out[b,h,l,m] = the logits themselves, minus infinity where m is not visible to l. options.lse is not written. The
/// rest as `attention_weights`; `attention_logits_loop` is the definition.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void attention_logits(const Q& q, const K& k, Out&& out, const attention_options_for<Q>& options = {}) {
    attention_options_for<Q> without_lse = options;
    without_lse.lse = {};
    const detail::attention_call<scalar_of<Q>, scalar_of<Out>> call(as_view(q), as_view(k), as_view(out), without_lse);
    detail::run_weights(call, without_lse, call.kernel.logits);
}

/// The same, into a new tensor (B, Hq, L, M).
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> attention_weights(const Q& q, const K& k,
                                                     const attention_options_for<Q>& options = {}) {
    detail::check_grouped_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::logits_shape(q.shape(), k.shape()), uninitialized);
    attention_weights(q, k, out, options);
    return out;
}
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> attention_logits(const Q& q, const K& k,
                                                    const attention_options_for<Q>& options = {}) {
    detail::check_grouped_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::logits_shape(q.shape(), k.shape()), uninitialized);
    attention_logits(q, k, out, options);
    return out;
}

/// The size of `attention_options::workspace` that such a call needs, of `attention_weights` or `attention_logits`.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
[[nodiscard]] std::size_t attention_weights_workspace_bytes(const Q& q, const K& k, Out&& out,
                                                            const attention_options_for<Q>& options = {}) {
    const detail::attention_call<scalar_of<Q>, scalar_of<Out>> call(as_view(q), as_view(k), as_view(out), options);
    return call.is_empty() ? 0 : call.plan_weights(options).bytes();
}

}  // namespace headwise
