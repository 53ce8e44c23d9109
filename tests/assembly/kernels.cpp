// What check_kernels.sh looks at: the hot kernels at the sizes that matter, for every target of the machine.
#include <headwise/kernel/attention_kernels.hpp>

// The address of a function makes the compiler emit it, and nothing else.
#define HEADWISE_TEST_TILES(target, Scalar, Stored)                                                               \
    namespace target##_##Scalar {                                                                                 \
        using tiles = headwise::kernel::target::tiling<Scalar>;                                                   \
        extern constexpr auto tile = &headwise::kernel::target::tile<tiles::vector, tiles::rows, tiles::vectors>; \
        extern constexpr auto values_tile =                                                                       \
            &headwise::kernel::target::values_tile<tiles::vector, tiles::rows, tiles::vectors, Stored>;           \
    }
#define HEADWISE_TEST_HOT(target, Scalar)                                                                              \
    HEADWISE_TEST_TILES(target, Scalar, Scalar)                                                                        \
    namespace target##_##Scalar {                                                                                      \
        extern constexpr auto usual_tile =                                                                             \
            &headwise::kernel::target::tile<tiles::vector, tiles::usual_rows, tiles::vectors>;                         \
        extern constexpr auto few_rows = &headwise::kernel::target::few_rows<tiles::vector, tiles::few>;               \
        extern constexpr auto fetching = &headwise::kernel::target::few_rows<tiles::vector, tiles::few, Scalar, true>; \
        extern constexpr auto pack_lanes = &headwise::kernel::target::pack_lanes<tiles::vector, tiles::width>;         \
    }

#define HEADWISE_TEST_SOFTEN(target, Scalar, Sum)                                             \
    namespace target##_##Scalar {                                                             \
        extern constexpr auto soften = &headwise::kernel::target::soften<tiles::vector, Sum>; \
    }

HEADWISE_TEST_HOT(baseline, float)
HEADWISE_TEST_HOT(baseline, double)
#if defined(HEADWISE_HAVE_X86_TARGETS)
HEADWISE_TEST_HOT(avx2, float)
HEADWISE_TEST_HOT(avx2, double)
HEADWISE_TEST_HOT(avx512, float)
HEADWISE_TEST_HOT(avx512, double)
using headwise::kernel::bfloat16;
HEADWISE_TEST_TILES(avx512_bf16, bfloat16, float)
HEADWISE_TEST_SOFTEN(avx512, float, float)
HEADWISE_TEST_SOFTEN(avx512, double, double)
HEADWISE_TEST_SOFTEN(avx512_bf16, bfloat16, float)
#elif defined(HEADWISE_HAVE_NEON_TARGET)
HEADWISE_TEST_HOT(neon, float)
HEADWISE_TEST_HOT(neon, double)
#endif
