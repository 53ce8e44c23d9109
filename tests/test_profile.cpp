#include <headwise/profile.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "refusal.hpp"

using namespace headwise;
using test::refusal;

namespace {

constexpr auto loop = [](const auto& q, const auto& k, auto& out) { batched_scores_loop(q, k, out); };
constexpr auto no_progress = [](int, int) {};

/// The loop against `fused`, which may be wrong.
template <class Fused>
profile_result against_loop(const tensor<float>& q, const tensor<float>& k, Fused&& fused, int runs = 3) {
    return detail::profile_pair<float>(q.view(), k.view(), loop, fused, runs, no_progress);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The sum over d from the end, one float at a time: right, and as far from the loop as right answers come.
constexpr auto backwards = [](const auto& q, const auto& k, auto& out) {
    const auto [B, H, L, M] = out.shape();
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m) {
                    float sum = 0;
                    for (std::ptrdiff_t d = q.shape()[3]; d-- > 0;) sum += q(b, h, l, d) * k(b, h, m, d);
                    out(b, h, l, m) = sum;
                }
};

}  // namespace

TEST_CASE("both implementations are compared and timed") {
    const auto q = randn<float>({2, 3, 8, 16}, 1), k = randn<float>({2, 3, 5, 16}, 2);
    const profile_result r = profile_and_compare(q, k);
    CHECK(r.outputs_match);
    CHECK(r.agreement.mismatches == 0);
    CHECK(r.runs == 10);
    CHECK(std::vector{r.b, r.h, r.l, r.m, r.d} == std::vector<std::ptrdiff_t>{2, 3, 8, 5, 16});
    CHECK(r.isa == supported_isas().back());
    CHECK(r.threads == 1);
    CHECK(r.greatest_difference < 1e-5);
    CHECK(r.greatest_difference_at.has_value());
    REQUIRE(r.speedup.has_value());
    CHECK(*r.speedup > 0);
    REQUIRE(r.comparison.arms.size() == 2);
    CHECK(r.comparison["vectorized"].verified);
    CHECK(*r.speedup == r.comparison["vectorized"].speedup->estimate);
    CHECK(r.comparison.blocks == 10);
    CHECK(r.loop_gflops == doctest::Approx(2e-6 * (2 * 3 * 8 * 5 * 16) / r.loop_median_ms));
    CHECK(r.vectorized_gflops == doctest::Approx(2e-6 * (2 * 3 * 8 * 5 * 16) / r.vectorized_median_ms));
    CHECK(r.loop_minimum_ms <= r.loop_median_ms);
    CHECK(r.vectorized_minimum_ms <= r.vectorized_ms);
}

TEST_CASE("doubles, views and every instruction set of the machine") {
    const auto q = randn<double>({1, 2, 7, 33}, 1), k = randn<double>({1, 2, 9, 33}, 2);
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const profile_result r = profile_and_compare(q.view(), k.view(), 1, {.isa = name});
        CHECK(r.outputs_match);
        CHECK(r.isa == name);
    }
    CHECK(profile_and_compare(q, k, 1, {.threads = 0}).threads >= 1);
}

TEST_CASE("correct results in another order of summation match where plain 1e-5 would reject them") {
    const auto q = randn<float>({1, 1, 256, 512}, 1), k = randn<float>({1, 1, 256, 512}, 2);
    CHECK(against_loop(q, k, backwards, 1).outputs_match);

    tensor<float> a({1, 1, 256, 256}), b({1, 1, 256, 256});
    loop(q, k, b), backwards(q, k, a);
    int rejected = 0;
    for (std::ptrdiff_t i = 0; i < a.size(); ++i)
        rejected += std::abs(a.data()[i] - b.data()[i]) > 1e-5f + 1e-5f * std::abs(b.data()[i]);
    CHECK(rejected > 0);
}

TEST_CASE("PyTorch's 1e-5 holds where rounding could do less") {
    auto q = randn<float>({1, 1, 4, 4}, 1);
    const auto k = randn<float>({1, 1, 4, 4}, 2);
    for (std::ptrdiff_t i = 0; i < q.size(); ++i) q.data()[i] *= 1e-3f;
    const auto off_by = [&](float error) {
        return against_loop(q, k, [error](const auto& q_in, const auto& k_in, auto& out) {
            batched_scores_vectorized(q_in, k_in, out);
            out(0, 0, 1, 2) += error;
        });
    };
    CHECK(off_by(9e-6f).outputs_match);
    CHECK_FALSE(off_by(2e-5f).outputs_match);
}

TEST_CASE("one wrong element does not match, is found, and leaves no speed-up") {
    const auto q = randn<float>({1, 2, 40, 128}, 1), k = randn<float>({1, 2, 48, 128}, 2);
    const profile_result r = against_loop(q, k, [](const auto& q_in, const auto& k_in, auto& out) {
        batched_scores_vectorized(q_in, k_in, out);
        out(0, 1, 39, 17) += 0.01f;
    });
    CHECK_FALSE(r.outputs_match);
    CHECK(r.agreement.mismatches == 1);
    CHECK_FALSE(r.speedup.has_value());
    CHECK(r.greatest_difference == doctest::Approx(0.01).epsilon(1e-2));
    REQUIRE(r.greatest_difference_at.has_value());
    CHECK(*r.greatest_difference_at == std::array<std::ptrdiff_t, 4>{0, 1, 39, 17});
    CHECK(r.loop_ms > 0);
    CHECK(r.vectorized_ms > 0);
}

TEST_CASE("an element that nobody writes does not match") {
    const auto q = randn<float>({1, 1, 8, 16}, 1), k = randn<float>({1, 1, 8, 16}, 2);
    const profile_result r = against_loop(q, k, [](const auto& q_in, const auto& k_in, auto& out) {
        const float before = out(0, 0, 7, 7);
        batched_scores_vectorized(q_in, k_in, out);
        out(0, 0, 7, 7) = before;
    });
    CHECK_FALSE(r.outputs_match);
    CHECK(r.agreement.mismatches == 1);
}

TEST_CASE("right at first and wrong, or idle, later does not match") {
    const auto q = randn<float>({1, 1, 8, 16}, 1), k = randn<float>({1, 1, 8, 16}, 2);
    int calls = 0;
    const auto wrong_later = [&calls](const auto& q_in, const auto& k_in, auto& out) {
        batched_scores_vectorized(q_in, k_in, out);
        if (++calls > 2) out(0, 0, 0, 0) += 1.0f;
    };
    CHECK_FALSE(against_loop(q, k, wrong_later).outputs_match);
    calls = 0;
    const auto idle_later = [&calls](const auto& q_in, const auto& k_in, auto& out) {
        if (++calls == 1) batched_scores_vectorized(q_in, k_in, out);
    };
    CHECK_FALSE(against_loop(q, k, idle_later).outputs_match);
}

TEST_CASE("NaN agrees with nothing, an infinity with its equal") {
    auto q = randn<float>({1, 1, 4, 8}, 1);
    const auto k = randn<float>({1, 1, 4, 8}, 2);
    q(0, 0, 1, 0) = std::numeric_limits<float>::infinity();
    CHECK(profile_and_compare(q, k, 1).outputs_match);
    q(0, 0, 1, 0) = std::numeric_limits<float>::quiet_NaN();
    const profile_result r = profile_and_compare(q, k, 1);
    CHECK_FALSE(r.outputs_match);
    CHECK(r.agreement.mismatches == 4);
}

TEST_CASE("huge norms do not allow everything") {
    auto q = randn<float>({1, 1, 1, 64}, 1);
    const auto k = randn<float>({1, 1, 2, 64}, 2);
    q(0, 0, 0, 0) = 1e30f;
    const auto off_by_a_percent = [](const auto& q_in, const auto& k_in, auto& out) {
        batched_scores_vectorized(q_in, k_in, out);
        out(0, 0, 0, 1) *= 1.01f;
    };
    CHECK_FALSE(against_loop(q, k, off_by_a_percent).outputs_match);
}

TEST_CASE("the calls: first one each, then rounds of both, in random order; a run is one call, if that is long") {
    const auto q = randn<float>({1, 1, 4, 4}, 1), k = randn<float>({1, 1, 4, 4}, 2);
    const auto slowly = [](auto&& f) {
        const timer t;
        f();
        while (t.elapsed_ms() < 1.5 * detail::shortest_run_ms) {
        }
    };
    std::string calls;
    std::vector<std::pair<int, int>> progress;
    std::string at_progress;
    const profile_result r = detail::profile_pair<float>(
        q.view(), k.view(),
        [&](const auto& a, const auto& b, auto& out) { calls += 'L', slowly([&] { loop(a, b, out); }); },
        [&](const auto& a, const auto& b, auto& out) { calls += 'F', slowly([&] { loop(a, b, out); }); }, 40,
        [&](int done, int total) {
            progress.emplace_back(done, total);
            at_progress += calls.back();
        });
    CHECK(r.calls == 1);
    CHECK(calls.substr(0, 2) == "LF");
    CHECK(std::count(calls.begin(), calls.end(), 'L') >= 1 + 1 + 40 + 1);
    REQUIRE(progress.size() == 40);
    CHECK(progress.front() == std::pair{1, 40});
    CHECK(progress.back() == std::pair{40, 40});
    // Which one is first is tossed for: all 40 the same would happen once in 2^39.
    CHECK(at_progress.find('L') != std::string::npos);
    CHECK(at_progress.find('F') != std::string::npos);
    CHECK(r.comparison.arms[0].samples.size() == 40);
}

TEST_CASE("a run of short calls is a row of them, the times are those of one") {
    const auto q = randn<float>({1, 1, 4, 4}, 1);
    int calls = 0;
    const profile_result r = detail::profile_pair<float>(
        q.view(), q.view(), loop,
        [&](const auto& a, const auto& b, auto& out) {
            ++calls;
            loop(a, b, out);
        },
        7, no_progress);
    CHECK(r.calls > 1);
    CHECK(static_cast<std::size_t>(calls) > 7 * r.calls);
    CHECK(r.vectorized_median_ms < detail::shortest_run_ms);
    CHECK(r.loop_gflops == doctest::Approx(2e-6 * (4 * 4 * 4) / r.loop_median_ms));
    std::ostringstream os;
    os << r;
    CHECK(contains(os.str(), "7 runs of " + std::to_string(r.calls) + " calls each"));
}

TEST_CASE("times are summed up by mean, minimum and median, in milliseconds") {
    const call_times odd = detail::summary_of({5e6, 1e6, 3e6}), even = detail::summary_of({4e6, 1e6, 2e6, 9e6});
    CHECK(odd.mean == 3);
    CHECK(odd.minimum == 1);
    CHECK(odd.median == 3);
    CHECK(even.mean == 4);
    CHECK(even.median == 3);
    CHECK(detail::summary_of({}).mean == 0);
}

TEST_CASE(
    "what was compared is taken over: means of all runs, the speed-up of the comparison, none for wrong answers") {
    profile_result r;
    r.b = 1, r.h = 2, r.l = 5, r.m = 10, r.d = 50;
    comparison c;
    c.arms.resize(2);
    c.arms[0].samples = {10e6, 12e6, 10e6, 2000e6, 11e6};
    c.arms[1].samples = {1e6, 1e6, 1e6, 1e6, 1e6};
    c.arms[1].verdict = verdict::faster;
    c.arms[1].speedup = interval{11, 10, 12};
    detail::take_comparison(r, c);
    CHECK(r.outputs_match);
    CHECK(r.loop_ms == doctest::Approx(408.6));  // the means tell of an interruption: 409 times as fast
    CHECK(r.vectorized_ms == 1);
    CHECK(r.speedup == 11.0);
    CHECK(r.loop_gflops == doctest::Approx(2e-9 * (1 * 2 * 5 * 10 * 50) / 11e-3));
    CHECK(r.comparison.arms[1].speedup->high == 12);

    r.speedup.reset();
    c.arms[1].verdict = verdict::mismatch, c.arms[1].speedup.reset();
    detail::take_comparison(r, c);
    CHECK_FALSE(r.outputs_match);
    CHECK_FALSE(r.speedup.has_value());

    c.arms[1].verdict = verdict::faster, c.arms[1].speedup = interval{11, 10, 12};
    r.l = 0;  // no outputs
    detail::take_comparison(r, c);
    CHECK_FALSE(r.speedup.has_value());
}

TEST_CASE("wrong at first and right later is wrong, and the report is that of the wrong output") {
    const auto q = randn<float>({1, 1, 4, 8}, 1);
    int calls = 0;
    const profile_result r = against_loop(q, q, [&](const auto& a, const auto& b, auto& out) {
        loop(a, b, out);
        if (++calls <= 3) out(0, 0, 2, 1) += 1;
    });
    CHECK_FALSE(r.outputs_match);
    CHECK_FALSE(r.speedup.has_value());
    CHECK(r.agreement.mismatches == 1);
    CHECK(r.greatest_difference_at == std::array<std::ptrdiff_t, 4>{0, 0, 2, 1});
}

TEST_CASE("an element that is never written is seen, whatever the memory held") {
    const auto q = randn<float>({1, 1, 4, 8}, 1);
    tensor<float> right({1, 1, 4, 4});
    loop(q, q, right);
    bool first = true;
    const profile_result r = against_loop(q, q, [&](const auto& a, const auto& b, auto& out) {
        const float before = first ? right(0, 0, 2, 1) : out(0, 0, 2, 1);
        first = false;
        loop(a, b, out);
        out(0, 0, 2, 1) = before;
    });
    CHECK_FALSE(r.outputs_match);
    CHECK(r.agreement.mismatches == 1);
}

TEST_CASE("empty outputs match and have no speed-up") {
    const tensor<float> q({2, 3, 0, 16}), k({2, 3, 8, 16});
    const profile_result r = profile_and_compare(q, k, 2);
    CHECK(r.outputs_match);
    CHECK_FALSE(r.speedup.has_value());
    CHECK_FALSE(r.greatest_difference_at.has_value());
    CHECK(profile_and_compare(tensor<float>({1, 1, 2, 0}), tensor<float>({1, 1, 2, 0}), 1).outputs_match);
}

TEST_CASE("outputs without a difference have no place of the greatest, and are said to have none") {
    const auto q = randn<float>({1, 2, 3, 1}, 1), k = randn<float>({1, 2, 5, 1}, 2);  // one product: nothing to round
    const profile_result r = profile_and_compare(q, k, 1);
    CHECK(r.greatest_difference == 0);
    CHECK_FALSE(r.greatest_difference_at.has_value());
    std::ostringstream os;
    os << r;
    CHECK(os.str().find("outputs match, no difference\n") != std::string::npos);
}

TEST_CASE("bad input is refused by name, values and rule") {
    const tensor<float> q({1, 2, 4, 8}), k({1, 2, 4, 8}), other({1, 2, 4, 9});
    for (const int runs : {0, -3}) {
        const std::string message = refusal([&] { (void)profile_and_compare(q, k, runs); });
        CAPTURE(message);
        CHECK(contains(message, "num_runs " + std::to_string(runs)));
    }
    CHECK(contains(refusal([&] { (void)profile_and_compare(q, other); }), "depth D"));
    CHECK(contains(refusal([&] { (void)profile_and_compare(q, k, 1, {.scale = 2}); }), "scale"));
}

TEST_CASE("a result prints itself as a table, and leaves the stream as it was") {
    profile_result r;
    r.b = 2, r.h = 3, r.l = 8, r.m = 8, r.d = 16, r.runs = 10, r.isa = isa::avx2;
    r.loop_ms = 0.4, r.loop_median_ms = 0.3, r.loop_minimum_ms = 0.25, r.loop_gflops = 1.5;
    r.vectorized_ms = 0.1, r.vectorized_median_ms = 0.09, r.vectorized_minimum_ms = 0.08, r.vectorized_gflops = 6;
    r.outputs_match = true, r.speedup = 4, r.greatest_difference = 1.5e-6, r.greatest_difference_at = {0, 1, 2, 3};
    std::ostringstream os;
    os << r << 0.5;
    CHECK(os.str() ==
          "scores (2, 3, 8, 16) x (2, 3, 8, 16), 10 runs each\n"
          "           median ms     mean ms      min ms     GFLOP/s\n"
          "loop          0.3000      0.4000      0.2500         1.5   1 thread\n"
          "vectorized    0.0900      0.1000      0.0800         6.0   1 thread, avx2\n"
          "outputs match, greatest difference 1.50e-06 at (0, 1, 2, 3)\n"
          "speed-up 4.00x (centre of 10 pairs of runs)\n"
          "0.5");

    const std::vector<float> right{1, 2, 3}, wrong{1, 2, 4};
    r.outputs_match = false, r.speedup.reset(), r.agreement = close_report(wrong, right);
    std::ostringstream mismatch;
    mismatch << r;
    CHECK(contains(mismatch.str(), "outputs DO NOT match"));
    CHECK(contains(mismatch.str(), "1 of 3 values differ"));
    CHECK_FALSE(contains(mismatch.str(), "speed-up"));
}
