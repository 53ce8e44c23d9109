// The baseline: plain C++ over arrays of 16 bytes, which GCC and Clang turn into the registers that the flags allow
// (SSE2 on x86-64) and any other compiler into correct code. Its products and sums are rounded apart, whatever the
// flags.
#pragma once

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

#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
