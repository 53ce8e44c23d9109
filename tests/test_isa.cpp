// Which instruction set a call takes. The same program runs several times, under other values of HEADWISE_ISA and on
// other (emulated) processors; HEADWISE_TEST_ISAS names those that the processor has.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <headwise/kernel/isa.hpp>

using namespace headwise;

namespace {

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string supported_names() {
    std::string names;
    for (const isa name : supported_isas()) names += (names.empty() ? "" : ", ") + std::string(to_string(name));
    return names;
}

/// As a refusal lists them.
std::string names_of_all() { return supported_names() + (supports(isa::avx512_bf16) ? ", avx512_bf16" : ""); }

/// What a call of float gets of it.
isa for_floats(isa name) { return name == isa::avx512_bf16 ? isa::avx512 : name; }

constexpr isa every_isa[] = {isa::automatic, isa::baseline, isa::avx2, isa::avx512, isa::neon, isa::avx512_bf16};

}  // namespace

TEST_CASE("the processor's instruction sets, from the baseline up") {
    MESSAGE("this processor has " << supported_names());
    CHECK(supported_isas().front() == isa::baseline);
    const auto all = supported_isas();
    for (const isa name : every_isa) {
        const bool listed = std::find(all.begin(), all.end(), name) != all.end();
        CHECK((name == isa::automatic || name == isa::avx512_bf16 ? !listed : listed == supports(name)));
    }
    CHECK(supports(isa::automatic));
    CHECK((!supports(isa::avx512_bf16) || supports(isa::avx512)));
    if (const std::string expected = environment("HEADWISE_TEST_ISAS"); !expected.empty())
        CHECK(supported_names() == expected);
}

TEST_CASE("names and values are each other's inverse; other names are refused") {
    for (const isa name : every_isa) CHECK(parse_isa(to_string(name)) == name);
    for (const std::string wrong : {"sse9", "", "AVX2", "avx2 ", "avx"})
        CHECK_THROWS_WITH_AS(
            static_cast<void>(parse_isa(wrong)),
            ("isa '" + wrong + "' is none of automatic, baseline, avx2, avx512, neon, avx512_bf16").c_str(),
            std::invalid_argument);
}

TEST_CASE("an instruction set that is asked for is taken, or refused with those that there are, every time") {
    for (const isa name : every_isa) {
        CAPTURE(to_string(name));
        if (name == isa::automatic) continue;
        for (int time = 0; time < 2; ++time) {
            if (supports(name)) {
                CHECK(detail::choose_isa(name) == for_floats(name));
                CHECK(detail::choose_bfloat16_isa(name) == name);
            } else {
                const std::string why =
                    "options.isa = " + std::string(to_string(name)) + ": this machine has " + names_of_all();
                CHECK_THROWS_WITH_AS(static_cast<void>(detail::choose_isa(name)), why.c_str(), std::invalid_argument);
                CHECK_THROWS_WITH_AS(static_cast<void>(detail::choose_bfloat16_isa(name)), why.c_str(),
                                     std::invalid_argument);
            }
        }
    }
}

TEST_CASE("a value that names no instruction set is refused") {
    const std::string why = "options.isa = 77: none of automatic, baseline, avx2, avx512, neon, avx512_bf16";
    CHECK_THROWS_WITH_AS(static_cast<void>(detail::choose_isa(static_cast<isa>(77))), why.c_str(),
                         std::invalid_argument);
}

TEST_CASE("automatic takes what HEADWISE_ISA names, or else the best; what is wrong there is refused, every time") {
    const std::string asked = environment("HEADWISE_ISA");
    CAPTURE(asked);
    const auto* const known =
        std::find_if(std::begin(every_isa), std::end(every_isa), [&](isa name) { return to_string(name) == asked; });
    for (int time = 0; time < 2; ++time) {
        if (asked.empty() || asked == "automatic") {
            CHECK(detail::choose_isa(isa::automatic) == supported_isas().back());
            CHECK(detail::choose_bfloat16_isa(isa::automatic) ==
                  (supports(isa::avx512_bf16) ? isa::avx512_bf16 : supported_isas().back()));
        } else if (known == std::end(every_isa))
            CHECK_THROWS_WITH_AS(static_cast<void>(detail::choose_isa(isa::automatic)),
                                 ("environment variable HEADWISE_ISA = '" + asked +
                                  "' is none of automatic, baseline, avx2, avx512, neon, avx512_bf16")
                                     .c_str(),
                                 std::invalid_argument);
        else if (supports(*known)) {
            CHECK(detail::choose_isa(isa::automatic) == for_floats(*known));
            CHECK(detail::choose_bfloat16_isa(isa::automatic) == *known);
        } else
            CHECK_THROWS_WITH_AS(
                static_cast<void>(detail::choose_isa(isa::automatic)),
                ("environment variable HEADWISE_ISA = " + asked + ": this machine has " + names_of_all()).c_str(),
                std::invalid_argument);
    }
}
