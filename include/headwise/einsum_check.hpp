// The door of einsum: extents and memory of the operands. Refusals quote the formula and name the index.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <headwise/attributes.hpp>
#include <headwise/contract.hpp>
#include <headwise/einsum_formula.hpp>
#include <headwise/error.hpp>
#include <headwise/tensor.hpp>

namespace headwise::detail {

struct einsum_operand {
    const char* name;
    axis_names names;
    shape4 shape;
    [[nodiscard]] std::string text() const { return std::string(name) + " " + text_of(shape); }
};

inline void check_unnamed(const einsum_formula& formula, const einsum_operand& x) {
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (x.names[axis] == '\0' && x.shape[axis] != 1)
            refuse(formula_text(formula.text) + x.text() + " has extent " + std::to_string(x.shape[axis]) +
                   " at axis " + std::to_string(axis) + ", which the formula does not name; it must be 1");
}

inline void check_common(const einsum_formula& formula, const einsum_operand& x, const einsum_operand& y) {
    for (std::size_t axis = 0; axis < 4; ++axis) {
        const char index = x.names[axis];
        if (index == '\0' || !has(y.names, index)) continue;
        const std::ptrdiff_t other = y.shape[static_cast<std::size_t>(axis_of(y.names, index))];
        if (x.shape[axis] != other)
            refuse(formula_text(formula.text) + "index '" + index + "' has extent " + std::to_string(x.shape[axis]) +
                   " in " + x.text() + " and " + std::to_string(other) + " in " + y.text());
    }
}

/// Every index has one extent, every axis without an index has extent 1.
HEADWISE_COLD inline void check_einsum_inputs(const einsum_formula& formula, shape4 a_shape, shape4 b_shape) {
    const einsum_operand a{"a", formula.a, a_shape}, b{"b", formula.b, b_shape};
    check_unnamed(formula, a);
    check_unnamed(formula, b);
    check_common(formula, a, b);
}
HEADWISE_COLD inline void check_einsum_extents(const einsum_formula& formula, shape4 a_shape, shape4 b_shape,
                                               shape4 out_shape) {
    check_einsum_inputs(formula, a_shape, b_shape);
    const einsum_operand out{"out", formula.out, out_shape};
    check_unnamed(formula, out);
    check_common(formula, {"a", formula.a, a_shape}, out);
    check_common(formula, {"b", formula.b, b_shape}, out);
}

/// The same, quickly, for operands of a formula with one index of each kind.
[[nodiscard]] HEADWISE_INLINE bool inputs_fit(const product_names& names, const shape4& q, const shape4& k) noexcept {
    const auto unless_one = [](char name, std::ptrdiff_t extent) { return name == '\0' ? extent ^ 1 : 0; };
    return ((q[0] ^ k[0]) | (q[1] ^ k[1]) | (q[3] ^ k[3]) | unless_one(names.first, q[0]) |
            unless_one(names.second, q[1]) | unless_one(names.row, q[2]) | unless_one(names.column, k[2]) |
            unless_one(names.depth, q[3])) == 0;
}
[[nodiscard]] HEADWISE_INLINE bool extents_fit(const product_names& names, const shape4& q, const shape4& k,
                                               const shape4& out) noexcept {
    return inputs_fit(names, q, k) && ((out[0] ^ q[0]) | (out[1] ^ q[1]) | (out[2] ^ q[2]) | (out[3] ^ k[2])) == 0;
}

[[noreturn]] HEADWISE_COLD inline void refuse_einsum_strides(const einsum_formula& formula, shape4 out,
                                                             strides4 strides) {
    refuse(formula_text(formula.text) + "out " + text_of(out) + " with strides " + text_of(strides) +
           ": its elements overlap one another; each must have an address of its own");
}
[[noreturn]] HEADWISE_COLD inline void refuse_einsum_overlap(const einsum_formula& formula, shape4 out,
                                                             const char* name, shape4 input) {
    refuse(formula_text(formula.text) + "out " + text_of(out) + " overlaps the memory of " + name + " " +
           text_of(input) + "; the result needs memory of its own");
}

/// The elements of out are distinct, and none of a's or b's.
template <tensor_like A, tensor_like B, tensor_like Out>
HEADWISE_INLINE void check_einsum_memory(const einsum_formula& formula, const A& a, const B& b, const Out& out) {
    if (!elements_are_distinct(out)) [[unlikely]]
        refuse_einsum_strides(formula, out.shape(), out.strides());
    if (is_empty(out.shape()) || is_empty(a.shape()) || is_empty(b.shape())) return;  // nothing is written, or read
    const byte_range written = memory_of(out);
    if (meet(written, out, a)) [[unlikely]]
        refuse_einsum_overlap(formula, out.shape(), "a", a.shape());
    if (meet(written, out, b)) [[unlikely]]
        refuse_einsum_overlap(formula, out.shape(), "b", b.shape());
}

}  // namespace headwise::detail
