// Attention over shards of the keys, put together: what each shard gives with its log-sum-exp is enough.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include <headwise/attention_options.hpp>

namespace headwise {

/// A result with the log-sum-exp of its rows.
template <class Scalar>
struct attention_part {
    tensor<Scalar> out;  ///< (B, H, L, Dv)
    tensor<Scalar> lse;  ///< (B, H, L, 1)
};

namespace detail {

template <class Scalar>
HEADWISE_COLD void check_part(const char* name, const tensor_view<const Scalar>& out,
                              const tensor_view<const Scalar>& lse, const shape4& shape) {
    const shape4 rows{shape[0], shape[1], shape[2], 1};
    if (out.shape() != shape)
        refuse(std::string("out_") + name + " " + text_of(out.shape()) + " must have the shape of out_a, " +
               text_of(shape));
    if (lse.shape() != rows)
        refuse(std::string("lse_") + name + " " + text_of(lse.shape()) +
               " must have the shape (B, H, L, 1) = " + text_of(rows));
}

/// The same elements in the same order.
template <class A, class B>
[[nodiscard]] bool same_view(const tensor_view<A>& a, const tensor_view<B>& b) noexcept {
    return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

}  // namespace detail

/// What attention to the keys of two shards together gives, from what it gives to each: with w = e^(lse - log(e^lse_a +
/// e^lse_b)), out = w_a out_a + w_b out_b. A shard in which a row saw nothing (lse minus infinity) does not count.
///
/// out_a, out_b, out (B, H, L, Dv), lse_a, lse_b, lse (B, H, L, 1); any strides. out and lse may be out_a and lse_a
/// themselves, to gather one shard after the other; otherwise they share no memory with the rest. Throws
/// `std::invalid_argument` on anything else, before anything is written.
template <class A, class LseA, class B, class LseB, class Out, class Lse, class Scalar = scalar_of<A>>
    requires same_scalar<A, LseA> && same_scalar<A, B> && same_scalar<A, LseB> && output_for<Out, Scalar> &&
        output_for<Lse, Scalar>
void merge_attention(const A& out_a, const LseA& lse_a, const B& out_b, const LseB& lse_b, Out&& out_like,
                     Lse&& lse_like) {
    const tensor_view<const Scalar> a = as_view(out_a), b = as_view(out_b), of_a = as_view(lse_a),
                                    of_b = as_view(lse_b);
    const tensor_view<Scalar> out = as_view(out_like), lse = as_view(lse_like);
    detail::check_part("a", a, of_a, a.shape());
    detail::check_part("b", b, of_b, a.shape());
    detail::check_output(out, a.shape());
    detail::check_output(lse, of_a.shape());
    if (!detail::same_view(out, a)) detail::check_apart("out", out, "out_a", a);
    if (!detail::same_view(lse, of_a)) detail::check_apart("lse", lse, "lse_a", of_a);
    for (const auto* output : {&out, &lse}) {
        detail::check_apart(output == &out ? "out" : "lse", *output, "out_b", b);
        detail::check_apart(output == &out ? "out" : "lse", *output, "lse_b", of_b);
    }
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
                for (std::ptrdiff_t d = 0; d < D; ++d)
                    out(i, h, l, d) =
                        (w_a == 0 ? Scalar(0) : w_a * a(i, h, l, d)) + (w_b == 0 ? Scalar(0) : w_b * b(i, h, l, d));
            }
}

/// The same, into new tensors.
template <class A, class LseA, class B, class LseB>
    requires same_scalar<A, LseA> && same_scalar<A, B> && same_scalar<A, LseB>
[[nodiscard]] attention_part<scalar_of<A>> merge_attention(const A& out_a, const LseA& lse_a, const B& out_b,
                                                           const LseB& lse_b) {
    attention_part<scalar_of<A>> merged{tensor<scalar_of<A>>(out_a.shape(), uninitialized),
                                        tensor<scalar_of<A>>(lse_a.shape(), uninitialized)};
    merge_attention(out_a, lse_a, out_b, lse_b, merged.out, merged.lse);
    return merged;
}

}  // namespace headwise
