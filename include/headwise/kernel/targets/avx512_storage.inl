// Sixteen-bit formats with AVX-512: sixteen elements to a register of floats, and back.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::avx512 {

template <>
struct memory<f32x16, bfloat16> {
    static HEADWISE_INLINE __m512 load(const bfloat16* p) { return widened(_mm256_loadu_si256(at(p))); }
    static HEADWISE_INLINE __m512 load_first(const bfloat16* p, int n) {
        return widened(_mm256_maskz_loadu_epi16(f32x16::first(n), p));
    }
    static HEADWISE_INLINE void store(bfloat16* p, __m512 v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded(v));
    }
    static HEADWISE_INLINE void stream(bfloat16* p, const __m512 (&v)[2]) {
        const __m512i line = _mm512_inserti64x4(_mm512_castsi256_si512(rounded(v[0])), rounded(v[1]), 1);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), line);
    }
    static HEADWISE_INLINE void stream(bfloat16* p, const __m512 (&v)[1]) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), rounded(v[0]));
    }
    static HEADWISE_INLINE void store_first(bfloat16* p, __m512 v, int n) {
        _mm256_mask_storeu_epi16(p, f32x16::first(n), rounded(v));
    }

private:
    static HEADWISE_INLINE const __m256i* at(const bfloat16* p) { return reinterpret_cast<const __m256i*>(p); }
    static HEADWISE_INLINE __m512 widened(__m256i bits) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    /// Not AVX-512 BF16's own instruction, which makes zeros of denormals.
    static HEADWISE_INLINE __m256i rounded(__m512 v) {
        const __m512i bits = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
        const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
        const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
        const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
        const __m512i chosen = _mm512_mask_mov_epi32(sum, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
        return _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16));
    }
};

template <>
struct memory<f32x16, half> {
    static HEADWISE_INLINE __m512 load(const half* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static HEADWISE_INLINE __m512 load_first(const half* p, int n) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(f32x16::first(n), p));
    }
    static HEADWISE_INLINE void store(half* p, __m512 v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded(v));
    }
    static HEADWISE_INLINE void stream(half* p, const __m512 (&v)[2]) {
        const __m512i line = _mm512_inserti64x4(_mm512_castsi256_si512(rounded(v[0])), rounded(v[1]), 1);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), line);
    }
    static HEADWISE_INLINE void stream(half* p, const __m512 (&v)[1]) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), rounded(v[0]));
    }
    static HEADWISE_INLINE void store_first(half* p, __m512 v, int n) {
        _mm256_mask_storeu_epi16(p, f32x16::first(n), rounded(v));
    }

private:
    static HEADWISE_INLINE __m256i rounded(__m512 v) {
        return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
};

template <>
struct registers_of<bfloat16> : registers_of<float> {};
template <>
struct registers_of<half> : registers_of<float> {};

}  // namespace headwise::kernel::avx512
HEADWISE_TARGET_END
