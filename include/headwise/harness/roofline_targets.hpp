// The probes of roofline.hpp, for every instruction set that the compiler can be asked for, and the choice among them.
#pragma once

#include <cstddef>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#endif

#if defined(__GNUC__)
#define HEADWISE_ROOFLINE_NOINLINE __attribute__((noinline))
#else
#define HEADWISE_ROOFLINE_NOINLINE
#endif

namespace headwise::detail {

struct roofline_kernels {
    const char* instruction_set;
    std::size_t float_lanes, double_lanes;
    float (*spin_float)(long rounds, const float* seeds);
    double (*spin_double)(long rounds, const double* seeds);
    float (*read)(const float* data, std::size_t count, long passes);
    void (*write)(float* data, std::size_t count, long passes, float value);
    void (*streaming_write)(float* data, std::size_t count, long passes, float value);
    void (*triad)(float* data, std::size_t count, long passes, float factor);
};

inline constexpr int fma_chains = 12, fma_seeds = fma_chains + 2;  // ... and the factor and the addend
inline constexpr std::size_t stretch_granule = 128;                // floats: eight of the widest vectors

/// Brings a line, and its page's translation; it may lie beyond what there is.
inline void fetch_line([[maybe_unused]] const float* p) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(p);
#endif
}

}  // namespace headwise::detail

// Anywhere: four lanes in a struct; the compiler makes of them what its flags allow.
namespace headwise::detail::roofline_portable {
inline constexpr const char* instruction_set = "portable";
template <class Scalar>
struct four {
    Scalar lane[4];
    constexpr Scalar operator[](int i) const { return lane[i]; }
    friend constexpr four operator+(four a, const four& b) {
        for (int i = 0; i < 4; ++i) a.lane[i] += b.lane[i];
        return a;
    }
};
using vec_float = four<float>;
using vec_double = four<double>;
inline vec_float splat(float x) { return {{x, x, x, x}}; }
inline vec_double splat(double x) { return {{x, x, x, x}}; }
template <class Scalar>
four<Scalar> madd(four<Scalar> a, const four<Scalar>& b, const four<Scalar>& c) {
    for (int i = 0; i < 4; ++i) a.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];
    return a;
}
inline vec_float load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
inline void store(float* p, const vec_float& v) {
    for (int i = 0; i < 4; ++i) p[i] = v.lane[i];
}
#if defined(__x86_64__) || defined(_M_X64)
inline void stream(float* p, const vec_float& v) { _mm_stream_ps(p, _mm_loadu_ps(v.lane)); }
#else
inline void stream(float* p, const vec_float& v) { store(p, v); }
#endif
#include <headwise/harness/roofline_kernels.inl>
}  // namespace headwise::detail::roofline_portable

#if defined(__x86_64__) && defined(__GNUC__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace headwise::detail::roofline_avx2 {
inline constexpr const char* instruction_set = "AVX2+FMA";
using vec_float = __m256;
using vec_double = __m256d;
inline vec_float splat(float x) { return _mm256_set1_ps(x); }
inline vec_double splat(double x) { return _mm256_set1_pd(x); }
inline vec_float madd(vec_float a, vec_float b, vec_float c) { return _mm256_fmadd_ps(a, b, c); }
inline vec_double madd(vec_double a, vec_double b, vec_double c) { return _mm256_fmadd_pd(a, b, c); }
inline vec_float load(const float* p) { return _mm256_load_ps(p); }
inline void store(float* p, vec_float v) { _mm256_store_ps(p, v); }
inline void stream(float* p, vec_float v) { _mm256_stream_ps(p, v); }
#include <headwise/harness/roofline_kernels.inl>
}  // namespace headwise::detail::roofline_avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
namespace headwise::detail::roofline_avx512 {
inline constexpr const char* instruction_set = "AVX-512";
using vec_float = __m512;
using vec_double = __m512d;
inline vec_float splat(float x) { return _mm512_set1_ps(x); }
inline vec_double splat(double x) { return _mm512_set1_pd(x); }
inline vec_float madd(vec_float a, vec_float b, vec_float c) { return _mm512_fmadd_ps(a, b, c); }
inline vec_double madd(vec_double a, vec_double b, vec_double c) { return _mm512_fmadd_pd(a, b, c); }
inline vec_float load(const float* p) { return _mm512_load_ps(p); }
inline void store(float* p, vec_float v) { _mm512_store_ps(p, v); }
inline void stream(float* p, vec_float v) { _mm512_stream_ps(p, v); }
#include <headwise/harness/roofline_kernels.inl>
}  // namespace headwise::detail::roofline_avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#elif defined(__aarch64__) && defined(__GNUC__)

namespace headwise::detail::roofline_neon {
inline constexpr const char* instruction_set = "NEON";
using vec_float = float32x4_t;
using vec_double = float64x2_t;
inline vec_float splat(float x) { return vdupq_n_f32(x); }
inline vec_double splat(double x) { return vdupq_n_f64(x); }
inline vec_float madd(vec_float a, vec_float b, vec_float c) { return vfmaq_f32(c, a, b); }
inline vec_double madd(vec_double a, vec_double b, vec_double c) { return vfmaq_f64(c, a, b); }
inline vec_float load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, vec_float v) { vst1q_f32(p, v); }
inline void stream(float* p, vec_float v) { vst1q_f32(p, v); }
#include <headwise/harness/roofline_kernels.inl>
}  // namespace headwise::detail::roofline_neon

#endif

namespace headwise::detail {

/// The widest that this machine runs.
[[nodiscard]] inline const roofline_kernels& best_roofline_kernels() {
#if defined(__x86_64__) && defined(__GNUC__)
    static const roofline_kernels& best = __builtin_cpu_supports("avx512f") ? roofline_avx512::kernels
                                          : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                              ? roofline_avx2::kernels
                                              : roofline_portable::kernels;
    return best;
#elif defined(__aarch64__) && defined(__GNUC__)
    return roofline_neon::kernels;
#else
    return roofline_portable::kernels;
#endif
}

/// Orders streaming stores before what follows.
inline void streaming_fence() noexcept {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_sfence();
#endif
}

}  // namespace headwise::detail
