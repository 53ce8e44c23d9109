// Sixteen-bit storage formats by plain arithmetic on their bits: what a target without instructions for them does, and
// every target where elements lie apart. To nearest, ties to even; denormals, infinities and NaNs included.
#pragma once

#include <cstdint>
#include <cstring>

#include <headwise/attributes.hpp>

// An object's bits may be read as these, whatever its type.
#if defined(__GNUC__)
#define HEADWISE_MAY_ALIAS __attribute__((may_alias))
#else
#define HEADWISE_MAY_ALIAS
#endif

namespace headwise::kernel {

/// Sixteen bits in memory, floats in registers.
struct HEADWISE_MAY_ALIAS bfloat16 {
    std::uint16_t bits;
};
struct HEADWISE_MAY_ALIAS half {
    std::uint16_t bits;
};

/// What products of `Stored` are summed in: its own kind, or float.
template <class Stored>
struct sum_type {
    using type = Stored;
};
template <>
struct sum_type<bfloat16> {
    using type = float;
};
template <>
struct sum_type<half> {
    using type = float;
};
template <class Stored>
using sum_of = typename sum_type<Stored>::type;

/// Whether sums are stored, and operands multiplied, as they are.
template <class Stored>
inline constexpr bool is_own_sum = true;
template <>
inline constexpr bool is_own_sum<bfloat16> = false;
template <>
inline constexpr bool is_own_sum<half> = false;

HEADWISE_INLINE float float_of_bits(std::uint32_t bits) noexcept {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
HEADWISE_INLINE std::uint32_t bits_of_float(float value) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <class Scalar>
HEADWISE_INLINE Scalar widen(Scalar x) noexcept {
    return x;
}
HEADWISE_INLINE float widen(bfloat16 x) noexcept { return float_of_bits(std::uint32_t{x.bits} << 16); }
HEADWISE_INLINE float widen(half x) noexcept {
    const std::uint32_t magnitude = x.bits & 0x7fffu, sign = std::uint32_t{x.bits} >> 15 << 31;
    std::uint32_t bits = (magnitude << 13) + 0x38000000u;  // the exponent, biased by 127 instead of 15
    if (magnitude < 0x400u) bits = bits_of_float(static_cast<float>(magnitude) * 0x1p-24f);
    if (magnitude >= 0x7c00u) bits += 0x38000000u;
    if (magnitude > 0x7c00u) bits |= 0x400000u;
    return float_of_bits(sign | bits);
}

HEADWISE_INLINE void narrow(float& to, float x) noexcept { to = x; }
HEADWISE_INLINE void narrow(double& to, double x) noexcept { to = x; }
HEADWISE_INLINE void narrow(bfloat16& to, float x) noexcept {
    const std::uint32_t bits = bits_of_float(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    to.bits = static_cast<std::uint16_t>((x != x ? bits | 0x400000u : rounded) >> 16);
}
/// Below the normal range the sum with a power of two rounds where the last bit is; above it the bits do.
HEADWISE_INLINE void narrow(half& to, float x) noexcept {
    const std::uint32_t bits = bits_of_float(x), sign = bits >> 31 << 15, magnitude = bits & 0x7fffffffu;
    std::uint32_t result;
    if (magnitude > 0x7f800000u) result = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    else if (magnitude >= 0x477ff000u) result = 0x7c00u;  // 65520 and more
    else if (magnitude < 0x38800000u) result = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;  // < 2^-14
    else result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    to.bits = static_cast<std::uint16_t>(sign | result);
}

/// Two bfloat16, d and d + 1, in the bits of a float.
HEADWISE_INLINE float pair_of(bfloat16 low, bfloat16 high) noexcept {
    return float_of_bits(std::uint32_t{low.bits} | std::uint32_t{high.bits} << 16);
}

}  // namespace headwise::kernel
