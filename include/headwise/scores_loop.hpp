// Attention scores, the readable way: one Eigen product per (batch, head).
#pragma once

#include <headwise/contract.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

namespace detail {

/// Whether Eigen's products had better go element by element: for AVX-512 those of Eigen 3.4 count the elements from
/// one lane to another in 32 bits, and read and write elsewhere.
template <class Scalar>
[[nodiscard]] bool reaches_far(const tensor_view<Scalar>& view) noexcept {
    constexpr std::ptrdiff_t most = (std::ptrdiff_t{1} << 31) / 16 - 1;
    const auto& [batch, head, row, column] = view.strides();
    return row > most || row < -most || column > most || column < -most;
}

/// out = a b, as Eigen computes it fastest; element by element where one of them reaches far.
template <class Out, class A, class B>
void multiply(Out&& out, const A& a, const B& b, bool far) {
    if (far) out = a.lazyProduct(b);
    else out.noalias() = a * b;
}

}  // namespace detail

/// out[b,h,l,m] = sum over d of q[b,h,l,d] * k[b,h,m,d], that is einsum("bhld,bhmd->bhlm", q, k).
///
/// q (B, H, L, D), k (B, H, M, D), out (B, H, L, M); any strides. k may have fewer heads, Hkv, of which H is a
/// multiple: then head h of q meets head h / (H / Hkv) of k (grouped and multi-query attention; PyTorch's enable_gqa).
/// `out` shares no memory with q or k; q and k may be the same. D = 0 gives zeros. Of `Eigen::bfloat16` and
/// `Eigen::half` the sums are floats; out is rounded to the same type, to nearest even, or is float. Throws
/// `std::invalid_argument` on anything else, before out is touched.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void batched_scores_loop(const Q& q_like, const K& k_like, Out&& out_like) {
    using Result = scalar_of<Out>;
    const tensor_view<const scalar_of<Q>> q = as_view(q_like), k = as_view(k_like);
    const tensor_view<Result> out = as_view(out_like);
    detail::check_scores(q_like, k_like, out_like);
    if (out.size() == 0) return;

    const std::ptrdiff_t group = detail::group_size(q.shape(), k.shape());
    // The same product, over maps that Eigen need not copy (measured: 1.02 to 7 times as fast) where the rows allow it.
    const bool contiguous = q.has_contiguous_rows() && k.has_contiguous_rows() && out.has_contiguous_rows();
    const bool far = detail::reaches_far(q) || detail::reaches_far(k) || detail::reaches_far(out);
    for (std::ptrdiff_t b = 0; b < q.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0, kv = 0; h < q.shape()[1]; ++h, kv = h / group)
            if constexpr (is_sixteen_bit<scalar_of<Q>>)
                out.head(b, h) =
                    (q.head(b, h).template cast<float>() * k.head(b, kv).template cast<float>().transpose())
                        .template cast<Result>();
            else if (contiguous)
                out.contiguous_head(b, h).noalias() = q.contiguous_head(b, h) * k.contiguous_head(b, kv).transpose();
            else detail::multiply(out.head(b, h), q.head(b, h), k.head(b, kv).transpose(), far);
}

/// The same, into a new tensor (B, H, L, M).
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> batched_scores_loop(const Q& q, const K& k) {
    detail::check_scores_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::scores_shape(q.shape(), k.shape()), uninitialized);
    batched_scores_loop(q, k, out);
    return out;
}

}  // namespace headwise
