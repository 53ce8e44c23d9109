// The statistics against published tables, exact counts and simulated series whose answer is known.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <headwise/harness/statistics.hpp>

using namespace headwise;
using doctest::Approx;

namespace {

std::vector<double> all_pairwise_means(const std::vector<double>& values) {
    std::vector<double> means;
    for (std::size_t i = 0; i < values.size(); ++i) {
        for (std::size_t j = i; j < values.size(); ++j) means.push_back(std::midpoint(values[i], values[j]));
    }
    std::ranges::sort(means);
    return means;
}

// P(W <= w) for the signed-rank statistic of n observations, by counting subsets of 1..n.
double signed_rank_cdf(std::size_t n, std::uint64_t w) {
    std::vector<double> ways(n * (n + 1) / 2 + 1, 0.0);
    ways[0] = 1;
    for (std::size_t rank = 1; rank <= n; ++rank) {
        for (std::size_t s = ways.size(); s-- > rank;) ways[s] = 0.5 * (ways[s] + ways[s - rank]);
        for (std::size_t s = 0; s < rank; ++s) ways[s] *= 0.5;
    }
    double sum = 0;
    for (std::uint64_t s = 0; s <= w; ++s) sum += ways[s];
    return sum;
}

}  // namespace

TEST_CASE("quantiles are those of R's type 7") {
    const std::vector<double> values{1, 2, 4, 8};
    CHECK(statistics::quantile(values, 0) == 1);
    CHECK(statistics::quantile(values, 0.25) == Approx(1.75));
    CHECK(statistics::quantile(values, 0.5) == Approx(3));
    CHECK(statistics::quantile(values, 1) == 8);
    CHECK(std::isnan(statistics::quantile({}, 0.5)));
    CHECK(statistics::median({3, 1, 2}) == 2);
}

TEST_CASE("a summary leaves out what is not a number") {
    const summary s = statistics::summarise(
        {5, std::numeric_limits<double>::quiet_NaN(), 1, 3, std::numeric_limits<double>::infinity(), 11});
    CHECK(s.count == 4);
    CHECK(s.minimum == 1);
    CHECK(s.median == 4);
    CHECK(s.mean == 5);
    CHECK(s.mad == 2);  // |1-4|, |3-4|, |5-4|, |11-4| = 3, 1, 1, 7
    CHECK(statistics::summarise({}).count == 0);
}

TEST_CASE("normal quantiles are the published ones") {
    CHECK(statistics::normal_quantile(0.975) == Approx(1.959963984540054).epsilon(1e-12));
    CHECK(statistics::normal_quantile(0.9995) == Approx(3.290526731491926).epsilon(1e-12));
    CHECK(statistics::normal_quantile(0.5) == Approx(0));
    CHECK(statistics::normal_quantile(1e-5) == Approx(-4.264890793922825).epsilon(1e-10));
}

TEST_CASE("binomial tails and Clopper-Pearson intervals are the published ones") {
    CHECK(statistics::binomial_cdf(3, 10, 0.5) == Approx(176.0 / 1024));
    CHECK(statistics::binomial_cdf(10, 10, 0.3) == Approx(1));
    CHECK(statistics::proportion(0, 10).low == 0);
    CHECK(statistics::proportion(0, 10).high == Approx(0.3084971).epsilon(1e-5));  // 1 - 0.025^(1/10)
    CHECK(statistics::proportion(10, 10).low == Approx(0.6915029).epsilon(1e-5));
    CHECK(statistics::proportion(10, 10).high == 1);
    CHECK(statistics::proportion(50, 1000).low == Approx(0.0373354).epsilon(1e-4));  // R: binom.test(50, 1000)
    CHECK(statistics::proportion(50, 1000).high == Approx(0.0653905).epsilon(1e-4));
}

TEST_CASE("signed-rank depths are one above the critical values in the tables") {
    // Wilcoxon & Wilcox (1964), two-sided 5 %: reject at W <= 0, 2, 3, 5, 8, 25, 52, 89, 137, 434 for the n below.
    const std::vector<std::pair<std::size_t, std::uint64_t>> table{{6, 0},   {7, 2},   {8, 3},   {9, 5},    {10, 8},
                                                                   {15, 25}, {20, 52}, {25, 89}, {30, 137}, {50, 434}};
    for (const auto& row : table)
        CHECK_MESSAGE(statistics::signed_rank_depth(row.first, 0.025) == row.second + 1, "n = ", row.first);
    CHECK(statistics::signed_rank_depth(5, 0.025) == 0);  // 1/32 > 0.025: five observations can never do
    CHECK(statistics::signed_rank_depth(0, 0.025) == 0);
}

TEST_CASE("beyond the exact range the signed-rank depth keeps its error rate to some hundredths of it") {
    for (const std::size_t n : {std::size_t{65}, std::size_t{100}, std::size_t{200}, std::size_t{400}}) {
        for (const double tail : {0.025, 0.0225, 0.0025, 0.0005, 0.00005}) {
            const std::uint64_t depth = statistics::signed_rank_depth(n, tail);
            const double achieved = signed_rank_cdf(n, depth - 1), next = signed_rank_cdf(n, depth);
            const double off = tail < 1e-4 ? 0.05 : 0.01;  // the first look's tail, 5e-5 of 5 %, is of no weight
            CHECK_MESSAGE(achieved <= tail * (1 + off), "n = ", n, ", tail = ", tail);
            CHECK_MESSAGE(next >= tail * (1 - off), "n = ", n, ", tail = ", tail);
        }
    }
}

TEST_CASE("the k-th pairwise mean is found without forming the means, ties included") {
    std::mt19937_64 random(7);
    for (int trial = 0; trial < 50; ++trial) {
        std::vector<double> values(1 + random() % 40);
        for (double& x : values)
            x = trial % 2 == 0 ? static_cast<double>(random() % 7) - 3 : std::ldexp(static_cast<double>(random()), -60);
        std::ranges::sort(values);
        const std::vector<double> means = all_pairwise_means(values);
        for (std::size_t k = 1; k <= means.size(); ++k) REQUIRE(statistics::pairwise_mean(values, k) == means[k - 1]);
    }
}

TEST_CASE("an interval that touches zero touches it exactly") {
    // Six ties and enough positive values that the lower end falls among the ties: 1e-300 instead of 0 would be a
    // verdict.
    const std::vector<double> values{0, 0.1, 0, 0.1, 0, 0.1, 0, 0.2, 0, 0.1, 0, 0.1};
    const auto found = statistics::centre(values, 0.05);
    REQUIRE(found);
    CHECK(found->low == 0);
    CHECK(found->high > 0);
}

TEST_CASE("the centre of a small series is the Hodges-Lehmann estimate") {
    // n = 6 at 5 %: the interval is the full range (P(W = 0) = 1/64).
    const auto six = statistics::centre({3, 1, 4, 1.5, 9, 2.5}, 0.05);
    REQUIRE(six);
    CHECK(six->low == 1);
    CHECK(six->high == 9);
    CHECK(six->estimate == Approx(2.75));  // the 11th of the 21 pairwise means
    CHECK_FALSE(statistics::centre({1, 2, 3, 4, 5}, 0.05));
    CHECK_FALSE(statistics::centre({}, 0.05));
}

TEST_CASE("independent values are worth their number, autocorrelated ones less") {
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    std::vector<double> white(2000), ar1(2000), alternating(2000);
    double last = 0;
    for (std::size_t i = 0; i < white.size(); ++i) {
        white[i] = normal(random);
        ar1[i] = last = 0.5 * last + normal(random);
        alternating[i] = (i % 2 == 0 ? 1 : -1) + 0.1 * normal(random);
    }
    CHECK(statistics::effective_size(white) > 1700);
    CHECK(statistics::effective_size(ar1) == Approx(2000 / 3.0).epsilon(0.3));  // (1 - 0.5) / (1 + 0.5)
    CHECK(statistics::effective_size(alternating) == 2000);                     // never more than there are
    white[1000] = 1e6;                                                          // an outlier hides nothing
    ar1[1000] = 1e6;
    CHECK(statistics::effective_size(ar1) == Approx(2000 / 3.0).epsilon(0.3));
    CHECK(statistics::effective_size(std::vector<double>(100, 1.0)) == 100);
}

TEST_CASE("drift: worth a few values, of a hundred or of a hundred thousand; its interval is all that there is") {
    for (const std::size_t n : {100u, 100'000u}) {
        CAPTURE(n);
        std::vector<double> drifting(n);
        for (std::size_t i = 0; i < n; ++i) drifting[i] = 1 + static_cast<double>(i) / static_cast<double>(n);
        CHECK(statistics::effective_size(drifting) < 5);
        const auto found = statistics::centre(drifting, 0.05);
        REQUIRE(found);
        CHECK(found->low == doctest::Approx(1).epsilon(0.05));
        CHECK(found->high == doctest::Approx(2).epsilon(0.05));
    }
}

namespace {

enum class series { independent, ar1, skew_free_outliers, bimodal, tied };

double coverage_misses(series kind, std::int64_t trials, std::size_t n, double truth) {
    std::mt19937_64 random(static_cast<std::uint64_t>(kind) * 100 + 11);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    std::int64_t misses = 0;
    for (std::int64_t trial = 0; trial < trials; ++trial) {
        std::vector<double> values(n);
        double state = normal(random) * 1.15;
        for (double& x : values) {
            const double z = normal(random);
            switch (kind) {
                case series::independent:
                    x = z;
                    break;
                case series::ar1:
                    x = state = 0.5 * state + z;
                    break;
                case series::skew_free_outliers:
                    x = uniform(random) < 0.2 ? 40 * z : z;
                    break;
                case series::bimodal:
                    x = z * 0.2 + (uniform(random) < 0.5 ? -2 : 2);
                    break;
                case series::tied:
                    x = std::round(z);
                    break;
            }
            x += truth;
        }
        const auto found = statistics::centre(values, 0.05);
        REQUIRE(found);
        if (!(found->low <= truth && truth <= found->high)) ++misses;
    }
    return static_cast<double>(misses) / static_cast<double>(trials);
}

}  // namespace

TEST_CASE("intervals cover the truth as often as they say") {
    constexpr std::int64_t trials = 2000;
    // 5 % of 2000 with its own exact 99.9 % interval: 3.6 to 6.8 %.
    const interval expected = statistics::proportion(trials / 20, trials, 0.999);
    for (const series kind : {series::independent, series::skew_free_outliers, series::bimodal}) {
        const double missed = coverage_misses(kind, trials, 80, 0.3);
        CHECK_MESSAGE(missed <= expected.high, "series ", static_cast<int>(kind));
        CHECK_MESSAGE(missed >= 0.5 * expected.low, "series ", static_cast<int>(kind));
    }
    CHECK(coverage_misses(series::tied, trials, 80, 0.0) <= expected.high);  // ties only ever widen
    CHECK(coverage_misses(series::ar1, trials, 200, 0.3) <= 0.10);           // unwidened: 25 %
}

TEST_CASE("the detectable effect is the one with power 90 %") {
    // A unit normal interval at 5 % has half-width 1.96; an effect of 1.96 + 1.2816 is seen 9 times in 10.
    CHECK(statistics::detectable_effect(1.959964, 0.05) == Approx(3.241516).epsilon(1e-5));
}
