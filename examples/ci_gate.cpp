// A gate for a build: fails when the new implementation is shown to be slower than the old one, or to be wrong.
// Exit status 0: it is not slower by more than 3 %, or this machine was too noisy to tell; 1: it is; 2: usage,
// or a file that is no baseline.
// A file name as argument keeps the findings there, and compares with what an earlier run kept.
//
// In a doctest test the gate is one line: CHECK_NOTHROW(headwise::require_not_slower(result, "new", 0.03));
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <vector>

#include <headwise/harness/baseline.hpp>
#include <headwise/harness/compare.hpp>
#include <headwise/harness/report.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) return std::cerr << "usage: ci_gate [baseline file]\n", 2;
    std::vector<std::uint64_t> words(4'096);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x9e3779b97f4a7c15ull;

    const auto old_way = [&] {
        int bits = 0;
        for (std::uint64_t word : words) {
            for (; word != 0; word &= word - 1) ++bits;
        }
        return bits;
    };
    const auto new_way = [&] {
        int bits = 0;
        for (const std::uint64_t word : words) bits += std::popcount(word);
        return bits;
    };

    const auto result = headwise::compare({.budget = 500ms, .inputs = {words}}, headwise::arm{"old", old_way},
                                          headwise::arm{"new", new_way});
    std::cout << result << '\n';
    const bool told = headwise::require_not_slower(result, "new", 0.03);
    std::cout << (told ? "gate: passed\n" : "gate: could not tell\n");
    if (argc == 2) {
        if (std::filesystem::exists(argv[1])) std::cout << '\n' << headwise::compare_to_baseline(result, argv[1]);
        headwise::save_baseline(argv[1], result);
    }
} catch (const headwise::regression& slower) {
    std::cout << "gate: failed: " << slower.what() << '\n';
    return 1;
} catch (const std::exception& error) {
    std::cerr << "ci_gate: " << error.what() << '\n';
    return 2;
}
