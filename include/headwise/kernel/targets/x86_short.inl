// The shorter registers of x86 with AVX2: avx2.hpp works on the 256-bit ones, and both it and avx512.hpp take the
// shortest that hold a whole row of a tiny head.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// Eight floats.
struct f32x8 {
    using scalar = float;
    using vec = __m256;
    static constexpr int lanes = 8;

    static HEADWISE_INLINE vec zero() { return _mm256_setzero_ps(); }
    static HEADWISE_INLINE vec broadcast(const float* p) { return _mm256_broadcast_ss(p); }
    static HEADWISE_INLINE vec load(const float* p) { return _mm256_loadu_ps(p); }
    static HEADWISE_INLINE vec load_first(const float* p, int n) {
        const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
    }
    static HEADWISE_INLINE void store(float* p, vec v) { _mm256_storeu_ps(p, v); }
    /// In halves: a masked store is microcoded on AMD (19 operations on Zen 3).
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) {
        __m128 part = _mm256_castps256_ps128(v);
        if (n & 4) {
            _mm_storeu_ps(p, part);
            part = _mm256_extractf128_ps(v, 1);
            p += 4;
        }
        if (n & 2) {
            _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
            part = _mm_movehl_ps(part, part);
            p += 2;
        }
        if (n & 1) _mm_store_ss(p, part);
    }
    static HEADWISE_INLINE void stream(float* p, vec v) { _mm256_stream_ps(p, v); }
    static HEADWISE_INLINE void fence() { _mm_sfence(); }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

    /// Rows become columns: pairs, then quadruples within 128 bits, then the two halves.
    static HEADWISE_INLINE void transpose(vec (&r)[8]) {
        vec t[8];
        HEADWISE_UNROLL
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
            t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 8; i += 4) {
            r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
            r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
            r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
            r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) {
            t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
            t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < 8; ++i) r[i] = t[i];
    }
};

/// Four doubles.
struct f64x4 {
    using scalar = double;
    using vec = __m256d;
    static constexpr int lanes = 4;

    static HEADWISE_INLINE vec zero() { return _mm256_setzero_pd(); }
    static HEADWISE_INLINE vec broadcast(const double* p) { return _mm256_broadcast_sd(p); }
    static HEADWISE_INLINE vec load(const double* p) { return _mm256_loadu_pd(p); }
    static HEADWISE_INLINE vec load_first(const double* p, int n) {
        const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
        return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lane));
    }
    static HEADWISE_INLINE void store(double* p, vec v) { _mm256_storeu_pd(p, v); }
    static HEADWISE_INLINE void store_first(double* p, vec v, int n) {
        __m128d part = _mm256_castpd256_pd128(v);
        if (n & 2) {
            _mm_storeu_pd(p, part);
            part = _mm256_extractf128_pd(v, 1);
            p += 2;
        }
        if (n & 1) _mm_store_sd(p, part);
    }
    static HEADWISE_INLINE void stream(double* p, vec v) { _mm256_stream_pd(p, v); }
    static HEADWISE_INLINE void fence() { _mm_sfence(); }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return _mm256_mul_pd(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }

    static HEADWISE_INLINE void transpose(vec (&r)[4]) {
        const vec even01 = _mm256_unpacklo_pd(r[0], r[1]), odd01 = _mm256_unpackhi_pd(r[0], r[1]);
        const vec even23 = _mm256_unpacklo_pd(r[2], r[3]), odd23 = _mm256_unpackhi_pd(r[2], r[3]);
        r[0] = _mm256_permute2f128_pd(even01, even23, 0x20);
        r[1] = _mm256_permute2f128_pd(odd01, odd23, 0x20);
        r[2] = _mm256_permute2f128_pd(even01, even23, 0x31);
        r[3] = _mm256_permute2f128_pd(odd01, odd23, 0x31);
    }
};

/// Four floats.
struct f32x4 {
    using scalar = float;
    using vec = __m128;
    static constexpr int lanes = 4;

    static HEADWISE_INLINE vec zero() { return _mm_setzero_ps(); }
    static HEADWISE_INLINE vec broadcast(const float* p) { return _mm_broadcast_ss(p); }
    static HEADWISE_INLINE vec load(const float* p) { return _mm_loadu_ps(p); }
    static HEADWISE_INLINE vec load_first(const float* p, int n) {
        return _mm_maskload_ps(p, _mm_cmpgt_epi32(_mm_set1_epi32(n), _mm_setr_epi32(0, 1, 2, 3)));
    }
    static HEADWISE_INLINE void store(float* p, vec v) { _mm_storeu_ps(p, v); }
    static HEADWISE_INLINE void store_first(float* p, vec v, int n) {
        f32x8::store_first(p, _mm256_castps128_ps256(v), n);
    }
    static HEADWISE_INLINE void stream(float* p, vec v) { _mm_stream_ps(p, v); }
    static HEADWISE_INLINE vec mul(vec a, vec b) { return _mm_mul_ps(a, b); }
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) { return _mm_fmadd_ps(a, b, c); }
    static HEADWISE_INLINE void transpose(vec (&r)[4]) { _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]); }
};

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
