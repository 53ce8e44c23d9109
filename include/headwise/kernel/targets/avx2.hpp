// AVX2 with FMA and F16C (Haswell, Zen and newer).
#pragma once

#include <immintrin.h>

#include <headwise/kernel/arguments.hpp>
#include <headwise/kernel/prefetch.hpp>
#include <headwise/kernel/region.hpp>

#define HEADWISE_TARGET avx2
#define HEADWISE_AVX2_FEATURES "avx2,fma"  // stays defined, for attention_kernels.hpp
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX2_FEATURES)
#define HEADWISE_TARGET_END HEADWISE_REGION_END

#include <headwise/kernel/targets/x86_short.inl>

namespace headwise::kernel::avx2 {

template <class Scalar>
struct registers_of;

template <>
struct registers_of<float> {
    using wide = f32x8;
    using narrow = f32x4;
    using narrowest = f32x4;
    static constexpr int tile_rows = 6, few_rows = 6;
};

template <>
struct registers_of<double> {
    using wide = f64x4;
    using narrow = f64x4;
    using narrowest = f64x4;
    static constexpr int tile_rows = 6, few_rows = 6;
};

}  // namespace headwise::kernel::avx2

#include <headwise/kernel/storage.inl>
#include <headwise/kernel/targets/avx2_storage.inl>
#include <headwise/kernel/scores.inl>

#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END
