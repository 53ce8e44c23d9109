// einsum of two tensors: every formula that is a batched matrix product, on the fused kernels, without a copy.
#pragma once

#include <array>
#include <cstddef>

#include <headwise/attributes.hpp>
#include <headwise/contract.hpp>
#include <headwise/einsum_check.hpp>
#include <headwise/einsum_formula.hpp>
#include <headwise/einsum_merge.hpp>
#include <headwise/scores.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

namespace detail {

[[nodiscard]] HEADWISE_INLINE std::array<std::ptrdiff_t, 4> in_order(const std::array<std::ptrdiff_t, 4>& values,
                                                                     const axis_order& order) noexcept {
    return {values[order[0]], values[order[1]], values[order[2]], values[order[3]]};
}

/// The shape of the result, of inputs that fit.
[[nodiscard]] HEADWISE_INLINE shape4 einsum_shape(const einsum_formula& formula, const shape4& a,
                                                  const shape4& b) noexcept {
    const std::array<std::ptrdiff_t, 9> extents{a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], 1};
    const auto& from = formula.out_extents;
    return {extents[from[0]], extents[from[1]], extents[from[2]], extents[from[3]]};
}

}  // namespace detail

/// out = options.scale * einsum(formula, a, b), as NumPy and PyTorch define it:
///
///     einsum("bhld,bhmd->bhlm", q, k)    scores            einsum("bld,dhe->blhe", x, w)    projection into heads
///     einsum("bhlm,bhmd->bhld", p, v)    values            einsum("blhe,hed->bld", y, w)    and back
///     einsum("ij,jk->ik", a, b)          matrix product    einsum("ij,j->i", a, x)          matrix times vector
///
/// float, double, `Eigen::bfloat16` or `Eigen::half`, any strides, any alignment; of sixteen-bit types the result is of
/// the same type or float. `einsum_formula` says which formulas there are; a literal is checked when the program is
/// compiled, and costs nothing when it runs; `runtime_formula(text)` is read at each call. A formula of fewer than four
/// indices names the last axes: a matrix is (1, 1, rows, columns), a vector (1, 1, 1, n). A result that is not given
/// has its indices last too.
///
/// It is `batched_scores_vectorized` on the same memory with its axes in another order, so all that is promised there
/// holds here: out shares no memory with a or b; every output is one chain of multiply-adds, the same bits whatever the
/// options, strides and batch; a call allocates nothing in the steady state. Indices of one kind beyond those that it
/// has are merged where they step as one through memory, as in a dense tensor; rows, columns and batches that do not
/// are further heads, or a loop over calls. Summed indices that do not are refused: several sums would round otherwise.
/// Fastest are operands whose summed index has unit stride, and a result whose last index has.
///
/// Throws `std::invalid_argument` on anything else, before out is touched, with the formula, the index and both
/// extents; extents of 1 are not stretched (a stride of 0 is the way to say so).
template <class A, class B, class Out>
requires same_scalar<A, B> && product_output_for<Out, scalar_of<A>> HEADWISE_INLINE void einsum(
    einsum_formula formula, const A& a_like, const B& b_like, Out&& out_like, const scores_options& options = {}) {
    using Scalar = scalar_of<A>;
    using Result = scalar_of<Out>;
    const tensor_view<const Scalar> a = as_view(a_like), b = as_view(b_like);
    const tensor_view<Result> out = as_view(out_like);
    if (!options.workspace.empty()) [[unlikely]] {
        detail::check_workspace(options.workspace, "a", a);
        detail::check_workspace(options.workspace, "b", b);
        detail::check_workspace(options.workspace, "out", out);
    }
    if (!formula.product.one_each) return detail::einsum_merged(formula, a, b, out, options);

    if (formula.in_order) {  // nothing to permute: the direct call, to the instruction
        if (!detail::extents_fit(formula.product, a.shape(), b.shape(), out.shape())) [[unlikely]]
            detail::check_einsum_extents(formula, a.shape(), b.shape(), out.shape());
        detail::check_einsum_memory(formula, a_like, b_like, out_like);
        return detail::compute_scores(a_like, b_like, out_like, options);
    }
    const tensor_view<const Scalar> q = (formula.exchanged ? b : a).permuted(formula.q_order);
    const tensor_view<const Scalar> k = (formula.exchanged ? a : b).permuted(formula.k_order);
    const tensor_view<Result> result = out.permuted(formula.out_order);
    if (!detail::extents_fit(formula.product, q.shape(), k.shape(), result.shape())) [[unlikely]]
        detail::check_einsum_extents(formula, a.shape(), b.shape(), out.shape());
    detail::check_einsum_memory(formula, a_like, b_like, out_like);
    detail::compute_scores(q, k, result, options);
}

/// The same, into a new tensor: the extents of the result's indices, before them 1.
template <class A, class B>
    requires same_scalar<A, B>
[[nodiscard]] HEADWISE_INLINE tensor<scalar_of<A>> einsum(einsum_formula formula, const A& a, const B& b,
                                                          const scores_options& options = {}) {
    const shape4& q = formula.exchanged ? b.shape() : a.shape();
    const shape4& k = formula.exchanged ? a.shape() : b.shape();
    if (!formula.product.one_each || !detail::inputs_fit(formula.product, detail::in_order(q, formula.q_order),
                                                         detail::in_order(k, formula.k_order)))
        detail::check_einsum_inputs(formula, a.shape(), b.shape());
    tensor<scalar_of<A>> out(detail::einsum_shape(formula, a.shape(), b.shape()), uninitialized);
    einsum(formula, a, b, out, options);
    return out;
}

}  // namespace headwise
