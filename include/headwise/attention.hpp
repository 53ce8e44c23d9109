// Attention, fused: softmax(scale q k^T + ...) v for every head in one call, without a matrix of weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <headwise/attention_options.hpp>
#include <headwise/attention_plan.hpp>
#include <headwise/kernel/attention_kernels.hpp>
#include <headwise/probe.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

/// out[b,h,l,:] = sum over m of w[m] * v[b,h',m,:] with h' = h / (Hq / Hkv) and w = softmax over m of the logits (see
/// `attention_options`): softmax(q k^T / sqrt(D)) v unless the options say otherwise. `attention_loop` defines it.
///
/// q (B, Hq, L, D), k (B, Hkv, M, D), v (B, Hkv, M, Dv), out (B, Hq, L, Dv), of float, double, `Eigen::bfloat16` or
/// `Eigen::half`; Hq is a multiple of Hkv, and query head h uses head h / (Hq / Hkv) of k and v, as torch's enable_gqa.
/// Any strides, any alignment; fastest with unit stride along the last axis. out, options.lse and the workspace share
/// no memory with the rest, nor with each other.
///
/// Of the sixteen-bit types q, k and v are widened as they are read, and everything is computed in float, the weights
/// too: the bits of attention to the same values as floats, on every target but one. out is of the same type, rounded
/// once, to nearest even, or float; bias and lse are float.
///
/// AVX-512 BF16, taken for bfloat16 where the machine has it, multiplies pairs, with denormals as zeros, and has the
/// weights rounded to bfloat16 for their product with v, as in FlashAttention and torch's fused kernels. They are
/// divided by the sum of what they were rounded to: a result stays a mean of values, off by at most u / (1 - u) times
/// the sum over m of w[m] |v[m] - out|, u = 2^-8, more than float's; lse is that of the weights before. (Up to four
/// rows a head, with k and v of unit stride, are limited by memory, and computed as floats.) `.isa = isa::avx512` has
/// the bits of floats everywhere.
///
/// - A row that sees no key gives zeros, and an lse of minus infinity; so do all rows for M = 0.
/// - For D = 0 the weights of the visible keys are equal. For Dv = 0 only lse is written.
/// - What is masked out does not count, whatever its k and v hold. (A bias of minus infinity hides v, not a NaN in k.)
///   A key that is seen counts even where its weight has become zero: an infinite v there gives NaN.
/// - A NaN in q, or in a k that is seen, makes its row NaN, and no other. So does a logit of plus infinity.
/// - Logits of any size are right. Weights are rounded once where they are subnormal (zero for AVX-512 BF16).
///
/// The columns are taken in blocks, with a running maximum (FlashAttention: Dao et al., NeurIPS 2022), so memory beyond
/// the arguments is O(L + D) a thread, or O(L D) where out is not of the type of the sums or has no unit stride along
/// the last axis: then rows gather elsewhere. Blocks that causal and window leave empty are skipped. A row of the
/// result has the same bits for any threads, batch, number of heads in its group and alignment; and for any strides
/// too, but that at most four rows a head are summed in another order where k and v have unit stride. With threads = 1
/// nothing is allocated once the thread's workspace has grown. Throws `std::invalid_argument` on anything else, before
/// anything is written.
template <class Q, class K, class V, class Out>
    requires same_scalar<Q, K> && same_scalar<Q, V> && product_output_for<Out, scalar_of<Q>>
void attention(const Q& q, const K& k, const V& v, Out&& out, const attention_options_for<Q>& options = {}) {
    const detail::attention_call<scalar_of<Q>, scalar_of<Out>> call(as_view(q), as_view(k), as_view(v), as_view(out),
                                                                    options);
    if (call.is_empty()) return;
    const auto plan = call.plan(options);
    auto* const memory = detail::attention_memory(plan, options.workspace);
    HEADWISE_PROBE("attention");
    if (plan.few) detail::run_few(call, plan, options, memory);
    else detail::run_tiles(call, plan, options, memory, call.kernel.attend);
}

/// The same, into a new tensor (B, Hq, L, Dv).
template <class Q, class K, class V>
    requires same_scalar<Q, K> && same_scalar<Q, V>
[[nodiscard]] tensor<scalar_of<Q>> attention(const Q& q, const K& k, const V& v,
                                             const attention_options_for<Q>& options = {}) {
    detail::check_attention_inputs(q.shape(), k.shape(), v.shape());
    tensor<scalar_of<Q>> out(detail::attention_shape(q.shape(), v.shape()), uninitialized);
    attention(q, k, v, out, options);
    return out;
}

/// The size of `attention_options::workspace` that such a call needs.
template <class Q, class K, class V, class Out>
    requires same_scalar<Q, K> && same_scalar<Q, V> && product_output_for<Out, scalar_of<Q>>
[[nodiscard]] std::size_t attention_workspace_bytes(const Q& q, const K& k, const V& v, Out&& out,
                                                    const attention_options_for<Q>& options = {}) {
    const detail::attention_call<scalar_of<Q>, scalar_of<Out>> call(as_view(q), as_view(k), as_view(v), as_view(out),
                                                                    options);
    return call.is_empty() ? 0 : call.plan(options).bytes();
}

}  // namespace headwise
