// The library's own scopes, switched on: they reach the profile, also from code compiled for another instruction set.
#define HEADWISE_PROFILE_OPERATIONS
#include <doctest/doctest.h>

#include <headwise/kernel/region.hpp>
#include <headwise/probe.hpp>

#include <headwise/harness/profiler.hpp>

using namespace headwise;

#if defined(__x86_64__)
HEADWISE_REGION_BEGIN("avx2,fma")
#endif
namespace {
HEADWISE_NOINLINE int in_a_region(int n) {
    HEADWISE_PROBE("region");
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        HEADWISE_PROBE("inside");
        sum += i;
    }
    return sum;
}
}  // namespace
#if defined(__x86_64__)
HEADWISE_REGION_END
#endif

TEST_CASE("probes are scopes: nested, recorded only while a profile records") {
    CHECK(in_a_region(4) == 6);
    profile p;
    {
        HEADWISE_SCOPE("caller");
        CHECK(in_a_region(4) == 6);
        CHECK(in_a_region(3) == 3);
    }
    p.stop();
    CHECK(in_a_region(4) == 6);
    const profile_table table = p.table();
    CHECK(table.rows.size() == 3);
    CHECK(table["region"].calls == 2);
    CHECK(table["inside"].calls == 7);
    CHECK(table.total_ns == table["caller"].total_ns);
    CHECK(table["region"].self_ns + table["inside"].total_ns == table["region"].total_ns);
}
