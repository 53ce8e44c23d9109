// Compiled twice, for the plain processor and for this one (HEADWISE_TEST_UNIT names which), into one program, whose linker
// keeps either copy of each inline function.
#include <cmath>
#include <cstring>
#include <string>

#include <headwise/scores.hpp>

#include "../reference.hpp"

using namespace headwise;

/// Empty, or what is wrong with the scores that this unit gets.
std::string HEADWISE_TEST_UNIT() {
    for (const auto& [L, M, D] : {std::array<std::ptrdiff_t, 3>{5, 33, 19}, {30, 70, 40}, {49, 49, 32}}) {
        const auto q = randn<float>({2, 3, L, D}, 1), k = randn<float>({2, 3, M, D}, 2);
        for (const isa name : supported_isas()) {
            const auto out = batched_scores_vectorized(q, k, {.isa = name});
            if (const std::string wrong = test::mismatch(out, q, k); !wrong.empty())
                return std::string(to_string(name)) + ": " + wrong;
            if (name == isa::baseline) continue;
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    float sum = 0;
                    for (std::ptrdiff_t d = 0; d < D; ++d) sum = std::fma(q(1, 2, l, d), k(1, 2, m, d), sum);
                    if (std::memcmp(&sum, &out(1, 2, l, m), sizeof sum) != 0)
                        return std::string(to_string(name)) + ": not the chain of fused multiply-adds";
                }
        }
    }
    return {};
}
