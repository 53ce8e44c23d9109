// The door: what the operations check before they write. Refusals name the argument, the values and the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include <headwise/error.hpp>
#include <headwise/tensor.hpp>

namespace headwise::detail {

/// The memory that a view may touch: addresses [first, last), empty for an empty view.
struct byte_range {
    std::uintptr_t first = 0, last = 0;
    [[nodiscard]] constexpr bool meets(const byte_range& other) const noexcept {
        return first < other.last && other.first < last;
    }
};

template <class Scalar>
[[nodiscard]] byte_range memory_of(const tensor_view<Scalar>& view) noexcept {
    std::ptrdiff_t low = 0, high = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
        if (view.shape()[axis] == 0) return {};
        const std::ptrdiff_t reach = (view.shape()[axis] - 1) * view.strides()[axis];
        (reach < 0 ? low : high) += reach;
    }
    const auto base = reinterpret_cast<std::uintptr_t>(view.data());
    return {base + static_cast<std::uintptr_t>(low) * sizeof(Scalar),
            base + static_cast<std::uintptr_t>(high + 1) * sizeof(Scalar)};
}

/// Two views whose ranges meet may still share no element: columns [0, D) and [D, 2D) of one buffer of rows. Every outer
/// stride is a multiple of their common divisor g, so the last axes must only be apart modulo g. Sound, not complete.
template <class A, class B>
[[nodiscard]] bool disjoint_columns(const tensor_view<A>& a, const tensor_view<B>& b) noexcept {
    if (sizeof(A) != sizeof(B) || a.strides()[3] < 0 || b.strides()[3] < 0) return false;
    std::ptrdiff_t g = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
        if (a.shape()[axis] > 1) g = std::gcd(g, a.strides()[axis]);
        if (b.shape()[axis] > 1) g = std::gcd(g, b.strides()[axis]);
    }
    const std::ptrdiff_t bytes_apart = reinterpret_cast<const char*>(b.data()) - reinterpret_cast<const char*>(a.data());
    if (g == 0 || bytes_apart % static_cast<std::ptrdiff_t>(sizeof(A)) != 0) return false;
    const std::ptrdiff_t offset = ((bytes_apart / static_cast<std::ptrdiff_t>(sizeof(A))) % g + g) % g;
    const std::ptrdiff_t a_reach = (a.shape()[3] - 1) * a.strides()[3], b_reach = (b.shape()[3] - 1) * b.strides()[3];
    return a_reach < offset && offset + b_reach < g;
}

template <class A, class B>
[[nodiscard]] bool overlap(const tensor_view<A>& a, const tensor_view<B>& b) noexcept {
    return memory_of(a).meets(memory_of(b)) && !disjoint_columns(a, b);
}

/// True when no two indices of a view share an element, decided by nesting: each stride, in order of size, must step
/// over all that the smaller ones reach. (Exotic interlocking strides are taken for overlapping.)
template <class Scalar>
[[nodiscard]] bool elements_are_distinct(const tensor_view<Scalar>& view) noexcept {
    const shape4& n = view.shape();
    const strides4& s = view.strides();
    if (s[3] == 1 && s[2] >= n[3] && s[1] >= n[2] * s[2] && s[0] >= n[1] * s[1]) return true;  // dense, or padded
    if (view.size() == 0) return true;
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    const auto step = [&s](std::size_t axis) { return s[axis] < 0 ? -s[axis] : s[axis]; };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
    std::ptrdiff_t reach = 0;
    for (const std::size_t axis : order) {
        if (n[axis] == 1) continue;
        if (step(axis) <= reach) return false;
        reach += (n[axis] - 1) * step(axis);
    }
    return true;
}

/// batched scores: q (B, H, L, D), k (B, H, M, D), out (B, H, L, M).
[[nodiscard]] constexpr shape4 scores_shape(const shape4& q, const shape4& k) noexcept {
    return {q[0], q[1], q[2], k[2]};
}

inline void check_scores_inputs(const shape4& q, const shape4& k) {
    if (q[0] == k[0] && q[1] == k[1] && q[3] == k[3]) [[likely]]
        return;
    const char* axis = q[0] != k[0] ? "batch size B (axis 0)" : q[1] != k[1] ? "number of heads H (axis 1)"
                                                                             : "depth D (axis 3)";
    refuse("q " + text_of(q) + " and k " + text_of(k) + " must have the same " + axis);
}

template <class Scalar>
void check_output(const tensor_view<Scalar>& out, const shape4& expected) {
    if (out.shape() != expected) [[unlikely]]
        refuse("out " + text_of(out.shape()) + " must have the shape of the result, " + text_of(expected));
    if (!elements_are_distinct(out)) [[unlikely]]
        refuse("out " + text_of(out.shape()) + " with strides " + text_of(out.strides()) +
               ": its elements overlap one another; each must have an address of its own");
}

template <class Out, class In>
void check_no_overlap(const tensor_view<Out>& out, const tensor_view<In>& input, const char* name) {
    if (overlap(out, input)) [[unlikely]]
        refuse("out " + text_of(out.shape()) + " overlaps the memory of " + name + " " + text_of(input.shape()) +
               "; the result needs memory of its own");
}

/// All that batched scores asks of its arguments. q and k may overlap each other, and be the same.
template <class Scalar>
void check_scores(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k,
                  const tensor_view<Scalar>& out) {
    check_scores_inputs(q.shape(), k.shape());
    check_output(out, scores_shape(q.shape(), k.shape()));
    check_no_overlap(out, q, "q");
    check_no_overlap(out, k, "k");
}

}  // namespace headwise::detail
