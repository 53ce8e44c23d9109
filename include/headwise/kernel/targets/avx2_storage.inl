// Sixteen-bit formats with AVX2 and F16C: eight elements to a register of floats, and back.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::avx2 {

/// What both formats share: AVX2 has no masks for elements this short.
template <class Stored, class Convert>
struct short_memory {
    static HEADWISE_INLINE __m256 load(const Stored* p) {
        return Convert::widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static HEADWISE_INLINE __m256 load_first(const Stored* p, int n) {
        alignas(16) Stored part[8] = {};
        for (int i = 0; i < n; ++i) part[i] = p[i];
        return load(part);
    }
    static HEADWISE_INLINE void store(Stored* p, __m256 v) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Convert::rounded(v));
    }
    static HEADWISE_INLINE void stream(Stored* p, const __m256 (&v)[2]) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p),
                            _mm256_set_m128i(Convert::rounded(v[1]), Convert::rounded(v[0])));
    }
    static HEADWISE_INLINE void stream(Stored* p, const __m256 (&v)[1]) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(p), Convert::rounded(v[0]));
    }
    static HEADWISE_INLINE void store_first(Stored* p, __m256 v, int n) {
        alignas(16) Stored part[8];
        store(part, v);
        for (int i = 0; i < n; ++i) p[i] = part[i];
    }
};

struct convert_bfloat16 {
    static HEADWISE_INLINE __m256 widened(__m128i bits) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    static HEADWISE_INLINE __m128i rounded(__m256 v) {
        const __m256i bits = _mm256_castps_si256(v);
        const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
        const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
        const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(sum, quiet, is_nan), 16);
        return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    }
};

/// F16C by its instructions' names: the region's own features stay AVX2 and FMA, so that other regions of these two can
/// inline its functions.
struct convert_half {
    static HEADWISE_INLINE __m256 widened(__m128i bits) {
        __m256 v;
        asm("vcvtph2ps %1, %0" : "=x"(v) : "x"(bits));
        return v;
    }
    static HEADWISE_INLINE __m128i rounded(__m256 v) {
        __m128i bits;
        asm("vcvtps2ph $0, %1, %0" : "=x"(bits) : "x"(v));  // 0: to nearest even
        return bits;
    }
};

template <>
struct memory<f32x8, bfloat16> : short_memory<bfloat16, convert_bfloat16> {};
template <>
struct memory<f32x8, half> : short_memory<half, convert_half> {};

template <>
struct registers_of<bfloat16> : registers_of<float> {};
template <>
struct registers_of<half> : registers_of<float> {};

}  // namespace headwise::kernel::avx2
HEADWISE_TARGET_END
