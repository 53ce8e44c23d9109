// Verdicts from traces whose truth is known: error rates, power and coverage of the whole path, calibration and early
// stopping included, on simulated machines. Counts are held against exact binomial bounds.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_machine.hpp"

using namespace headwise;
using doctest::Approx;

namespace {

struct tally {
    std::int64_t trials = 0, faster = 0, slower = 0, equivalent = 0, unresolved = 0, covered = 0, control_failed = 0;
    double seconds = 0;
};

// Arm b costs (1 + effect) times what arm a costs.
tally trials(std::int64_t count, const machine_noise& noise, double call_ns, double effect, double budget_s,
             double margin) {
    tally t;
    for (t.trials = 0; t.trials < count; ++t.trials) {
        const auto seed = static_cast<std::uint64_t>(t.trials + 1);
        simulated_machine machine(noise, seed * 7919);
        const compare_options options{.budget = std::chrono::nanoseconds(static_cast<std::int64_t>(budget_s * 1e9)),
                                      .margin = margin,
                                      .seed = seed};
        arm a{"a", [&] { machine.work(call_ns); }};
        arm b{"b", [&] { machine.work(call_ns * (1 + effect)); }};
        const comparison found =
            detail::compare_on(machine, options, detail::default_agreement{options.closeness}, a, b);
        const arm_result& result = found.arms[1];
        t.faster += result.verdict == verdict::faster;
        t.slower += result.verdict == verdict::slower;
        t.equivalent += result.verdict == verdict::equivalent;
        t.unresolved += result.verdict == verdict::unresolved;
        t.control_failed += found.control_failed;
        t.seconds += found.seconds;
        const double truth = 1 / (1 + effect);
        t.covered += result.speedup && result.speedup->low <= truth && truth <= result.speedup->high;
    }
    return t;
}

// The most that a rate of `rate` gives in `trials` trials, but for one time in 10,000.
std::int64_t at_most(double rate, std::int64_t trials) {
    std::int64_t k = 0;
    while (statistics::binomial_cdf(k, trials, rate) < 0.9999) ++k;
    return k;
}

// As recorded on a shared two-core virtual machine; see simulated_machine.hpp.
const machine_noise quiet{.white = 0.003, .drift = 0.01, .tick_every_ns = 2e6};
const machine_noise shared{.white = 0.003, .drift = 0.01, .tick_every_ns = 2e6, .sharing = true};
const machine_noise bursty{.white = 0.003, .drift = 0.02, .tick_every_ns = 2e6, .bursts = true};
const machine_noise silent{.white = 0.003, .drift = 0.02, .tick_every_ns = 2e6, .bursts = true, .tells = false};

detail::trace trace_of(const std::vector<double>& a, const std::vector<double>& b, std::size_t epochs_per_block = 2) {
    detail::trace t;
    t.epochs_per_block = epochs_per_block;
    t.blocks = a.size() / epochs_per_block;
    t.look = detail::looks.size() - 1;
    for (const auto* ns : {&a, &b}) t.arms.push_back({*ns, std::vector<bool>(ns->size(), false)});
    return t;
}

comparison judged(const detail::trace& t, double margin = 0.01) {
    comparison result;
    result.arms.resize(t.arms.size());
    detail::judge(t, {.margin = margin}, result);
    return result;
}

std::vector<double> noisy(double centre, std::size_t n, std::uint64_t seed, double sigma = 0.002) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values(n);
    for (double& x : values) x = centre * std::exp(sigma * normal(random));
    return values;
}

}  // namespace

TEST_CASE("identical arms come out different at most as often as promised, on any machine") {
    constexpr std::int64_t n = 500;
    for (const machine_noise& noise : {quiet, shared, bursty, silent}) {
        for (const double call : {1e4, 2e6}) {
            const tally t = trials(n, noise, call, 0, 0.1, 0);
            CHECK(t.faster + t.slower <= at_most(0.05, n));
            CHECK(t.covered >= n - at_most(0.05, n));
            CHECK(t.control_failed <= at_most(0.001, n));
        }
    }
}

TEST_CASE("small differences are seen in short time, and never the wrong way round") {
    constexpr std::int64_t n = 50;
    for (const machine_noise& noise : {quiet, shared, bursty}) {
        CHECK(trials(n, noise, 1e4, 0.01, 0.2, 0).slower >= 49);
        CHECK(trials(n, noise, 1e4, 0.005, 0.25, 0).slower >= 48);
        CHECK(trials(n, noise, 1e4, 0.002, 0.5, 0).slower >= 47);
        const tally t = trials(n, noise, 2e6, 0.03, 0.35, 0);
        CHECK(t.slower >= 48);
        CHECK(t.faster == 0);
    }
}

TEST_CASE("the same within the margin is an answer, given early") {
    const tally t = trials(100, quiet, 1e4, 0, 1, 0.01);
    CHECK(t.equivalent >= 99);
    CHECK(t.seconds / 100 < 0.1);
    CHECK(trials(50, quiet, 1e4, 0.004, 1, 0.01).equivalent >= 49);  // a real difference, too small to matter
    CHECK(trials(50, quiet, 1e4, 0.05, 1, 0.01).slower == 50);
}

TEST_CASE("the true ratio lies in the interval, for small ratios and large") {
    for (const double effect : {0.02, 0.5, 6.0}) {
        const tally t = trials(200, bursty, 1e4, effect, 0.2, 0.01);
        CHECK(t.covered >= 200 - at_most(0.05, 200));
        CHECK(t.slower == 200);
    }
}

TEST_CASE("verdicts follow the interval") {
    const auto of = [](double low, double high, double margin, double floor = 0) {
        return detail::verdict_of({(low + high) / 2, low, high}, margin, floor);
    };
    CHECK(of(0.001, 0.02, 0.01) == verdict::faster);
    CHECK(of(-0.02, -0.001, 0.01) == verdict::slower);
    CHECK(of(-0.001, 0.02, 0.01) == verdict::unresolved);
    CHECK(of(-0.004, 0.006, 0.01) == verdict::equivalent);
    CHECK(of(0.001, 0.006, 0.01) == verdict::equivalent);
    CHECK(of(0.001, 0.006, 0) == verdict::faster);
    CHECK(of(0, 0.006, 0) == verdict::unresolved);
    CHECK(of(0, 0, 0) == verdict::unresolved);
    CHECK(of(0.001, 0.02, 0.01, 0.005) == verdict::unresolved);  // the control moved by as much
    CHECK(of(0.006, 0.02, 0.01, 0.005) == verdict::faster);
    CHECK(of(-0.004, 0.006, 0.01, 0.02) == verdict::unresolved);  // ... by more than the margin: no equivalence either
}

TEST_CASE("times that are not numbers are left out, not passed on") {
    std::vector<double> a = noisy(1e5, 80, 1), b = noisy(5e4, 80, 2);
    for (std::size_t i = 0; i < 20; ++i) a[4 * i] = std::numeric_limits<double>::quiet_NaN();
    b[3] = 0;
    b[7] = -1;
    b[9] = std::numeric_limits<double>::infinity();
    const comparison c = judged(trace_of(a, b));
    REQUIRE(c.arms[1].speedup);
    CHECK(c.arms[1].verdict == verdict::faster);
    CHECK(c.arms[1].speedup->estimate == Approx(2).epsilon(0.01));
    CHECK(std::isfinite(c.arms[0].time.median));

    const std::vector<double> nothing(80, std::numeric_limits<double>::quiet_NaN());
    const comparison none = judged(trace_of(nothing, b));
    CHECK(none.arms[1].verdict == verdict::unresolved);
    CHECK_FALSE(none.arms[1].speedup);
}

TEST_CASE("a spoiled epoch does not count while its block has another") {
    detail::trace t = trace_of({100, 100, 100, 100}, {50, 400, 50, 400});
    t.arms[1].spoiled = {true, false, false, false};
    CHECK(detail::block_log_ratios(t.arms[0], t.arms[1], 2) ==
          std::vector<double>{std::log(100.0 / 400), std::log(2.0)});
    t.arms[1].spoiled = {true, true, false, false};
    CHECK(detail::block_log_ratios(t.arms[0], t.arms[1], 2) == std::vector<double>{std::log(2.0)});
    t.arms[1].spoiled = {true, true, true, true};  // nothing is unspoiled: better than nothing
    CHECK(detail::block_log_ratios(t.arms[0], t.arms[1], 2).size() == 2);
}

TEST_CASE("an arm that is fast in most calls and slow in total gets no verdict for it") {
    std::vector<double> a = noisy(1e5, 400, 1), b = noisy(8e4, 400, 2);
    for (std::size_t i = 0; i < b.size(); i += 4) b[i] = 4e5;  // in total 1.6 times as long as a
    const arm_result result = judged(trace_of(a, b)).arms[1];
    CHECK(result.verdict == verdict::unresolved);
    CHECK(result.reason.find("total") != std::string::npos);
    CHECK(result.speedup->estimate == Approx(1.25).epsilon(0.01));
}

TEST_CASE("a control that comes out different takes away what is no larger than itself") {
    const std::vector<double> a = noisy(1e5, 800, 1), b = noisy(1e5 / 1.02, 800, 2);
    detail::trace t = trace_of(a, b);
    CHECK(judged(t, 0).arms[1].verdict == verdict::faster);
    t.control_partner = {noisy(1e5, 100, 3), std::vector<bool>(100, false)};
    t.control = {noisy(1e5, 100, 4), std::vector<bool>(100, false)};
    CHECK(judged(t, 0).arms[1].verdict == verdict::faster);
    CHECK_FALSE(judged(t, 0).control_failed);
    for (double& x : t.control.ns) x *= 1.05;
    const comparison c = judged(t, 0);
    CHECK(c.control_failed);
    CHECK(c.arms[1].verdict == verdict::unresolved);
    CHECK(c.arms[1].reason.find("identical code") != std::string::npos);
    for (double& x : t.arms[1].ns) x /= 2;  // but twice as fast remains twice as fast
    CHECK(judged(t, 0).arms[1].verdict == verdict::faster);
}

TEST_CASE("what costs no more than calling nothing is not given a ratio") {
    detail::trace t = trace_of(noisy(1e5, 80, 1), noisy(3.1e4, 80, 2));
    t.calls = 100'000;
    t.empty = {std::vector<double>(5, 3e4), std::vector<bool>(5, false)};  // 0.3 ns a call
    const arm_result result = judged(t).arms[1];
    CHECK(result.indistinguishable_from_empty);
    CHECK(result.verdict == verdict::unresolved);
    CHECK_FALSE(result.speedup);
    CHECK(result.reason.find("indistinguishable from empty") != std::string::npos);
    CHECK_FALSE(judged(t).arms[0].indistinguishable_from_empty);  // 1 ns a call

    const comparison reversed = judged(trace_of(noisy(3.1e4, 80, 2), noisy(1e5, 80, 1)));
    CHECK(reversed.arms[1].speedup);  // without an empty arm there is nothing to tell it from
}

TEST_CASE("too few blocks say so") {
    const comparison five = judged(trace_of({10, 10, 10, 10, 10}, {5, 5.1, 5, 5, 5}, 1));
    CHECK(five.arms[1].verdict == verdict::unresolved);
    CHECK(five.arms[1].speedup->estimate == Approx(2).epsilon(0.05));
    CHECK(five.arms[1].speedup->low == 0);
    CHECK(five.arms[1].reason == "5 blocks are too few for an interval");
    CHECK(judged(trace_of({10, 10, 10, 10, 10, 10}, {5, 5.1, 5, 5, 5, 5}, 1)).arms[1].verdict == verdict::faster);
    CHECK_FALSE(judged(trace_of({}, {})).arms[1].speedup);
}

TEST_CASE(
    "what reading the clock adds comes off: it is a share of a fast arm's time where a slow one leaves few calls") {
    detail::trace t = trace_of(noisy(85 * 4700.0 + 25, 80, 1), noisy(85 * 9.7 + 25, 80, 2));
    t.calls = 85;
    const double truth = 4700 / 9.7;
    CHECK(judged(t).arms[1].speedup->high < 0.98 * truth);
    t.reading_ns = 25;
    const arm_result result = judged(t).arms[1];
    CHECK(result.speedup->estimate == Approx(truth).epsilon(0.003));
    CHECK(result.time.median == Approx(9.7).epsilon(0.01));
}

TEST_CASE("a step of an arm's speed widens the interval, and does not take it away") {
    std::vector<double> fast = noisy(1000, 172, 2);
    for (std::size_t i = fast.size() / 2; i < fast.size(); ++i) fast[i] *= 1.05;
    const arm_result result = judged(trace_of(noisy(4000, 172, 1), fast)).arms[1];
    CHECK(result.verdict == verdict::faster);
    CHECK(result.effective_blocks < 10);
    CHECK(result.speedup->low > 3.7);
    CHECK(result.speedup->high < 4.1);
}

TEST_CASE("blocks without an epoch that counts are left out, whatever the compiler takes numbers for") {
    detail::trace t = trace_of(noisy(2000, 80, 1), noisy(1000, 80, 2));
    for (std::size_t i = 0; i < 20; ++i) t.arms[0].spoiled[i] = true;
    t.arms[1].ns[30] = t.arms[1].ns[31] = -5;
    CHECK(detail::block_log_ratios(t.arms[0], t.arms[1], 2).size() == 29);
    const arm_result result = judged(t).arms[1];
    CHECK(result.verdict == verdict::faster);
    CHECK(result.speedup->low > 1.9);
    CHECK(result.speedup->high < 2.1);
}

TEST_CASE("more arms share the error between them") {
    detail::trace two = trace_of({}, {}), four = two;
    four.arms.resize(4);
    CHECK(detail::alpha_at(four, 0.95) == Approx(detail::alpha_at(two, 0.95) / 3));
    CHECK(detail::alpha_at(two, 0.95) == Approx(0.045));
    two.look = 0;
    CHECK(detail::alpha_at(two, 0.95) == Approx(0.0001));
}

TEST_CASE("a clock that rounds every epoch alike widens the interval by its step") {
    detail::trace t = trace_of(std::vector<double>(80, 100), std::vector<double>(80, 99));
    t.tick_ns = 1;
    CHECK(judged(t, 0).arms[1].verdict == verdict::unresolved);
    t.tick_ns = 0.001;
    CHECK(judged(t, 0).arms[1].verdict == verdict::faster);
}
