// AVX-512 (F, CD, BW, DQ, VL: Skylake-X, Zen 4 and newer).
#pragma once

#include <immintrin.h>

#include <headwise/kernel/arguments.hpp>
#include <headwise/kernel/prefetch.hpp>
#include <headwise/kernel/region.hpp>

#define HEADWISE_TARGET avx512
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN("avx512f,avx512cd,avx512bw,avx512dq,avx512vl,avx2,fma")
#define HEADWISE_TARGET_END HEADWISE_REGION_END

#include <headwise/kernel/targets/x86_short.inl>

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::avx512 {

/// Sixteen floats.
struct f32x16 {
    using scalar = float;
    using vec = __m512;
    static constexpr int lanes = 16;

    static HEADWISE_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
    static HEADWISE_INLINE vec zero() { return _mm512_setzero_ps(); }
    static HEADWISE_INLINE vec broadcast(const float* p) { return _mm512_set1_ps(*p); }
    static HEADWISE_INLINE vec load(const float* p) { return _mm512_loadu_ps(p); }
    static HEADWISE_INLINE vec load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
    static HEADWISE_INLINE void store(float* p, vec v) { _mm512_storeu_ps(p, v); }
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
    static HEADWISE_INLINE void stream(float* p, vec v) { _mm512_stream_ps(p, v); }
    static HEADWISE_INLINE void fence() { _mm_sfence(); }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

    /// Rows become columns: pairs, then quadruples within 128 bits, then 128-bit quarters.
    static HEADWISE_INLINE void transpose(vec (&r)[16]) {
        vec t[16];
        HEADWISE_UNROLL
        for (int i = 0; i < 16; i += 2) {
            t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 16; i += 4) {
            r[i] = pair_low(t[i], t[i + 2]);
            r[i + 1] = pair_high(t[i], t[i + 2]);
            r[i + 2] = pair_low(t[i + 1], t[i + 3]);
            r[i + 3] = pair_high(t[i + 1], t[i + 3]);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) {
            t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
            t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
            t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
            t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) {
            r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
            r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
            r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
            r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
        }
    }

private:
    static HEADWISE_INLINE vec pair_low(vec a, vec b) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    static HEADWISE_INLINE vec pair_high(vec a, vec b) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

/// Eight doubles.
struct f64x8 {
    using scalar = double;
    using vec = __m512d;
    static constexpr int lanes = 8;

    static HEADWISE_INLINE __mmask8 first(int n) { return static_cast<__mmask8>((1u << n) - 1u); }
    static HEADWISE_INLINE vec zero() { return _mm512_setzero_pd(); }
    static HEADWISE_INLINE vec broadcast(const double* p) { return _mm512_set1_pd(*p); }
    static HEADWISE_INLINE vec load(const double* p) { return _mm512_loadu_pd(p); }
    static HEADWISE_INLINE vec load_first(const double* p, int n) { return _mm512_maskz_loadu_pd(first(n), p); }
    static HEADWISE_INLINE void store(double* p, vec v) { _mm512_storeu_pd(p, v); }
    static HEADWISE_INLINE void store_first(double* p, vec v, int n) { _mm512_mask_storeu_pd(p, first(n), v); }
    static HEADWISE_INLINE void stream(double* p, vec v) { _mm512_stream_pd(p, v); }
    static HEADWISE_INLINE void fence() { _mm_sfence(); }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return _mm512_mul_pd(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }

    static HEADWISE_INLINE void transpose(vec (&r)[8]) {
        vec t[8];
        HEADWISE_UNROLL
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 2; ++i) {
            r[i] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88);
            r[i + 2] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd);
            r[i + 4] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88);
            r[i + 6] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) {
            t[i] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0x88);
            t[i + 4] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0xdd);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 8; ++i) r[i] = t[i];
    }
};

/// The shorter registers, with AVX-512's masks.
struct f32x8_masked : f32x8 {
    static HEADWISE_INLINE vec load_first(const float* p, int n) { return _mm256_maskz_loadu_ps(f64x8::first(n), p); }
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) { _mm256_mask_storeu_ps(p, f64x8::first(n), v); }
};
struct f32x4_masked : f32x4 {
    static HEADWISE_INLINE vec load_first(const float* p, int n) { return _mm_maskz_loadu_ps(f64x8::first(n), p); }
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) { _mm_mask_storeu_ps(p, f64x8::first(n), v); }
};
struct f64x4_masked : f64x4 {
    static HEADWISE_INLINE vec load_first(const double* p, int n) { return _mm256_maskz_loadu_pd(f64x8::first(n), p); }
    static HEADWISE_INLINE void store_first(double* p, vec v, int n) { _mm256_mask_storeu_pd(p, f64x8::first(n), v); }
};

template <class Scalar>
struct registers_of;

template <>
struct registers_of<float> {
    using wide = f32x16;
    using narrow = f32x8_masked;
    using narrowest = f32x4_masked;
    static constexpr int tile_rows = 14, few_rows = 8;
};

template <>
struct registers_of<double> {
    using wide = f64x8;
    using narrow = f64x4_masked;
    using narrowest = f64x4_masked;
    static constexpr int tile_rows = 14, few_rows = 8;
};

}  // namespace headwise::kernel::avx512
HEADWISE_TARGET_END

#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
