// Advanced SIMD of aarch64 (every 64-bit Arm).
#pragma once

#include <arm_neon.h>

#include <headwise/kernel/arguments.hpp>
#include <headwise/kernel/prefetch.hpp>
#include <headwise/kernel/region.hpp>

#define HEADWISE_TARGET neon
#define HEADWISE_TARGET_BEGIN HEADWISE_QUIET_BEGIN  // no region: the flags as they are
#define HEADWISE_TARGET_END HEADWISE_QUIET_END

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::neon {

/// Four floats.
struct f32x4 {
    using scalar = float;
    using vec = float32x4_t;
    static constexpr int lanes = 4;

    static HEADWISE_INLINE vec zero() { return vdupq_n_f32(0); }
    static HEADWISE_INLINE vec broadcast(const float* p) { return vld1q_dup_f32(p); }
    static HEADWISE_INLINE vec load(const float* p) { return vld1q_f32(p); }
    static HEADWISE_INLINE vec load_first(const float* p, int n) {
        vec v = zero();
        if (n > 0) v = vld1q_lane_f32(p, v, 0);
        if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
        if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
        if (n > 3) v = vld1q_lane_f32(p + 3, v, 3);
        return v;
    }
    static HEADWISE_INLINE void store(float* p, vec v) { vst1q_f32(p, v); }
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) {
        if (n > 0) vst1q_lane_f32(p, v, 0);
        if (n > 1) vst1q_lane_f32(p + 1, v, 1);
        if (n > 2) vst1q_lane_f32(p + 2, v, 2);
        if (n > 3) vst1q_lane_f32(p + 3, v, 3);
    }
    static HEADWISE_INLINE void stream(float* p, vec v) { store(p, v); }
    static HEADWISE_INLINE void fence() {}
    static HEADWISE_INLINE vec mul(vec a, vec b) { return vmulq_f32(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }

    // For softmax.
    static constexpr bool has_scale = false;
    static HEADWISE_INLINE vec add(vec a, vec b) { return vaddq_f32(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return vsubq_f32(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return vdivq_f32(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+w"(a));
        return a;
    }
    static HEADWISE_INLINE vec shift_to_exponent(vec a) {
        return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
    }
    static HEADWISE_INLINE vec magnitude(vec a) { return vabsq_f32(a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        return vbslq_f32(vreinterpretq_u32_f32(vdupq_n_f32(-0.0f)), sign, a);
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i)
            if (!visible[i]) a[i] = other[i];
        return a;
    }
    static HEADWISE_INLINE float sum(vec a) { return vaddvq_f32(a); }
    /// out = the sums of a, b, c and d.
    static HEADWISE_INLINE void four_sums(float* out, vec a, vec b, vec c, vec d) {
        vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
    }
    static HEADWISE_INLINE float largest(vec a) { return vmaxvq_f32(a); }

    static HEADWISE_INLINE void transpose(vec (&r)[4]) {
        const auto even = pair(vtrn1q_f32(r[0], r[1])), odd = pair(vtrn2q_f32(r[0], r[1]));
        const auto even2 = pair(vtrn1q_f32(r[2], r[3])), odd2 = pair(vtrn2q_f32(r[2], r[3]));
        r[0] = vreinterpretq_f32_f64(vtrn1q_f64(even, even2));
        r[1] = vreinterpretq_f32_f64(vtrn1q_f64(odd, odd2));
        r[2] = vreinterpretq_f32_f64(vtrn2q_f64(even, even2));
        r[3] = vreinterpretq_f32_f64(vtrn2q_f64(odd, odd2));
    }

private:
    static HEADWISE_INLINE float64x2_t pair(vec v) { return vreinterpretq_f64_f32(v); }
};

/// Two doubles.
struct f64x2 {
    using scalar = double;
    using vec = float64x2_t;
    static constexpr int lanes = 2;

    static HEADWISE_INLINE vec zero() { return vdupq_n_f64(0); }
    static HEADWISE_INLINE vec broadcast(const double* p) { return vld1q_dup_f64(p); }
    static HEADWISE_INLINE vec load(const double* p) { return vld1q_f64(p); }
    static HEADWISE_INLINE vec load_first(const double* p, int n) {
        vec v = zero();
        if (n > 0) v = vld1q_lane_f64(p, v, 0);
        if (n > 1) v = vld1q_lane_f64(p + 1, v, 1);
        return v;
    }
    static HEADWISE_INLINE void store(double* p, vec v) { vst1q_f64(p, v); }
    static HEADWISE_INLINE void store_first(double* p, vec v, int n) {
        if (n > 0) vst1q_lane_f64(p, v, 0);
        if (n > 1) vst1q_lane_f64(p + 1, v, 1);
    }
    static HEADWISE_INLINE void stream(double* p, vec v) { store(p, v); }
    static HEADWISE_INLINE void fence() {}
    static HEADWISE_INLINE vec mul(vec a, vec b) { return vmulq_f64(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return vfmaq_f64(c, a, b); }

    // For softmax.
    static constexpr bool has_scale = false;
    static HEADWISE_INLINE vec add(vec a, vec b) { return vaddq_f64(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return vsubq_f64(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return vdivq_f64(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+w"(a));
        return a;
    }
    static HEADWISE_INLINE vec shift_to_exponent(vec a) {
        return vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(a), 52));
    }
    static HEADWISE_INLINE vec magnitude(vec a) { return vabsq_f64(a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        return vbslq_f64(vreinterpretq_u64_f64(vdupq_n_f64(-0.0)), sign, a);
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        HEADWISE_UNROLL
        for (int i = 0; i < lanes; ++i)
            if (!visible[i]) a[i] = other[i];
        return a;
    }
    static HEADWISE_INLINE double sum(vec a) { return vaddvq_f64(a); }
    /// out = the sums of a, b, c and d.
    static HEADWISE_INLINE void four_sums(double* out, vec a, vec b, vec c, vec d) {
        vst1q_f64(out, vpaddq_f64(a, b));
        vst1q_f64(out + 2, vpaddq_f64(c, d));
    }
    static HEADWISE_INLINE double largest(vec a) { return vmaxvq_f64(a); }

    static HEADWISE_INLINE void transpose(vec (&r)[2]) {
        const vec low = vtrn1q_f64(r[0], r[1]), high = vtrn2q_f64(r[0], r[1]);
        r[0] = low;
        r[1] = high;
    }
};

template <class Scalar>
struct registers_of;

template <>
struct registers_of<float> {
    using wide = f32x4;
    using narrow = f32x4;
    using narrowest = f32x4;
    static constexpr int tile_rows = 14, few_rows = 8;
};

template <>
struct registers_of<double> {
    using wide = f64x2;
    using narrow = f64x2;
    using narrowest = f64x2;
    static constexpr int tile_rows = 14, few_rows = 8;
};

}  // namespace headwise::kernel::neon
HEADWISE_TARGET_END

#include <headwise/kernel/storage.inl>
#include <headwise/kernel/targets/neon_storage.inl>
#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
