// The gradients of batched scores: what a change of the scores asks of q and of k. Written twice, as they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <headwise/attributes.hpp>
#include <headwise/contract.hpp>
#include <headwise/error.hpp>
#include <headwise/scores.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

/// The gradients of a scalar function of the scores with respect to q and k.
template <class Scalar>
struct scores_gradients {
    tensor<Scalar> dq, dk;
};

namespace detail {

inline void check_backward_inputs(const shape4& q, const shape4& k, const shape4& dout) {
    check_scores_inputs(q, k);
    if (dout != scores_shape(q, k)) refuse_shape("dout", dout, "the scores", scores_shape(q, k));
}

template <class Scalar>
void check_apart(const char* name, const tensor_view<const Scalar>& gradient, const char* other_name,
                 const tensor_view<const Scalar>& other) {
    if (overlap(gradient, other))
        refuse(std::string(name) + " " + text_of(gradient.shape()) + " overlaps the memory of " + other_name + " " +
               text_of(other.shape()) + "; a gradient needs memory of its own");
}

template <class Scalar>
void check_backward(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k,
                    const tensor_view<const Scalar>& dout, const tensor_view<const Scalar>& dq,
                    const tensor_view<const Scalar>& dk) {
    check_backward_inputs(q.shape(), k.shape(), dout.shape());
    check_output("dq", dq, "q", q.shape());
    check_output("dk", dk, "k", k.shape());
    check_apart("dq", dq, "q", q);
    check_apart("dq", dq, "k", k);
    check_apart("dq", dq, "dout", dout);
    check_apart("dq", dq, "dk", dk);
    check_apart("dk", dk, "q", q);
    check_apart("dk", dk, "k", k);
    check_apart("dk", dk, "dout", dout);
}

/// The heads of x that share a head of k, one below the other: (B, Hq, L, D) as (B, Hkv, Hq/Hkv L, D). A sum over the
/// heads of a group and their rows is then one over rows.
template <class Scalar>
[[nodiscard]] tensor_view<const Scalar> stacked(const char* name, const tensor_view<const Scalar>& x,
                                                std::ptrdiff_t k_heads) {
    const auto [B, H, L, D] = x.shape();
    const auto [b, h, l, d] = x.strides();
    if (H == k_heads) return x;
    if (is_empty(x.shape())) {
        // The rows of all of them may be more than can be counted, where D or B is 0: none are needed, dk stays zero.
        const std::ptrdiff_t rows = product_or_negative(H / k_heads, L);
        return {x.data(), {B, k_heads, rows < 0 ? 0 : rows, D}, x.strides()};
    }
    const shape4 shape{B, k_heads, H / k_heads * L, D};
    if (L != 1 && h != L * l)
        refuse(
            std::string(name) + " " + text_of(x.shape()) + " with strides " + text_of(x.strides()) +
            ": the heads that share a head of k must lie one below the other, L rows apart; make a dense copy first");
    return {x.data(), shape, {b, H / k_heads * h, L == 1 ? h : l, d}};
}

/// Rows and columns of every head exchanged.
template <tensor_like T>
[[nodiscard]] auto transposed(const T& x) {
    const auto [B, H, L, D] = x.shape();
    const auto [b, h, l, d] = x.strides();
    return tensor_view<const scalar_of<T>>(x.data(), {B, H, D, L}, {b, h, d, l});
}

}  // namespace detail

/// The size of `scores_options::workspace` that `batched_scores_backward` needs with the same arguments.
template <class Q, class K, class DOut, class DQ, class DK>
    requires same_scalar<Q, K> && same_scalar<Q, DOut> && output_for<DQ, scalar_of<Q>> && output_for<DK, scalar_of<Q>>
[[nodiscard]] std::size_t scores_backward_workspace_bytes(const Q& q, const K& k, const DOut& dout, DQ&& dq, DK&& dk,
                                                          const scores_options& options = {}) {
    using Scalar = scalar_of<Q>;
    detail::check_backward<Scalar>(as_view(q), as_view(k), as_view(dout), as_view(dq), as_view(dk));
    const auto all_q = detail::stacked<Scalar>("q", as_view(q), k.shape()[1]);
    const auto all_dout = detail::stacked<Scalar>("dout", as_view(dout), k.shape()[1]);
    return std::max(detail::workspace_bytes(dout, detail::transposed(k), dq, options),
                    detail::workspace_bytes(detail::transposed(all_dout), detail::transposed(all_q), dk, options));
}

/// dq[b,h,l,d] = scale * sum over m of dout[b,h,l,m] * k[b,h,m,d]
/// dk[b,h,m,d] = scale * sum over l of dout[b,h,l,m] * q[b,h,l,d]
///
/// The gradients of `batched_scores_vectorized(q, k, options)`: of any function of the scores, given dout, its gradient
/// with respect to them. q and dq (B, H, L, D), k and dk (B, H, M, D), dout (B, H, L, M), float or double, any strides.
/// dq and dk share no memory with each other, q, k or dout, nor does a workspace with any. Two products on the fused
/// kernels, through views with rows and columns exchanged: nothing is copied, and what is promised of the scores holds.
///
/// Heads may be grouped as in the scores: dk then sums over the heads of q that share its head too, which must lie one
/// below the other in q and in dout, as in a dense tensor. Throws `std::invalid_argument` on anything else, before dq
/// and dk are touched.
template <class Q, class K, class DOut, class DQ, class DK>
    requires same_scalar<Q, K> && same_scalar<Q, DOut> && output_for<DQ, scalar_of<Q>> && output_for<DK, scalar_of<Q>>
void batched_scores_backward(const Q& q, const K& k, const DOut& dout, DQ&& dq, DK&& dk,
                             const scores_options& options = {}) {
    using Scalar = scalar_of<Q>;
    detail::check_backward<Scalar>(as_view(q), as_view(k), as_view(dout), as_view(dq), as_view(dk));
    const auto all_q = detail::stacked<Scalar>("q", as_view(q), k.shape()[1]);
    const auto all_dout = detail::stacked<Scalar>("dout", as_view(dout), k.shape()[1]);
    if (const std::size_t given = options.workspace.size(); given != 0) {
        // The second product would refuse some of it, but by then the first has been written.
        detail::check_workspace(options.workspace, "q", q);
        detail::check_workspace(options.workspace, "k", k);
        detail::check_workspace(options.workspace, "dout", dout);
        detail::check_workspace(options.workspace, "dq", dq);
        detail::check_workspace(options.workspace, "dk", dk);
        if (const std::size_t needed = scores_backward_workspace_bytes(q, k, dout, dq, dk, options); given < needed)
            detail::refuse_workspace(given, needed);
    }
    detail::compute_scores(dout, detail::transposed(k), dq, options);
    detail::compute_scores(detail::transposed(all_dout), detail::transposed(all_q), dk, options);
}

/// The same, into new tensors.
template <class Q, class K, class DOut>
    requires same_scalar<Q, K> && same_scalar<Q, DOut>
[[nodiscard]] scores_gradients<scalar_of<Q>> batched_scores_backward(const Q& q, const K& k, const DOut& dout,
                                                                     const scores_options& options = {}) {
    detail::check_backward_inputs(q.shape(), k.shape(), dout.shape());
    using gradient = tensor<scalar_of<Q>>;
    scores_gradients<scalar_of<Q>> result{gradient(q.shape(), uninitialized), gradient(k.shape(), uninitialized)};
    batched_scores_backward(q, k, dout, result.dq, result.dk, options);
    return result;
}

/// The readable twin: two Eigen products for each head of q, the gradients of `batched_scores_loop(q, k)`. Grouped
/// heads may lie anywhere.
template <class Q, class K, class DOut, class DQ, class DK>
    requires same_scalar<Q, K> && same_scalar<Q, DOut> && output_for<DQ, scalar_of<Q>> && output_for<DK, scalar_of<Q>>
void batched_scores_backward_loop(const Q& q_like, const K& k_like, const DOut& dout_like, DQ&& dq_like, DK&& dk_like) {
    const tensor_view<const scalar_of<Q>> q = as_view(q_like), k = as_view(k_like), dout = as_view(dout_like);
    const tensor_view<scalar_of<Q>> dq = as_view(dq_like), dk = as_view(dk_like);
    detail::check_backward<scalar_of<Q>>(q, k, dout, dq, dk);
    for (std::ptrdiff_t b = 0; b < k.shape()[0]; ++b)
        for (std::ptrdiff_t shared = 0; shared < k.shape()[1]; ++shared) {
            dk.head(b, shared).setZero();
            const std::ptrdiff_t group = q.shape()[1] / k.shape()[1];
            for (std::ptrdiff_t h = shared * group; h < (shared + 1) * group; ++h) {
                dq.head(b, h).noalias() = dout.head(b, h) * k.head(b, shared);
                dk.head(b, shared).noalias() += dout.head(b, h).transpose() * q.head(b, h);
            }
        }
}

/// The same, into new tensors.
template <class Q, class K, class DOut>
    requires same_scalar<Q, K> && same_scalar<Q, DOut>
[[nodiscard]] scores_gradients<scalar_of<Q>> batched_scores_backward_loop(const Q& q, const K& k, const DOut& dout) {
    detail::check_backward_inputs(q.shape(), k.shape(), dout.shape());
    using gradient = tensor<scalar_of<Q>>;
    scores_gradients<scalar_of<Q>> result{gradient(q.shape(), uninitialized), gradient(k.shape(), uninitialized)};
    batched_scores_backward_loop(q, k, dout, result.dq, result.dk);
    return result;
}

}  // namespace headwise
