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

    // For softmax.
    static constexpr bool has_scale = false;
    static HEADWISE_INLINE vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return _mm256_div_ps(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return _mm256_max_ps(a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+x"(a));
        return a;
    }
    static HEADWISE_INLINE vec shift_to_exponent(vec a) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
    }
    static HEADWISE_INLINE vec magnitude(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        return _mm256_or_ps(magnitude(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        const __m256i lanes_of = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(visible)));
        return _mm256_blendv_ps(other, a, _mm256_castsi256_ps(_mm256_cmpgt_epi32(lanes_of, _mm256_setzero_si256())));
    }
    static HEADWISE_INLINE float sum(vec a) {
        const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
    }
    /// out = the sums of a, b, c and d.
    static HEADWISE_INLINE void four_sums(float* out, vec a, vec b, vec c, vec d) {
        const vec ab = add(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        const vec cd = add(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        const vec all = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
        _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
    }
    static HEADWISE_INLINE float largest(vec a) {
        const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
    }

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

    // For softmax.
    static constexpr bool has_scale = false;
    static HEADWISE_INLINE vec add(vec a, vec b) { return _mm256_add_pd(a, b); }
    static HEADWISE_INLINE vec sub(vec a, vec b) { return _mm256_sub_pd(a, b); }
    static HEADWISE_INLINE vec div(vec a, vec b) { return _mm256_div_pd(a, b); }
    static HEADWISE_INLINE vec max(vec a, vec b) { return _mm256_max_pd(a, b); }  // b where one is NaN
    static HEADWISE_INLINE vec hidden(vec a) {
        asm("" : "+x"(a));
        return a;
    }
    static HEADWISE_INLINE vec shift_to_exponent(vec a) {
        return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a), 52));
    }
    static HEADWISE_INLINE vec magnitude(vec a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
    static HEADWISE_INLINE vec with_sign_of(vec a, vec sign) {
        return _mm256_or_pd(magnitude(a), _mm256_and_pd(_mm256_set1_pd(-0.0), sign));
    }
    static HEADWISE_INLINE vec where(const bool* visible, vec a, vec other) {
        const __m256i lanes_of = _mm256_cvtepi8_epi64(_mm_cvtsi32_si128(four_bytes(visible)));
        return _mm256_blendv_pd(other, a, _mm256_castsi256_pd(_mm256_cmpgt_epi64(lanes_of, _mm256_setzero_si256())));
    }
    static HEADWISE_INLINE double sum(vec a) {
        const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
        return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    }
    static HEADWISE_INLINE void four_sums(double* out, vec a, vec b, vec c, vec d) {
        add_halves(out, add(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)),
                   add(_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d)));
    }
    static HEADWISE_INLINE void add_halves(double* out, vec ab, vec cd) {
        store(out, add(_mm256_permute2f128_pd(ab, cd, 0x20), _mm256_permute2f128_pd(ab, cd, 0x31)));
    }
    static HEADWISE_INLINE double largest(vec a) {
        const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
        return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
    }
    static HEADWISE_INLINE int four_bytes(const bool* p) {
        int bytes;
        __builtin_memcpy(&bytes, p, 4);
        return bytes;
    }

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
