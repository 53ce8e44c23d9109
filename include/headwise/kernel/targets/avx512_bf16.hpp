// AVX-512 BF16 (Cooper Lake, Zen 4 and newer), for bfloat16 alone: an instruction multiplies pairs and adds both
// products to a float. The sum of a pair is rounded with it, the pairs of a row follow one another as its elements do
// elsewhere; operands and results below the normal range count as zero, and MXCSR has no say. So the bits differ from
// those of other targets: by no more than as many roundings make.
#pragma once

#include <headwise/kernel/targets/avx512.hpp>

#define HEADWISE_TARGET avx512_bf16
#define HEADWISE_AVX512_BF16_FEATURES HEADWISE_AVX512_FEATURES ",avx512bf16"  // stays defined, too
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX512_BF16_FEATURES)
#define HEADWISE_TARGET_END HEADWISE_REGION_END

#include <headwise/kernel/storage.inl>

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::avx512_bf16 {

/// Sixteen sums of pairs. Entries of panels and of rows of Q are pairs, in the bits of floats.
struct bf16_pairs : avx512::f32x16 {
    static constexpr int per_entry = 2;
    static HEADWISE_INLINE vec madd(vec a, vec b, vec c) {
        return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }

    // For softmax.
    /// Neighbours become pairs, to nearest even, denormals zero: first[0] with first[1], ..., then those of second.
    static HEADWISE_INLINE vec rounded(vec first, vec second) {
        return reinterpret_cast<vec>(_mm512_cvtne2ps_pbh(second, first));
    }
    /// c and the elements of the pairs.
    static HEADWISE_INLINE vec add_elements(vec pairs, vec c) {
        return madd(pairs, _mm512_castsi512_ps(_mm512_set1_epi32(0x3f803f80)), c);  // one, one
    }
};

template <>
struct memory<bf16_pairs, bfloat16> {
    /// Thirty-two elements side by side, as pairs.
    static HEADWISE_INLINE __m512 load(const bfloat16* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
    static HEADWISE_INLINE __m512 load_first(const bfloat16* p, int n) {
        return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << n) - 1u), p));
    }
    /// The first n of sixteen elements each of p and of q, an element of p with one of q.
    static HEADWISE_INLINE __m512 load_pairs(const bfloat16* p, const bfloat16* q, int n) {
        return _mm512_castsi512_ps(_mm512_or_si512(low(p, n), _mm512_slli_epi32(low(q, n), 16)));
    }
    /// The same with zeros for q.
    static HEADWISE_INLINE __m512 load_low(const bfloat16* p, int n) { return _mm512_castsi512_ps(low(p, n)); }

    // Results are sixteen floats, as elsewhere; the instruction that rounds them makes zeros of denormals, as the sums
    // do.
    static HEADWISE_INLINE void store(bfloat16* p, __m512 v) { store_first(p, v, 16); }
    static HEADWISE_INLINE void stream(bfloat16* p, const __m512 (&v)[2]) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1], v[0])));
    }
    static HEADWISE_INLINE void stream(bfloat16* p, const __m512 (&v)[1]) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v[0])));
    }
    static HEADWISE_INLINE void store_first(bfloat16* p, __m512 v, int n) {
        _mm256_mask_storeu_epi16(p, avx512::f32x16::first(n), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
    }

private:
    static HEADWISE_INLINE __m512i low(const bfloat16* p, int n) {
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(avx512::f32x16::first(n), p));
    }
};

template <class Scalar>
struct registers_of;

template <>
struct registers_of<bfloat16> {
    using wide = bf16_pairs;
    static constexpr int tile_rows = 14, few_rows = 8;
};

/// The sums.
template <>
struct registers_of<float> : avx512::registers_of<float> {};

}  // namespace headwise::kernel::avx512_bf16
HEADWISE_TARGET_END

#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
