// AVX-512 (F, CD, BW, DQ, VL: Skylake-X, Zen 4 and newer).
#pragma once

#include <immintrin.h>

#include <headwise/kernel/arguments.hpp>
#include <headwise/kernel/prefetch.hpp>
#include <headwise/kernel/region.hpp>

#define HEADWISE_TARGET avx512
#define HEADWISE_AVX512_FEATURES "avx512f,avx512cd,avx512bw,avx512dq,avx512vl,avx2,fma"  // stays defined, too
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX512_FEATURES)
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

    // For softmax.
    static constexpr bool has_scale = true;
    static HEADWISE_INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return _mm512_div_ps(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return _mm512_max_ps(a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+v"(a));
        return a;
    }
    static HEADWISE_INLINE vec round(vec a) { return _mm512_roundscale_ps(a, 0x08); }
    static HEADWISE_INLINE vec scale(vec a, vec n) { return _mm512_scalef_ps(a, n); }  // 2^n a
    static HEADWISE_INLINE vec magnitude(vec a) { return _mm512_abs_ps(a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        const vec bit = _mm512_set1_ps(-0.0f);
        return _mm512_or_ps(_mm512_andnot_ps(bit, a), _mm512_and_ps(bit, sign));
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(visible));
        return _mm512_mask_blend_ps((_mm_test_epi8_mask(bytes, bytes)), other, a);
    }
    static HEADWISE_INLINE float sum(vec a) { return _mm512_reduce_add_ps(a); }
    /// out = the sums of a, b, c and d.
    static HEADWISE_INLINE void four_sums(float* out, vec a, vec b, vec c, vec d) {
        const vec ab = add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        const vec cd = add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        const vec all = add(pair_low(ab, cd), pair_high(ab, cd));
        const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
        _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
    }
    static HEADWISE_INLINE float largest(vec a) { return _mm512_reduce_max_ps(a); }

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

    // For softmax.
    static constexpr bool has_scale = true;
    static HEADWISE_INLINE vec add(vec a, vec b) { return _mm512_add_pd(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return _mm512_sub_pd(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return _mm512_div_pd(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return _mm512_max_pd(a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+v"(a));
        return a;
    }
    static HEADWISE_INLINE vec round(vec a) { return _mm512_roundscale_pd(a, 0x08); }
    static HEADWISE_INLINE vec scale(vec a, vec n) { return _mm512_scalef_pd(a, n); }  // 2^n a
    static HEADWISE_INLINE vec magnitude(vec a) { return _mm512_abs_pd(a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        const vec bit = _mm512_set1_pd(-0.0);
        return _mm512_or_pd(_mm512_andnot_pd(bit, a), _mm512_and_pd(bit, sign));
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(visible));
        return _mm512_mask_blend_pd(static_cast<__mmask8>(_mm_test_epi8_mask(bytes, bytes)), other, a);
    }
    static HEADWISE_INLINE double sum(vec a) { return _mm512_reduce_add_pd(a); }
    static HEADWISE_INLINE void four_sums(double* out, vec a, vec b, vec c, vec d) {
        const vec ab = add(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        const vec cd = add(_mm512_unpacklo_pd(c, d), _mm512_unpackhi_pd(c, d));
        f64x4::add_halves(out, _mm256_add_pd(_mm512_castpd512_pd256(ab), _mm512_extractf64x4_pd(ab, 1)),
                          _mm256_add_pd(_mm512_castpd512_pd256(cd), _mm512_extractf64x4_pd(cd, 1)));
    }
    static HEADWISE_INLINE double largest(vec a) { return _mm512_reduce_max_pd(a); }

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

#include <headwise/kernel/storage.inl>
#include <headwise/kernel/targets/avx512_storage.inl>
#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
