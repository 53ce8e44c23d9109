// What check_kernels.sh looks at: the hot kernels at the sizes that matter, for every target of the machine.
#include <headwise/kernel/isa.hpp>
#include <headwise/kernel/targets/baseline.hpp>
#if defined(HEADWISE_HAVE_X86_TARGETS)
#include <headwise/kernel/targets/avx2.hpp>
#include <headwise/kernel/targets/avx512.hpp>
#elif defined(HEADWISE_HAVE_NEON_TARGET)
#include <headwise/kernel/targets/neon.hpp>
#endif

// The address of a function makes the compiler emit it, and nothing else.
#define HEADWISE_TEST_HOT(target, Scalar)                                                                              \
    namespace target##_##Scalar {                                                                                      \
        using tiles = headwise::kernel::target::tiling<Scalar>;                                                        \
        extern constexpr auto tile = &headwise::kernel::target::tile<tiles::vector, tiles::rows, tiles::vectors>;      \
        extern constexpr auto few_rows = &headwise::kernel::target::few_rows<tiles::vector, tiles::few>;               \
        extern constexpr auto fetching = &headwise::kernel::target::few_rows<tiles::vector, tiles::few, Scalar, true>; \
        extern constexpr auto pack_lanes = &headwise::kernel::target::pack_lanes<tiles::vector, tiles::width>;         \
    }

HEADWISE_TEST_HOT(baseline, float)
HEADWISE_TEST_HOT(baseline, double)
#if defined(HEADWISE_HAVE_X86_TARGETS)
HEADWISE_TEST_HOT(avx2, float)
HEADWISE_TEST_HOT(avx2, double)
HEADWISE_TEST_HOT(avx512, float)
HEADWISE_TEST_HOT(avx512, double)
#elif defined(HEADWISE_HAVE_NEON_TARGET)
HEADWISE_TEST_HOT(neon, float)
HEADWISE_TEST_HOT(neon, double)
#endif
