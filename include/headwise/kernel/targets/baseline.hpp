// The baseline: plain C++ over arrays of 16 bytes, which GCC and Clang turn into the registers that the flags allow
// (SSE2 on x86-64) and any other compiler into correct code. Its products and sums are rounded apart, whatever the
// flags.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <headwise/kernel/arguments.hpp>
#include <headwise/kernel/prefetch.hpp>
#include <headwise/kernel/region.hpp>

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HEADWISE_HAVE_SHUFFLE 1
#endif
#endif

#define HEADWISE_TARGET baseline
#define HEADWISE_TARGET_BEGIN HEADWISE_QUIET_BEGIN  // no region: the flags as they are
#define HEADWISE_TARGET_END HEADWISE_QUIET_END

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::baseline {

/// Sixteen bytes of floats or doubles.
template <class Scalar>
struct bytes16 {
    using scalar = Scalar;
    static constexpr int lanes = 16 / sizeof(Scalar);
#if defined(__GNUC__) || defined(__clang__)
    typedef Scalar vec __attribute__((vector_size(16)));
    typedef Scalar unaligned_vec __attribute__((vector_size(16), aligned(alignof(Scalar)), may_alias));

    static HEADWISE_INLINE vec zero() { return vec{}; }
    static HEADWISE_INLINE vec broadcast(const Scalar* p) { return vec{} + *p; }
    static HEADWISE_INLINE vec load(const Scalar* p) { return *reinterpret_cast<const unaligned_vec*>(p); }
    static HEADWISE_INLINE void store(Scalar* p, vec v) { *reinterpret_cast<unaligned_vec*>(p) = v; }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return a * b; }
    /// Two roundings everywhere: with flags that bring an FMA, GCC would contract some of these and not others, and a
    /// result would depend on the path that computed it.
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) {
        vec product = a * b;
#if defined(__FMA__) || defined(__FMA4__)
        asm("" : "+x"(product));
#elif defined(__aarch64__)
        asm("" : "+w"(product));
#endif
        return product + c;
    }

    // For softmax.
    using integer = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
    typedef integer bits __attribute__((vector_size(16)));

    static HEADWISE_INLINE vec add(vec a, vec b) { return a + b; }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return a - b; }
    static HEADWISE_INLINE vec div(vec a, vec b) { return a / b; }
    static HEADWISE_INLINE vec max(vec a, vec b) { return a > b ? a : b; }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
#if defined(__SSE2__)
        asm("" : "+x"(a));
#elif defined(__aarch64__)
        asm("" : "+w"(a));
#else
        asm("" : "+m"(a));  // and rounds what an x87 register may hold
#endif
        return a;
    }
    static HEADWISE_INLINE vec shift_to_exponent(vec a) {
        return reinterpret_cast<vec>(reinterpret_cast<bits>(a) << (sizeof(Scalar) == 4 ? 23 : 52));
    }
    static HEADWISE_INLINE vec magnitude(vec a) {
        return reinterpret_cast<vec>(reinterpret_cast<bits>(a) & ~sign_bits());
    }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        return reinterpret_cast<vec>((reinterpret_cast<bits>(a) & ~sign_bits()) |
                                     (reinterpret_cast<bits>(sign) & sign_bits()));
    }
#else
    struct vec {
        Scalar lane[lanes];
        Scalar& operator[](int i) { return lane[i]; }
        Scalar operator[](int i) const { return lane[i]; }
    };

    static vec zero() { return vec{}; }
    static vec broadcast(const Scalar* p) {
        vec v;
        for (int i = 0; i < lanes; ++i) v[i] = *p;
        return v;
    }
    static vec load(const Scalar* p) {
        vec v;
        for (int i = 0; i < lanes; ++i) v[i] = p[i];
        return v;
    }
    static void store(Scalar* p, vec v) {
        for (int i = 0; i < lanes; ++i) p[i] = v[i];
    }
    static vec mul(vec a, vec b) {
        for (int i = 0; i < lanes; ++i) a[i] *= b[i];
        return a;
    }
    static vec madd(vec a, vec b, vec c) {
        for (int i = 0; i < lanes; ++i) c[i] += a[i] * b[i];
        return c;
    }

    // For softmax.
    static vec add(vec a, vec b) {
        for (int i = 0; i < lanes; ++i) a[i] += b[i];
        return a;
    }
    static vec sub(vec a, vec b) {
        for (int i = 0; i < lanes; ++i) a[i] -= b[i];
        return a;
    }
    static vec div(vec a, vec b) {
        for (int i = 0; i < lanes; ++i) a[i] /= b[i];
        return a;
    }
    static vec max(vec a, vec b) {  // b where one is NaN
        for (int i = 0; i < lanes; ++i) a[i] = a[i] > b[i] ? a[i] : b[i];
        return a;
    }
    static vec hidden(vec a) {
        volatile vec seen = a;
        for (int i = 0; i < lanes; ++i) a[i] = const_cast<const volatile Scalar&>(seen.lane[i]);
        return a;
    }
    static vec shift_to_exponent(vec a) {
        using bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
        for (int i = 0; i < lanes; ++i)
            a[i] = std::bit_cast<Scalar>(std::bit_cast<bits>(a[i]) << (sizeof(Scalar) == 4 ? 23 : 52));
        return a;
    }
    static vec magnitude(vec a) {
        for (int i = 0; i < lanes; ++i) a[i] = std::abs(a[i]);
        return a;
    }
    static vec with_sign_of(vec a, vec sign) {
        for (int i = 0; i < lanes; ++i) a[i] = std::copysign(a[i], sign[i]);
        return a;
    }
#endif
    static HEADWISE_INLINE vec load_first(const Scalar* p, int n) {
        vec v = zero();
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i)
            if (i < n) v[i] = p[i];
        return v;
    }
    static HEADWISE_INLINE void store_first(Scalar* p, vec v, int n) {
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i)
            if (i < n) p[i] = v[i];
    }
    static HEADWISE_INLINE void stream(Scalar* p, vec v) { store(p, v); }
    static HEADWISE_INLINE void fence() {}

    // For softmax.
    static constexpr bool has_scale = false;
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i)
            if (!visible[i]) a[i] = other[i];
        return a;
    }
    static HEADWISE_INLINE Scalar sum(vec a) {
        Scalar all = a[0];
        HEADWISE_UNROLL
        for (int i = 1; i < lanes; ++i) all += a[i];
        return all;
    }
    /// out = the sums of a, b, c and d.
    static HEADWISE_INLINE void four_sums(Scalar* out, vec a, vec b, vec c, vec d) {
        out[0] = sum(a);
        out[1] = sum(b);
        out[2] = sum(c);
        out[3] = sum(d);
    }
    static HEADWISE_INLINE Scalar largest(vec a) {
        Scalar most = a[0];
        HEADWISE_UNROLL
        for (int i = 1; i < lanes; ++i) most = a[i] > most ? a[i] : most;
        return most;
    }

    static HEADWISE_INLINE void transpose(vec (&r)[lanes]) {
#if HEADWISE_HAVE_SHUFFLE
        if constexpr (lanes == 4) {
            const vec a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                      b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
            const vec c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                      d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
            r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
            r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
            r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
            return;
        }
#endif
        vec t[lanes];
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i) {
            HEADWISE_UNROLL
            for (int j = 0; j < lanes; ++j) t[i][j] = r[j][i];
        }
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i) r[i] = t[i];
    }

#if defined(__GNUC__) || defined(__clang__)
private:
    static HEADWISE_INLINE bits sign_bits() { return bits{} + (integer{1} << (8 * sizeof(Scalar) - 1)); }
#endif
};

template <class Scalar>
struct registers_of {
    using wide = bytes16<Scalar>;
    using narrow = bytes16<Scalar>;
    using narrowest = bytes16<Scalar>;
    // With 16 registers, a multiply that overwrites an operand and no fused one, six rows would spill.
    static constexpr int tile_rows = 4, few_rows = 4;
};

}  // namespace headwise::kernel::baseline
HEADWISE_TARGET_END

#include <headwise/kernel/storage.inl>
#include <headwise/kernel/targets/baseline_storage.inl>
#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
