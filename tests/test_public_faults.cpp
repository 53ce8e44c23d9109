// Faults that libraries of this kind have been reported for, by behaviour. Where another test is the better home, it is
// named here:
//
//   results that depend on the batch             test_scores: a row's bits do not depend on how many rows there are
//   alignment crashes, stores beyond the end     test_scores: any strides, gaps and alignment; against protected pages
//   NaN from beside the operands                 test_numbers: NaN beside the operands, and in the old output
//   streaming stores without a fence             test_fences
//   inline functions merged across processors    processors/test_mixed_flags
//   identical functions reported as different    test_verdict: identical arms come out different at most as promised
//   counters that count nothing, read as zero    test_counters: a counter that never ran; counters that stand still
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>
#include <headwise/attention_weights.hpp>
#include <headwise/backward.hpp>
#include <headwise/einsum.hpp>
#include <headwise/harness.hpp>
#include <headwise/profile.hpp>

#include "inline_pool.hpp"
#include "layouts.hpp"
#include "operations.hpp"
#include "simulated_machine.hpp"

using namespace headwise;

TEST_CASE_TEMPLATE("D = 0 into an output full of garbage: exact zeros, positive ones, and only in the output", Scalar,
                   float, double) {
    for (const test::scores_implementation& how : test::scores_implementations())
        for (const test::layout& layout : test::layouts()) {
            CAPTURE(how.name);
            CAPTURE(layout.name);
            const test::laid_out<Scalar> out(shape4{2, 3, 5, 7}, layout);  // NaN, within and around
            how(tensor<Scalar>({2, 3, 5, 0}), tensor<Scalar>({2, 3, 7, 0}), out.view());
            CHECK(out.written() == 2 * 3 * 5 * 7);
            std::ptrdiff_t wrong = 0;
            for (std::ptrdiff_t b = 0; b < 2; ++b)
                for (std::ptrdiff_t h = 0; h < 3; ++h)
                    for (std::ptrdiff_t l = 0; l < 5; ++l)
                        for (std::ptrdiff_t m = 0; m < 7; ++m) {
                            const Scalar x = out.view()(b, h, l, m);
                            wrong += !(x == 0) || std::signbit(x);
                        }
            CHECK(wrong == 0);
        }
}

TEST_CASE("axes of one element may have any stride at all, in every operand") {
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    constexpr std::ptrdiff_t junk[] = {0, -1, 12345, huge, -huge - 1};
    for (const test::scores_implementation& how : test::scores_implementations())
        for (const auto& [B, H, L, M, D] : {std::array<std::ptrdiff_t, 5>{1, 1, 1, 1, 1},
                                            {1, 2, 1, 37, 20},
                                            {2, 1, 30, 1, 20},
                                            {3, 1, 30, 37, 1},
                                            {2, 1, 5, 37, 20}}) {
            CAPTURE(how.name);
            const auto q = randn<float>({B, H, L, D}, 1), k = randn<float>({B, H, M, D}, 2);
            tensor<float> expected({B, H, L, M}), out(expected.shape());
            how(q, k, expected);
            for (const std::ptrdiff_t stride : junk) {
                CAPTURE(stride);
                const auto with_junk = [stride](auto view) {
                    strides4 strides = view.strides();
                    for (std::size_t axis = 0; axis < 4; ++axis)
                        if (view.shape()[axis] == 1) strides[axis] = stride;
                    return decltype(view)(view.data(), view.shape(), strides);
                };
                std::fill_n(out.data(), out.size(), -1.0f);
                how(with_junk(q.view()), with_junk(k.view()), with_junk(out.view()));
                CHECK(test::mismatches_of(out, expected) == 0);
                if (how.fused) CHECK(test::same_bits(out, expected));
            }
        }
}

TEST_CASE("q and k may be one tensor, or views that overlap; an output that meets either is refused, untouched") {
    auto buffer = randn<float>({1, 1, 50, 16}, 1);
    const auto before = buffer;
    const tensor_view<const float> rows(buffer.data(), {1, 1, 40, 16});
    const tensor_view<const float> later(buffer.data() + 10 * 16, {1, 1, 40, 16});
    const tensor<float> apart_q(buffer), apart_k(buffer);
    for (const test::scores_implementation& how : test::scores_implementations()) {
        CAPTURE(how.name);
        tensor<float> same({1, 1, 50, 50}), separate(same.shape()), shifted({1, 1, 40, 40});
        how(buffer, buffer, same);
        how(apart_q, apart_k, separate);
        CHECK(test::same_bits(same, separate));
        how(rows, later, shifted);
        CHECK(test::mismatches_of(tensor_view<const float>(&same(0, 0, 0, 10), {1, 1, 40, 40}, {0, 0, 50, 1}),
                                  shifted) == 0);
        const tensor_view<float> inside(buffer.data() + 16, {1, 1, 4, 4}),
            onto(buffer.data(), {1, 1, 4, 4}, {0, 0, 1, 1});
        const tensor_view<const float> four(buffer.data(), {1, 1, 4, 16});
        const tensor_view<const float> other(apart_q.data(), {1, 1, 4, 16});
        CHECK_THROWS_AS(how(four, other, inside), std::invalid_argument);
        CHECK_THROWS_AS(how(other, four, inside), std::invalid_argument);
        CHECK_THROWS_AS(how(other, other, onto), std::invalid_argument);
        CHECK(test::same_bits(buffer, before));
    }
}

TEST_CASE("work too small for a second thread stays with the first, whatever the operation; large work does not") {
    const auto schedules = [](std::ptrdiff_t L, std::ptrdiff_t M) {
        const auto q = randn<float>({1, 4, L, 64}, 1), k = randn<float>({1, 4, M, 64}, 2);
        tensor<float> weights({1, 4, L, M}), dq(q.shape()), dk(k.shape()), out(q.shape());
        const auto tasks_of = [](const auto& call) {
            test::inline_pool pool;
            call(pool);
            return pool.scheduled;
        };
        const auto scores = [](test::inline_pool& pool) { return scores_options{.threads = 8, .pool = &pool}; };
        const auto options = [](test::inline_pool& pool) {
            return attention_options<float>{.threads = 8, .pool = &pool};
        };
        return std::array{
            tasks_of([&](auto& pool) { batched_scores_vectorized(q, k, weights, scores(pool)); }),
            tasks_of([&](auto& pool) { einsum("bhld,bhmd->bhlm", q, k, weights, scores(pool)); }),
            tasks_of([&](auto& pool) { batched_scores_backward(q, k, weights, dq, dk, scores(pool)); }),
            tasks_of([&](auto& pool) { attention(q, k, k, out, options(pool)); }),
            tasks_of([&](auto& pool) { attention_weights(q, k, weights, options(pool)); }),
            tasks_of([&](auto& pool) { attention_logits(q, k, weights, options(pool)); }),
        };
    };
    for (const auto& [L, M] : {std::array{1, 200}, {4, 40}, {30, 40}, {100, 100}})
        for (const int tasks : schedules(L, M)) CHECK(tasks == 0);
    for (const int tasks : schedules(400, 400)) CHECK(tasks > 0);
}

TEST_CASE("rows a power of two apart are gathered first, so that they do not compete for one set of the cache") {
    const tensor<float> k({1, 1, 100, 64});
    tensor<float> out({1, 1, 100, 100});
    const auto memory = std::make_unique<float[]>(100 * 4096);
    const auto needed = [&](std::ptrdiff_t row) {
        return scores_workspace_bytes(tensor_view<const float>(memory.get(), {1, 1, 100, 64}, {0, 0, row, 1}), k, out);
    };
    for (const std::ptrdiff_t row : {1024, 2048, 4096}) CHECK(needed(row) > needed(row - 8));
    CHECK(needed(520) == needed(64));
}

TEST_CASE("one timed run is a run: its time is the mean, the median and the least") {
    const auto q = randn<float>({1, 2, 30, 16}, 1), k = randn<float>({1, 2, 40, 16}, 2);
    const profile_result r = profile_and_compare(q, k, 1);
    CHECK(r.runs == 1);
    CHECK(r.outputs_match);
    CHECK(r.loop_ms > 0);
    CHECK(r.loop_ms == r.loop_median_ms);
    CHECK(r.loop_ms == r.loop_minimum_ms);
    CHECK(r.vectorized_ms == r.vectorized_median_ms);
    REQUIRE(r.speedup);
    CHECK(*r.speedup == doctest::Approx(r.loop_ms / r.vectorized_ms));
}

TEST_CASE("code that the compiler folded away is reported as nothing to compare, not as infinitely fast") {
    simulated_machine machine({.white = 0.01});
    arm real{"real", [&] {
                 machine.work(500);
                 return 1;
             }};
    arm folded{"folded", [] { return 1; }};
    compare_options options;
    options.seed = 1, options.budget = std::chrono::milliseconds(300);
    const comparison c =
        detail::compare_on(machine, options, detail::default_agreement{options.closeness}, real, folded);
    CHECK(c.arms[1].indistinguishable_from_empty);
    CHECK_FALSE(c.arms[1].speedup);
    CHECK(c.arms[1].verdict == verdict::unresolved);
    CHECK(sentence(c, 1).find("indistinguishable from empty") != std::string::npos);
}

TEST_CASE("the order of identical arms decides nothing, whatever drifts") {
    int told_apart = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        simulated_machine machine({.white = 0.02, .drift = 0.2, .tick_every_ns = 2e6}, seed);
        arm first{"first", [&] {
                      machine.work(900);
                      return 1;
                  }};
        arm second{"second", [&] {
                       machine.work(900);
                       return 1;
                   }};
        compare_options options;
        options.seed = seed, options.budget = std::chrono::milliseconds(100), options.margin = 0;
        const comparison c =
            detail::compare_on(machine, options, detail::default_agreement{options.closeness}, first, second);
        told_apart += c.arms[1].verdict == verdict::faster || c.arms[1].verdict == verdict::slower;
    }
    CHECK(told_apart <= 6);  // 2 are expected at 95 %; more than 6 has a probability of 0.3 %
}

TEST_CASE("allclose: the edges where others go wrong") {
    constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float greatest = std::numeric_limits<float>::max();
    using integers = std::vector<std::int64_t>;
    using bytes = std::vector<std::uint8_t>;
    using floats = std::vector<float>;
    CHECK(allclose(integers{least}, integers{least}, {.rtol = 0, .atol = 0}));
    CHECK_FALSE(allclose(integers{least}, integers{most}, {.rtol = 0, .atol = 1}));
    CHECK_FALSE(allclose(bytes{0}, bytes{255}, {.rtol = 0, .atol = 1}));
    CHECK(allclose(bytes{0}, bytes{255}, {.rtol = 1, .atol = 0}));
    CHECK_FALSE(allclose(bytes{255}, bytes{0}, {.rtol = 1, .atol = 0}));
    CHECK(allclose(floats{infinity}, floats{infinity}));
    CHECK_FALSE(allclose(floats{infinity}, floats{-infinity}));
    CHECK_FALSE(allclose(floats{0}, floats{infinity}, {.rtol = 1, .atol = 1}));
    CHECK_FALSE(allclose(floats{infinity}, floats{0}, {.rtol = 1, .atol = 1}));
    CHECK_FALSE(allclose(floats{greatest}, floats{infinity}, {.rtol = 1, .atol = 1}));
    CHECK_FALSE(allclose(floats{infinity}, floats{greatest}, {.rtol = 1, .atol = 1}));
    CHECK_FALSE(allclose(floats{-greatest}, floats{greatest}, {.rtol = 0.5, .atol = 0}));  // the difference overflows
    for (const bool equal_nan : {false, true}) {
        CHECK_FALSE(allclose(floats{nan}, floats{1}, {.rtol = 1, .atol = 1, .equal_nan = equal_nan}));
        CHECK_FALSE(allclose(floats{1}, floats{nan}, {.rtol = 1, .atol = 1, .equal_nan = equal_nan}));
        CHECK(allclose(floats{nan}, floats{nan}, {.equal_nan = equal_nan}) == equal_nan);
    }
    // rtol and atol, and the two arrays, are not exchanged.
    CHECK(allclose(floats{110}, floats{100}, {.rtol = 0.11, .atol = 0}));
    CHECK_FALSE(allclose(floats{110}, floats{100}, {.rtol = 0, .atol = 0.11}));
    CHECK(allclose(floats{0.1f}, floats{0}, {.rtol = 0, .atol = 0.11}));
    CHECK_FALSE(allclose(floats{0.1f}, floats{0}, {.rtol = 0.11, .atol = 0}));
    CHECK(allclose(floats{100}, floats{110}, {.rtol = 0.095, .atol = 0}));
    CHECK_FALSE(allclose(floats{110}, floats{100}, {.rtol = 0.095, .atol = 0}));
}
