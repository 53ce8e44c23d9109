// The formula of an einsum of two operands, "bhld,bhmd->bhlm": read and checked when the program is compiled, where it
// is a literal.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include <headwise/attributes.hpp>
#include <headwise/error.hpp>

namespace headwise {

/// Asks for a formula that is only known at run time: `einsum(runtime_formula(text), a, b)`. What it refuses, it
/// refuses then. The text must live as long as the formula: errors quote it.
struct runtime_formula {
    explicit constexpr runtime_formula(std::string_view formula) noexcept : text(formula) {}
    std::string_view text;
};

namespace detail {

/// Where the message about a formula begins.
[[nodiscard]] inline std::string formula_text(std::string_view text) {
    return std::string("einsum(\"").append(text) + "\"): ";
}

/// Not constexpr: where a formula is read at compile time, a call is the compiler's error, and shows the message.
[[noreturn]] HEADWISE_COLD inline void refuse_formula(std::string_view text, const char* why) {
    refuse(formula_text(text) + why);
}
[[noreturn]] HEADWISE_COLD inline void refuse_character(std::string_view text, char character) {
    refuse(formula_text(text) + "'" + character + "' is no index: those are the letters a-z and A-Z");
}
[[noreturn]] HEADWISE_COLD inline void refuse_index(std::string_view text, char index, const char* why) {
    refuse(formula_text(text) + "index '" + index + "' " + why);
}

/// The indices of the axes of a tensor, '\0' for those that the formula does not name: the leading ones.
using axis_names = std::array<char, 4>;
/// An order of the axes of a tensor.
using axis_order = std::array<unsigned char, 4>;

[[nodiscard]] constexpr int axis_of(const axis_names& names, char index) noexcept {
    for (int axis = 0; axis < 4; ++axis)
        if (names[static_cast<std::size_t>(axis)] == index) return axis;
    return -1;
}
[[nodiscard]] constexpr bool has(const axis_names& names, char index) noexcept { return axis_of(names, index) >= 0; }

/// The axes of a batched product, and where its operands have them: q (first, second, row, depth), k (first, second,
/// column, depth), out (first, second, row, column).
struct product_names {
    char first = '\0', second = '\0', row = '\0', column = '\0', depth = '\0';
    bool one_each = true;  // at most two batch indices, and one of every other kind
};

}  // namespace detail

/// A formula that has been read and found to be a batched matrix product. Made from a string literal, at compile time:
/// a bad one does not compile, and the compiler's message shows why. Made from a `runtime_formula`, at run time: a bad
/// one is a `std::invalid_argument` that quotes it; keep the object to read it only once (about 100 ns).
///
/// `a,b->out`: one letter, a-z or A-Z, for each axis, at most four in each place; spaces are skipped. Fewer than four
/// name the last axes, and the extents of those before them must be 1. Every index is of one of four kinds:
///
///     batch        in a, b and out
///     row, column  in a and out, in b and out
///     summed       in a and b alone
///
/// There may be any number of each, none too: "i,j->ij" sums over nothing, and is a product of depth 1. Refused are an
/// index that is twice in one place (a diagonal, a trace), one that is in a or in b alone (its sum is no product), one
/// of the result that is in neither, "...", and a formula without "->": what it would sum over is easily misread.
class einsum_formula {
public:
    template <class Text>
        requires std::convertible_to<const Text&, std::string_view>
    consteval einsum_formula(const Text& formula) : einsum_formula(runtime_formula(formula)) {}

    constexpr einsum_formula(runtime_formula formula) : text(formula.text) {
        read_terms();
        check_indices();
        const char last = out[3];
        exchanged = last != '\0' && detail::has(a, last) && !detail::has(b, last);
        find_product();
    }

    std::string_view text;
    detail::axis_names a{}, b{}, out{};

    // How it is computed: a batched product of q and k. They are a and b or, `exchanged`, b and a: so that the last
    // index of the result, which most often has unit stride, is a column. Of a product with one index of each kind:
    bool exchanged = false;
    detail::product_names product;
    detail::axis_order q_order{}, k_order{}, out_order{};  // the operands' axes in the product's order
    bool in_order = false;                                 // a, b and out have it as they are
    std::array<unsigned char, 4> out_extents{};  // where an extent of out is: axis 0-3 of a, 4-7 of b, 8: it is 1

private:
    constexpr void read_terms() {
        const std::size_t arrow = text.find("->");
        if (text.find("...") != text.npos) detail::refuse_formula(text, "\"...\" is not done: name every axis");
        if (arrow == text.npos) detail::refuse_formula(text, "has no \"->\": write the indices of the result after it");
        const std::string_view operands = text.substr(0, arrow);
        const std::size_t comma = operands.find(',');
        if (comma == operands.npos || operands.find(',', comma + 1) != operands.npos)
            detail::refuse_formula(text, "must have two operands, with one comma between them");
        a = read(operands.substr(0, comma));
        b = read(operands.substr(comma + 1));
        out = read(text.substr(arrow + 2));
    }

    [[nodiscard]] constexpr detail::axis_names read(std::string_view term) const {
        detail::axis_names names{};
        for (const char c : term) {
            if (c == ' ') continue;
            if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) detail::refuse_character(text, c);
            if (detail::has(names, c))
                detail::refuse_index(text, c, "is twice in one place: diagonals and traces are not done");
            if (names[0] != '\0') detail::refuse_index(text, c, "is one too many: tensors have four axes");
            names = {names[1], names[2], names[3], c};
        }
        return names;
    }

    constexpr void check_indices() const {
        for (const char c : out)
            if (c != '\0' && !detail::has(a, c) && !detail::has(b, c))
                detail::refuse_index(text, c, "of the result is in no operand");
        for (const char c : a)
            if (c != '\0' && !detail::has(b, c) && !detail::has(out, c))
                detail::refuse_index(text, c, "is in a alone: sum over it first");
        for (const char c : b)
            if (c != '\0' && !detail::has(a, c) && !detail::has(out, c))
                detail::refuse_index(text, c, "is in b alone: sum over it first");
    }

    constexpr void find_product() {
        const detail::axis_names& q = exchanged ? b : a;
        const detail::axis_names& k = exchanged ? a : b;
        for (std::size_t axis = 0; axis < 4; ++axis) {
            if (const char c = out[axis]; c != '\0') {
                if (!detail::has(k, c)) take(product.row, c);
                else if (!detail::has(q, c)) take(product.column, c);
                else take_batch(c);
            }
            if (const char c = q[axis]; c != '\0' && !detail::has(out, c)) take(product.depth, c);
            out_extents[axis] = static_cast<unsigned char>(extent_of(out[axis]));
        }
        if (!product.one_each) return;
        q_order = order_of(q, {product.first, product.second, product.row, product.depth});
        k_order = order_of(k, {product.first, product.second, product.column, product.depth});
        out_order = order_of(out, {product.first, product.second, product.row, product.column});
        constexpr detail::axis_order same{0, 1, 2, 3};
        in_order = !exchanged && q_order == same && k_order == same && out_order == same;
    }

    constexpr void take(char& place, char index) noexcept {
        if (place != '\0') product.one_each = false;
        place = index;
    }
    constexpr void take_batch(char index) noexcept {
        if (product.second != '\0') take(product.first, product.second);
        product.second = index;
    }

    [[nodiscard]] constexpr int extent_of(char index) const noexcept {
        if (index == '\0') return 8;
        return detail::has(a, index) ? detail::axis_of(a, index) : 4 + detail::axis_of(b, index);
    }

    /// The axes of `wanted`, those without a name in the places that the others leave.
    [[nodiscard]] static constexpr detail::axis_order order_of(const detail::axis_names& names,
                                                               const detail::axis_names& wanted) noexcept {
        detail::axis_order order{};
        unsigned char unnamed = 0;
        for (std::size_t i = 0; i < 4; ++i)
            order[i] = wanted[i] != '\0' ? static_cast<unsigned char>(detail::axis_of(names, wanted[i])) : unnamed++;
        return order;
    }
};

}  // namespace headwise
