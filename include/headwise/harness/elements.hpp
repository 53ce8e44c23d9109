// What the harness can look at: strided arrays and contiguous ranges, recognised by shape, and a walk over two of them.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>

#include <headwise/error.hpp>
#include <headwise/harness/ulp.hpp>

namespace headwise {

/// A value that can be compared: an arithmetic one of up to 8 bytes (with GNU extensions __int128 is arithmetic too),
/// or a class of two bytes that converts to float (half, bfloat16). Not long double, even where that is a double.
template <class T>
concept element =
    (std::is_arithmetic_v<T> && sizeof(T) <= 8 && !std::same_as<T, long double>) || detail::small_float<T>;

/// `.data()`, `.shape()` and `.strides()` (in elements; zero and negative ones allowed), both arrays of one rank, 1
/// to 4.
template <class Array>
concept strided_array = requires(const Array& a) {
    requires element<std::remove_cvref_t<decltype(*a.data())>>;
    requires std::same_as<std::remove_cvref_t<decltype(a.shape()[0])>, std::ptrdiff_t>;
    requires std::same_as<std::remove_cvref_t<decltype(a.strides()[0])>, std::ptrdiff_t>;
    requires(std::tuple_size_v<std::remove_cvref_t<decltype(a.shape())>> >= 1);
    requires(std::tuple_size_v<std::remove_cvref_t<decltype(a.shape())>> <= 4);
};

/// Elements one after the other (std::vector, std::span, std::array, a C array). Spelled out, because the header of
/// std::ranges would cost everyone who includes this a twentieth of a second.
template <class Array>
concept contiguous_array = requires(Array& a) {
    requires std::contiguous_iterator<decltype(std::begin(a))>;
    requires element<std::remove_cvref_t<decltype(*std::data(a))>>;
    { std::size(a) } -> std::integral;
};

/// A strided array, or a contiguous one: rank 1.
template <class Array>
concept comparable_array =
    strided_array<std::remove_cvref_t<Array>> || contiguous_array<std::remove_reference_t<Array>>;

namespace detail {

using index4 = std::array<std::ptrdiff_t, 4>;

inline std::string index_text(const index4& index, int rank) {
    std::string text = "(";
    for (int i = 4 - rank; i < 4; ++i) {
        if (i > 4 - rank) text += ", ";
        text += std::to_string(index[static_cast<std::size_t>(i)]);
    }
    return text + ")";
}

/// Extents and strides, right-aligned in four places whatever the rank.
struct layout {
    index4 shape{1, 1, 1, 1};
    index4 strides{};
    int rank = 1;

    /// The other extents of an empty array may be of any size: not multiplied.
    bool empty() const noexcept { return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0; }
    std::ptrdiff_t size() const noexcept { return empty() ? 0 : shape[0] * shape[1] * shape[2] * shape[3]; }
    std::string text() const { return index_text(shape, rank); }
    std::ptrdiff_t offset(const index4& i) const noexcept {
        return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
    }
    /// The index of the i-th element in row-major order.
    index4 index(std::ptrdiff_t i) const noexcept {
        index4 result{};
        for (std::size_t d = 4; d-- > 0; i /= shape[d]) result[d] = i % shape[d];
        return result;
    }
};

template <class T>
struct elements {
    const T* data;
    layout at;
    const T& operator[](const index4& i) const noexcept { return data[at.offset(i)]; }
};

template <comparable_array Array>
auto elements_of(const Array& array) {
    layout at;
    if constexpr (strided_array<Array>) {
        const auto shape = array.shape();
        const auto strides = array.strides();
        constexpr std::size_t rank = std::tuple_size_v<std::remove_cvref_t<decltype(shape)>>;
        std::copy(shape.begin(), shape.end(), at.shape.end() - rank);
        std::copy(strides.begin(), strides.end(), at.strides.end() - rank);
        at.rank = static_cast<int>(rank);
        if (*std::min_element(at.shape.begin(), at.shape.end()) < 0)
            refuse(std::string("shape ") + at.text() + ": every extent must be >= 0");
        return elements<std::remove_cvref_t<decltype(*array.data())>>{array.data(), at};
    } else {
        at.shape[3] = static_cast<std::ptrdiff_t>(std::size(array));
        at.strides[3] = 1;
        return elements<std::remove_cvref_t<decltype(*std::data(array))>>{std::data(array), at};
    }
}

inline void require_same_shape(const layout& a, const layout& b) {
    if (a.rank != b.rank || a.shape != b.shape)
        refuse(std::string("the shapes must match; actual is ") + a.text() + ", expected is " + b.text());
}

/// The order in which two arrays are walked: row-major; row-major, each row of the last dimension a run of its own; or
/// the longest steps outermost, which suits memory.
enum class order { row_major, by_row, any };

/// The loops over two arrays of one shape, innermost last. Dimensions that are dense in both are joined: two dense
/// arrays are one run.
struct loops {
    index4 extent{1, 1, 1, 1}, a{}, b{};

    loops(const layout& first, const layout& second, order how) {
        std::array<std::size_t, 4> axes{0, 1, 2, 3};
        const auto step = [&](std::size_t d) {  // a dimension of one element takes none, whatever its stride
            if (first.shape[d] == 1) return std::ptrdiff_t{0};
            return std::max(std::abs(first.strides[d]), std::abs(second.strides[d]));
        };
        if (how == order::any) std::sort(axes.begin(), axes.end(), [&](auto x, auto y) { return step(x) > step(y); });
        std::size_t at = 3;
        for (std::size_t i = 4; i-- > 0;) {
            const std::size_t d = axes[i];
            const std::ptrdiff_t n = first.shape[d], sa = first.strides[d], sb = second.strides[d];
            const bool last_row = how == order::by_row && d == 3;
            if (n == 1 && !last_row) continue;
            const bool joins = how != order::by_row && sa == a[at] * extent[at] && sb == b[at] * extent[at];
            if (joins && taken_) {
                extent[at] *= n;
            } else {
                if (taken_) --at;
                extent[at] = n, a[at] = sa, b[at] = sb, taken_ = true;
            }
        }
    }

private:
    bool taken_ = false;
};

/// Calls visit(first, offset_a, offset_b, count, stride_a, stride_b) for each run of elements at constant strides,
/// until one call answers false. `first` counts the elements walked.
template <class Visit>
bool for_each_run(const layout& a, const layout& b, order how, Visit&& visit) {
    const loops over(a, b, how);
    const auto& [n, sa, sb] = std::tie(over.extent, over.a, over.b);
    std::ptrdiff_t first = 0;
    for (std::ptrdiff_t i = 0; i < n[0]; ++i)
        for (std::ptrdiff_t j = 0; j < n[1]; ++j)
            for (std::ptrdiff_t k = 0; k < n[2]; ++k, first += n[3])
                if (!visit(first, i * sa[0] + j * sa[1] + k * sa[2], i * sb[0] + j * sb[1] + k * sb[2], n[3], sa[3],
                           sb[3]))
                    return false;
    return true;
}

}  // namespace detail
}  // namespace headwise
