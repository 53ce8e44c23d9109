// Floating-point numbers as bit patterns: classification that no compiler flag can argue with, and distance in ULP.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace headwise {

namespace detail {

/// The unsigned integer that holds a T of 1, 2, 4 or 8 bytes.
template <class T>
using bits_of = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// Values travel through this layer as bit patterns, read by reference: under -ffast-math a compiler may assume that a
/// float passed or computed is neither NaN nor infinite, and then delete every test that asks.
template <class T>
constexpr bits_of<T> to_bits(const T& value) noexcept {
    return std::bit_cast<bits_of<T>>(value);
}

template <class Float>
inline constexpr bits_of<Float> sign_bit = bits_of<Float>{1} << (8 * sizeof(Float) - 1);

template <class Float>
inline constexpr bits_of<Float> infinity_bits = std::bit_cast<bits_of<Float>>(std::numeric_limits<Float>::infinity());

template <class Float>
constexpr bits_of<Float> magnitude(bits_of<Float> bits) noexcept {
    return bits & ~sign_bit<Float>;
}

template <class Float>
constexpr bool is_nan(bits_of<Float> bits) noexcept {
    return magnitude<Float>(bits) > infinity_bits<Float>;
}

template <class Float>
constexpr bool is_finite(bits_of<Float> bits) noexcept {
    return magnitude<Float>(bits) < infinity_bits<Float>;
}

/// a == b as IEEE 754 has it, from the patterns: never for NaN, always for two zeros, subnormals told from zero.
template <class Float>
constexpr bool is_equal(bits_of<Float> a, bits_of<Float> b) noexcept {
    return (a == b && !is_nan<Float>(a)) || magnitude<Float>(a | b) == 0;
}

/// A floating-point class of two bytes that the library does not know by name (Eigen::half, Eigen::bfloat16, …).
/// Larger classes that convert to float hold something else: identifiers, dual numbers, references.
template <class T>
concept small_float = std::is_class_v<T> && sizeof(T) == 2 && requires(const T& x) {
    static_cast<float>(x);
};

/// x as a double; of a class no more is asked than the conversion to float.
template <class T>
constexpr double to_double(const T& x) {
    if constexpr (small_float<T>) return static_cast<double>(static_cast<float>(x));
    else return static_cast<double>(x);
}

/// Steps between two sign-and-magnitude patterns.
template <std::unsigned_integral Bits>
constexpr std::uint64_t pattern_distance(Bits a, Bits b) noexcept {
    constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const std::uint64_t x = static_cast<Bits>(a & static_cast<Bits>(~sign));
    const std::uint64_t y = static_cast<Bits>(b & static_cast<Bits>(~sign));
    if ((a ^ b) & sign) return x + y;
    return x < y ? y - x : x - y;
}

}  // namespace detail

/// What `ulp_distance` answers where a NaN meets anything but itself.
inline constexpr std::uint64_t not_comparable = std::numeric_limits<std::uint64_t>::max();

/// How many steps of the type lie between two values: 0 for equal ones (+0 and -0 are equal), 1 for neighbours; the
/// steps go on through zero and up to the infinities. One bit pattern is at distance 0 from itself, NaN included; a NaN
/// is `not_comparable` with all else. For float, double and 2-byte classes in the IEEE order (half, bfloat16).
template <class T>
    requires std::same_as<T, float> || std::same_as<T, double> || detail::small_float<T>
[[nodiscard]] constexpr std::uint64_t ulp_distance(const T& a, const T& b) noexcept {
    const auto x = detail::to_bits(a), y = detail::to_bits(b);
    if (x == y) return 0;
    if constexpr (detail::small_float<T>) {
        const float wide_x = static_cast<float>(a), wide_y = static_cast<float>(b);
        if (detail::is_nan<float>(detail::to_bits(wide_x)) || detail::is_nan<float>(detail::to_bits(wide_y)))
            return not_comparable;
    } else {
        if (detail::is_nan<T>(x) || detail::is_nan<T>(y)) return not_comparable;
    }
    return detail::pattern_distance(x, y);
}

}  // namespace headwise
