// The one-file headers by themselves, in either order and twice, and what a file that was put together must not hold.
#include <single/headwise/harness.hpp>
#include <single/headwise/headwise.hpp>
#include <single/headwise/harness.hpp>

#include <cstddef>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

std::size_t isas_elsewhere();

namespace {

/// The directives of a file, in order, without the space around the sharp; comments are cut off.
struct directives {
    std::size_t includes_of_our_own = 0, includes_in_regions = 0, line_markers = 0, guards = 0;
    std::ptrdiff_t open_conditions = 0, open_regions = 0;
    std::set<std::string> begun;

    explicit directives(const std::string& path) {
        std::ifstream file(path);
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            std::string first, second;
            words >> first >> second;
            if (first == "#include" && second.starts_with("<headwise/")) ++includes_of_our_own;
            if (first == "#include" && open_regions != 0) ++includes_in_regions;
            if (first == "#line") ++line_markers;
            if (first == "#pragma" && second == "once") ++guards;
            if (first.starts_with("#if")) ++open_conditions;
            if (first == "#endif") --open_conditions;
            if (first == "HEADWISE_TARGET_BEGIN") ++open_regions;
            if (first == "HEADWISE_TARGET_END") --open_regions;
            if (first == "#define" && second == "HEADWISE_TARGET") {
                words >> second;
                begun.insert(second);
            }
        }
    }
};

}  // namespace

TEST_CASE("a one-file header is whole: nothing of ours to include, conditions closed, no include in a target region") {
    for (const char* door : {"headwise", "harness"}) {
        CAPTURE(door);
        const directives found(std::string(HEADWISE_TEST_SINGLE "/") + door + ".hpp");
        CHECK(found.includes_of_our_own == 0);
        CHECK(found.includes_in_regions == 0);
        CHECK(found.line_markers == 0);
        CHECK(found.guards == 1);
        CHECK(found.open_conditions == 0);
        CHECK(found.open_regions == 0);
        if (std::string(door) == "headwise")
            CHECK(found.begun == std::set<std::string>{"avx2", "avx512", "avx512_bf16", "baseline", "neon"});
    }
}

TEST_CASE("two translation units share what is inline") {
    CHECK(isas_elsewhere() == headwise::supported_isas().size());
}
