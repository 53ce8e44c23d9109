// The door: what the operations check before they write. Refusals name the argument, the values and the rule.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <headwise/attributes.hpp>
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

/// The sum of the steps that lead backwards: 0 or less.
[[nodiscard]] HEADWISE_COLD inline std::ptrdiff_t lowest_offset(shape4 n, strides4 s) noexcept {
    std::ptrdiff_t low = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (s[axis] < 0) low += (n[axis] - 1) * s[axis];
    return low;
}

/// Of a view, or a tensor, that is not empty.
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE byte_range memory_of(const tensor_view<Scalar>& view) noexcept {
    const shape4& n = view.shape();
    const strides4& s = view.strides();
    const auto base = reinterpret_cast<std::uintptr_t>(view.data());
    const std::ptrdiff_t sum = (n[0] - 1) * s[0] + (n[1] - 1) * s[1] + (n[2] - 1) * s[2] + (n[3] - 1) * s[3];
    const std::ptrdiff_t low = (s[0] | s[1] | s[2] | s[3]) < 0 ? lowest_offset(n, s) : 0;
    return {base + static_cast<std::uintptr_t>(low) * sizeof(Scalar),
            base + static_cast<std::uintptr_t>(sum - low + 1) * sizeof(Scalar)};
}
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE byte_range memory_of(const tensor<Scalar>& owner) noexcept {
    const shape4& n = owner.shape();
    const auto base = reinterpret_cast<std::uintptr_t>(owner.data());
    return {base, base + static_cast<std::uintptr_t>(n[0] * n[1] * n[2] * n[3]) * sizeof(Scalar)};
}

/// A view's axis of the shortest steps: from its lowest element on, how far it reaches. Into `g`, the common divisor of
/// all other steps.
template <class Scalar>
[[nodiscard]] std::pair<const Scalar*, std::ptrdiff_t> innermost_axis(const tensor_view<Scalar>& view,
                                                                      std::ptrdiff_t& g) noexcept {
    const Scalar* lowest = view.data();
    std::ptrdiff_t step = 0, reach = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
        const std::ptrdiff_t stride = view.strides()[axis];
        if (view.shape()[axis] == 1 || stride == 0) continue;
        const std::ptrdiff_t length = stride < 0 ? -stride : stride, all = (view.shape()[axis] - 1) * length;
        if (stride < 0) lowest -= all;
        const bool shorter = step == 0 || length < step;
        g = std::gcd(g, shorter ? step : length);
        if (shorter) step = length, reach = all;
    }
    return {lowest, reach};
}

/// Two views whose ranges meet may still share no element: columns [0, D) and [D, 2D) of one buffer of rows. Every
/// other step is a multiple of their common divisor g, so the innermost axes must only be apart modulo g. Sound, not
/// complete.
template <class A, class B>
[[nodiscard]] HEADWISE_COLD bool interleave(tensor_view<A> a, tensor_view<B> b) noexcept {
    if (sizeof(A) != sizeof(B)) return false;
    std::ptrdiff_t g = 0;
    const auto [a_first, a_reach] = innermost_axis(a, g);
    const auto [b_first, b_reach] = innermost_axis(b, g);
    const std::ptrdiff_t bytes_apart = reinterpret_cast<const char*>(b_first) - reinterpret_cast<const char*>(a_first);
    if (g == 0 || bytes_apart % static_cast<std::ptrdiff_t>(sizeof(A)) != 0) return false;
    const std::ptrdiff_t offset = ((bytes_apart / static_cast<std::ptrdiff_t>(sizeof(A))) % g + g) % g;
    return a_reach < offset && offset + b_reach < g;
}

/// Whether two tensors or views that are not empty share an element; `a_memory` is `memory_of(a)`.
template <tensor_like A, tensor_like B>
[[nodiscard]] HEADWISE_INLINE bool meet(const byte_range& a_memory, const A& a, const B& b) noexcept {
    return a_memory.meets(memory_of(b)) && !interleave(as_view(a), as_view(b));
}

template <tensor_like A, tensor_like B>
[[nodiscard]] bool overlap(const A& a, const B& b) noexcept {
    return !is_empty(a.shape()) && !is_empty(b.shape()) && meet(memory_of(a), a, b);
}

/// True when no two indices of a view share an element, decided by nesting: each stride, in order of size, must step
/// over all that the smaller ones reach. (Exotic interlocking strides are taken for overlapping.)
[[nodiscard]] HEADWISE_COLD inline bool strides_nest(shape4 n, strides4 s) noexcept {
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    // An axis of one element takes no step, whatever its stride.
    const auto step = [&](std::size_t axis) { return n[axis] == 1 ? 0 : s[axis] < 0 ? -s[axis] : s[axis]; };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
    std::ptrdiff_t reach = 0;
    for (const std::size_t axis : order) {
        if (n[axis] == 1) continue;
        if (step(axis) <= reach) return false;
        reach += (n[axis] - 1) * step(axis);
    }
    return true;
}

template <class Scalar>
[[nodiscard]] HEADWISE_INLINE bool elements_are_distinct(const tensor_view<Scalar>& view) noexcept {
    const shape4& n = view.shape();
    const strides4& s = view.strides();
    if (is_empty(n)) return true;  // first: the strides of an empty view are unchecked, their products may overflow
    const bool dense_or_padded = s[3] == 1 && s[2] >= n[3] && s[1] >= n[2] * s[2] && s[0] >= n[1] * s[1];
    return dense_or_padded || strides_nest(n, s);
}
template <class Scalar>
[[nodiscard]] constexpr bool elements_are_distinct(const tensor<Scalar>&) noexcept {
    return true;
}

/// batched scores: q (B, Hq, L, D), k (B, Hkv, M, D), Hq a multiple of Hkv, out (B, Hq, L, M).
[[nodiscard]] constexpr shape4 scores_shape(const shape4& q, const shape4& k) noexcept {
    return {q[0], q[1], q[2], k[2]};
}

// The checks cost a small call a few nanoseconds, so they are inlined; the rare rest is not, and takes its arguments by
// value: a view whose address is taken cannot stay in registers (measured: 25 -> 19 ns for a whole call of 4x4x8).
[[noreturn]] HEADWISE_COLD inline void refuse_inputs(shape4 q, shape4 k, const char* rule) {
    refuse(std::string("q ") + text_of(q) + " and k " + text_of(k) + rule);
}
/// Heads may be grouped: refuses all else.
HEADWISE_COLD inline void check_grouped_inputs(shape4 q, shape4 k) {
    if (q[0] != k[0]) refuse_inputs(q, k, " must have the same batch size B (axis 0)");
    if (q[3] != k[3]) refuse_inputs(q, k, " must have the same depth D (axis 3)");
    if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
        refuse_inputs(q, k, ": the number of heads H (axis 1) of q must be a multiple of that of k");
}
[[noreturn]] HEADWISE_COLD inline void refuse_shape(const char* name, shape4 shape, const char* of, shape4 expected) {
    refuse(std::string(name) + " " + text_of(shape) + " must have the shape of " + of + ", " + text_of(expected));
}
[[noreturn]] HEADWISE_COLD inline void refuse_strides(const char* name, shape4 shape, strides4 strides) {
    refuse(std::string(name) + " " + text_of(shape) + " with strides " + text_of(strides) +
           ": its elements overlap one another; each must have an address of its own");
}
[[noreturn]] HEADWISE_COLD inline void refuse_overlap(shape4 out, const char* name, shape4 input) {
    refuse(std::string("out ") + text_of(out) + " overlaps the memory of " + name + " " + text_of(input) +
           "; the result needs memory of its own");
}

HEADWISE_INLINE void check_scores_inputs(const shape4& q, const shape4& k) {
    if (((q[0] ^ k[0]) | (q[1] ^ k[1]) | (q[3] ^ k[3])) != 0) [[unlikely]]
        check_grouped_inputs(q, k);
}

/// How many heads of checked q share each head of k.
[[nodiscard]] constexpr std::ptrdiff_t group_size(const shape4& q, const shape4& k) noexcept {
    return q[1] == k[1] ? 1 : q[1] / k[1];
}

template <tensor_like Out>
HEADWISE_INLINE void check_output(const Out& out, const shape4& expected) {
    const shape4& n = out.shape();
    if (((n[0] ^ expected[0]) | (n[1] ^ expected[1]) | (n[2] ^ expected[2]) | (n[3] ^ expected[3])) != 0) [[unlikely]]
        refuse_shape("out", n, "the result", expected);
    if (!elements_are_distinct(out)) [[unlikely]]
        refuse_strides("out", n, out.strides());
}
/// The same of an output with a name of its own, which has the shape of something else: of "q", say.
template <tensor_like Out>
void check_output(const char* name, const Out& out, const char* of, const shape4& expected) {
    if (out.shape() != expected) refuse_shape(name, out.shape(), of, expected);
    if (!elements_are_distinct(out)) refuse_strides(name, out.shape(), out.strides());
}

/// All that batched scores asks of its arguments. q and k may overlap each other, and be the same.
template <tensor_like Q, tensor_like K, tensor_like Out>
HEADWISE_INLINE void check_scores(const Q& q, const K& k, const Out& out) {
    check_scores_inputs(q.shape(), k.shape());
    check_output(out, scores_shape(q.shape(), k.shape()));
    if (is_empty(out.shape()) || q.shape()[3] == 0) return;  // nothing is written, or nothing is read
    const byte_range written = memory_of(out);
    if (meet(written, out, q)) [[unlikely]]
        refuse_overlap(out.shape(), "q", q.shape());
    if (meet(written, out, k)) [[unlikely]]
        refuse_overlap(out.shape(), "k", k.shape());
}

/// Memory to work in, of the caller's, shares none with a tensor, from its first byte to its last.
template <tensor_like View>
HEADWISE_COLD void check_workspace(std::span<const std::byte> workspace, const char* name, const View& view) {
    const auto first = reinterpret_cast<std::uintptr_t>(workspace.data());
    if (is_empty(view.shape()) || !memory_of(view).meets({first, first + workspace.size()})) return;
    refuse(std::string("options.workspace overlaps the memory of ") + name + " " + text_of(view.shape()) +
           "; it must be memory of its own");
}

}  // namespace headwise::detail
