// Attention over shards of the keys, put together: what each shard gives with its log-sum-exp is enough.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include <headwise/attention_options.hpp>

namespace headwise {

/// A result with the log-sum-exp of its rows.
template <class Scalar>
struct attention_part {
    tensor<Scalar> out;                    ///< (B, H, L, Dv)
    tensor<attention_scalar<Scalar>> lse;  ///< (B, H, L, 1)
};

namespace detail {

template <class Part, class Scalar>
HEADWISE_COLD void check_part(const char* name, const tensor_view<const Part>& out,
                              const tensor_view<const Scalar>& lse, const shape4& shape) {
    const shape4 rows{shape[0], shape[1], shape[2], 1};
    if (out.shape() != shape)
        refuse(std::string("out_") + name + " " + text_of(out.shape()) + " must have the shape of out_a, " +
               text_of(shape));
    if (lse.shape() != rows)
        refuse(std::string("lse_") + name + " " + text_of(lse.shape()) +
               " must have the shape (B, H, L, 1) = " + text_of(rows));
}

/// The same elements in the same order. Along one element no step is taken: its stride does not count.
template <class A, class B>
[[nodiscard]] bool same_view(const tensor_view<A>& a, const tensor_view<B>& b) noexcept {
    if (!std::is_same_v<A, std::remove_const_t<B>> || static_cast<const void*>(a.data()) != b.data() ||
        a.shape() != b.shape())
        return false;
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (a.shape()[axis] > 1 && a.strides()[axis] != b.strides()[axis]) return false;
    return true;
}

}  // namespace detail

/// What attention to the keys of two shards together gives, from what it gives to each: with w = e^(lse - log(e^lse_a +
/// e^lse_b)), out = w_a out_a + w_b out_b. A shard in which a row saw nothing (lse minus infinity) does not count.
///
/// out_a, out_b, out (B, H, L, Dv), lse_a, lse_b, lse (B, H, L, 1); any strides. out and lse may be out_a and lse_a
/// themselves, to gather one shard after the other; otherwise they share no memory with the rest. Of float or double,
/// or with lse of float of sixteen-bit types: shards and out each of float or of one of these, computed in float, out
/// rounded once a call. (Gather in float, and have the last call write the sixteen bits.) Throws
/// `std::invalid_argument` on anything else, before anything is written.
template <class A, class LseA, class B, class LseB, class Out, class Lse, class Scalar = attention_scalar<scalar_of<A>>>
    requires same_scalar<A, B> && same_scalar<LseA, LseB> && std::same_as<scalar_of<LseA>, Scalar> &&
        output_for<Out, scalar_of<Out>> && std::same_as<attention_scalar<scalar_of<Out>>, Scalar> &&
        output_for<Lse, Scalar>
void merge_attention(const A& out_a, const LseA& lse_a, const B& out_b, const LseB& lse_b, Out&& out_like,
                     Lse&& lse_like) {
    using Result = scalar_of<Out>;
    const tensor_view<const scalar_of<A>> a = as_view(out_a), b = as_view(out_b);
    const tensor_view<const Scalar> of_a = as_view(lse_a), of_b = as_view(lse_b);
    const tensor_view<Result> out = as_view(out_like);
    const tensor_view<Scalar> lse = as_view(lse_like);
    detail::check_part("a", a, of_a, a.shape());
    detail::check_part("b", b, of_b, a.shape());
    detail::check_output(out, a.shape());
    detail::check_output("lse", lse, "lse_a", of_a.shape());
    if (!detail::same_view(out, a)) detail::check_apart("out", out, "out_a", a);
    if (!detail::same_view(lse, of_a)) detail::check_apart("lse", lse, "lse_a", of_a);
    detail::check_apart("out", out, "out_b", b);
    detail::check_apart("out", out, "lse_b", of_b);
    detail::check_apart("lse", lse, "out_b", b);
    detail::check_apart("lse", lse, "lse_b", of_b);
    detail::check_apart("out", out, "lse_a", of_a);
    detail::check_apart("lse", lse, "out_a", a);
    detail::check_apart("out", out, "lse", lse);

    const auto [B_, H, L, D] = a.shape();
    for (std::ptrdiff_t i = 0; i < B_; ++i)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l) {
                const Scalar x = of_a(i, h, l, 0), y = of_b(i, h, l, 0), most = x > y ? x : y;
                const Scalar safe = most == -std::numeric_limits<Scalar>::infinity() ? Scalar(0) : most;
                const Scalar e_x = std::exp(x - safe), e_y = std::exp(y - safe), sum = e_x + e_y;
                const Scalar w_a = sum == 0 ? Scalar(0) : e_x / sum, w_b = sum == 0 ? Scalar(0) : e_y / sum;
                lse(i, h, l, 0) = safe + std::log(sum);
                for (std::ptrdiff_t d = 0; d < D; ++d) {
                    const Scalar from_a = w_a == 0 ? Scalar(0) : w_a * static_cast<Scalar>(a(i, h, l, d));
                    const Scalar from_b = w_b == 0 ? Scalar(0) : w_b * static_cast<Scalar>(b(i, h, l, d));
                    out(i, h, l, d) = static_cast<Result>(from_a + from_b);
                }
            }
}

/// The same, into new tensors: out as the shards are.
template <class A, class LseA, class B, class LseB>
    requires same_scalar<A, B> && same_scalar<LseA, LseB> &&
        std::same_as<scalar_of<LseA>, attention_scalar<scalar_of<A>>>
[[nodiscard]] attention_part<scalar_of<A>> merge_attention(const A& out_a, const LseA& lse_a, const B& out_b,
                                                           const LseB& lse_b) {
    attention_part<scalar_of<A>> merged{tensor<scalar_of<A>>(out_a.shape(), uninitialized),
                                        tensor<scalar_of<LseA>>(lse_a.shape(), uninitialized)};
    merge_attention(out_a, lse_a, out_b, lse_b, merged.out, merged.lse);
    return merged;
}

}  // namespace headwise
