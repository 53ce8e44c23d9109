// The kernels of attention for every target of this machine's kind: apart from those of the scores, so that who wants
// only these does not wait for the compiler to read both.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include <headwise/kernel/attention_arguments.hpp>
#include <headwise/kernel/isa.hpp>
#include <headwise/kernel/region.hpp>
#include <headwise/kernel/targets/baseline.hpp>
#if defined(HEADWISE_HAVE_X86_TARGETS)
#include <headwise/kernel/targets/avx2.hpp>
#include <headwise/kernel/targets/avx512.hpp>
#include <headwise/kernel/targets/avx512_bf16.hpp>
#elif defined(HEADWISE_HAVE_NEON_TARGET)
#include <headwise/kernel/targets/neon.hpp>
#endif

#define HEADWISE_TARGET baseline
#define HEADWISE_TARGET_BEGIN HEADWISE_QUIET_BEGIN
#define HEADWISE_TARGET_END HEADWISE_QUIET_END
#include <headwise/kernel/attention.inl>
#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END

#if defined(HEADWISE_HAVE_X86_TARGETS)

#define HEADWISE_TARGET avx2
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX2_FEATURES)
#define HEADWISE_TARGET_END HEADWISE_REGION_END
#include <headwise/kernel/attention.inl>
#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END

#define HEADWISE_TARGET avx512
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX512_FEATURES)
#define HEADWISE_TARGET_END HEADWISE_REGION_END
#include <headwise/kernel/attention.inl>
#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END

#define HEADWISE_TARGET avx512_bf16
#define HEADWISE_TARGET_BEGIN HEADWISE_REGION_BEGIN(HEADWISE_AVX512_BF16_FEATURES)
#define HEADWISE_TARGET_END HEADWISE_REGION_END
#include <headwise/kernel/attention.inl>
#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END

namespace headwise::kernel {

/// avx512's, but for where the arithmetic is the limit: few rows are read at the memory's speed by either.
template <class Out>
constexpr attention_kernel<bfloat16, Out> attention_with_pairs() {
    attention_kernel<bfloat16, Out> all = avx512::attention_entry<bfloat16, Out>;
    all.attend = avx512_bf16::attend<bfloat16, Out>;
    all.attend_workspace = avx512_bf16::attend_workspace<bfloat16, Out>;
    all.weigh = avx512_bf16::weigh<bfloat16, Out>;
    all.logits = avx512_bf16::logits<bfloat16, Out>;
    all.weigh_workspace = avx512_bf16::weigh_workspace<bfloat16, Out>;
    all.tile_rows = avx512_bf16::tiling<bfloat16>::rows;
    return all;
}

template <class Out>
inline constexpr attention_kernel<bfloat16, Out> attention_pairs_entry = attention_with_pairs<Out>();

}  // namespace headwise::kernel

#elif defined(HEADWISE_HAVE_NEON_TARGET)

#define HEADWISE_TARGET neon
#define HEADWISE_TARGET_BEGIN HEADWISE_QUIET_BEGIN
#define HEADWISE_TARGET_END HEADWISE_QUIET_END
#include <headwise/kernel/attention.inl>
#undef HEADWISE_TARGET
#undef HEADWISE_TARGET_BEGIN
#undef HEADWISE_TARGET_END

#endif
