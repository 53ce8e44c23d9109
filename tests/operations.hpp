// The implementations under test, for tests that ask the same of all of them. A new one joins the list below, or, for
// an operation of other arguments, gets a list of its own beside it.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>

#include "bits.hpp"

// Which sanitizer this is built with: GCC says so by macros, Clang by features.
#if defined(__SANITIZE_ADDRESS__)
#define HEADWISE_TEST_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define HEADWISE_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADWISE_TEST_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define HEADWISE_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace headwise::test {

/// One way to compute batched scores.
struct scores_implementation {
    std::string name;
    bool fused = true;  ///< Takes options; false: the loop.
    enum isa isa = isa::baseline;

    /// Whether the result is, bit for bit, the chain of fused multiply-adds, d ascending from zero.
    [[nodiscard]] bool is_chain() const { return fused && isa != isa::baseline; }

    template <class Q, class K, class Out>
    void operator()(const Q& q, const K& k, Out&& out, scores_options options = {}) const {
        options.isa = isa;
        if (fused) batched_scores_vectorized(q, k, out, options);
        else batched_scores_loop(q, k, out);
    }
};

/// All that this machine can run.
inline std::vector<scores_implementation> scores_implementations() {
    std::vector<scores_implementation> all{{"loop", false}};
    for (const isa name : supported_isas()) all.push_back({"fused, " + std::string(to_string(name)), true, name});
    return all;
}

/// How many elements of a view differ from a dense tensor's by more than another order of summation may bring about,
/// for sums of up to a few hundred products of standard normal values.
template <class View, class Scalar>
[[nodiscard]] std::ptrdiff_t mismatches_of(const View& view_like, const tensor<Scalar>& expected) {
    const auto view = as_view(view_like);
    constexpr Scalar allowed = 10000 * std::numeric_limits<Scalar>::epsilon();
    const auto [B, H, L, M] = expected.shape();
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    count += !(std::abs(view(b, h, l, m) - expected(b, h, l, m)) <= allowed);
    return count;
}

/// How much is tried. `sampled`: where everything takes ten or a hundred times as long (sanitizers, no optimisation).
/// `all`: what the matrix asks for. HEADWISE_TEST_DENSE = 0, 1 or 2 decides instead.
enum class thoroughness { sampled, usual, all };

inline thoroughness how_thorough() {
    if (const char* const text = std::getenv("HEADWISE_TEST_DENSE"); text != nullptr && *text != '\0')
        return *text == '0' ? thoroughness::sampled : *text == '1' ? thoroughness::usual : thoroughness::all;
#if defined(HEADWISE_TEST_ADDRESS_SANITIZER) || defined(HEADWISE_TEST_THREAD_SANITIZER) || \
    (defined(__GNUC__) && !defined(__OPTIMIZE__))
    return thoroughness::sampled;
#else
    return thoroughness::usual;
#endif
}

}  // namespace headwise::test
