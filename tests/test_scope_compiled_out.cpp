// Scopes that are compiled out: nothing is recorded, nothing is evaluated.
#define HEADWISE_NO_SCOPES
#include <doctest/doctest.h>

#include <headwise/harness/profiler.hpp>

using namespace headwise;

TEST_CASE("HEADWISE_NO_SCOPES leaves nothing of the macro, and probes are nothing by default") {
    int evaluated = 0;
    [[maybe_unused]] const auto name = [&] { return ++evaluated, "name"; };
    const profile p;
    {
        HEADWISE_SCOPE(name());
        HEADWISE_SCOPE(name(), {.flops = 1}, "shape");
        HEADWISE_PROBE(name());
    }
    CHECK(evaluated == 0);
    CHECK(p.table().rows.empty());
    { const scope written_out("a scope itself is not the macro's"); }
    CHECK(p.table().rows.size() == 1);
}

constexpr int in_a_constant_expression() {
    HEADWISE_SCOPE("s");
    HEADWISE_PROBE("p");
    return 1;
}
static_assert(in_a_constant_expression() == 1);
