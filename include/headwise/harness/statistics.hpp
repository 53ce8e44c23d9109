// The statistics behind a verdict: pure functions, each checked in the tests against a published table or an exact
// count.
//
// Why the signed-rank interval. A block runs its arms in a random order and then in the mirror of it, so under
// "identical code" a block's log ratio is as likely +x as -x whatever the machine does: bursts, drift and
// autocorrelation included. That symmetry is all that Wilcoxon's signed-rank test asks for; the randomisation grants
// it, no assumption does. On recorded traces the interval is 3-25 % narrower than the sign test's, at the same error
// rate. (A sign test would also hold for skewed differences; here the skew is gone before it can matter: see
// `block_log_ratios` in verdict.hpp.)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <headwise/harness/number_text.hpp>

namespace headwise {

/// An estimate with an interval around it: `low <= estimate <= high`.
struct interval {
    double estimate;
    double low;
    double high;
};

/// What a set of times looks like, without any assumption about its shape. All zero when there are no times.
struct summary {
    std::size_t count = 0;
    double mean = 0, minimum = 0, lower_quartile = 0, median = 0, upper_quartile = 0;
    double mad = 0;  ///< median absolute deviation from the median, unscaled
};

namespace statistics {

/// The q-quantile, 0 <= q <= 1, of `sorted`, interpolated linearly between order statistics (type 7, the default of R
/// and NumPy). NaN when empty.
[[nodiscard]] inline double quantile(const std::vector<double>& sorted, double q) {
    if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
    const double position = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

[[nodiscard]] inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return quantile(values, 0.5);
}

/// Values that are not finite (a clock that failed) are left out, and not counted.
[[nodiscard]] inline summary summarise(std::vector<double> values) {
    std::erase_if(values, [](double x) { return !detail::is_finite_number(x); });
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    summary s;
    s.count = values.size();
    for (const double x : values) s.mean += x / static_cast<double>(values.size());
    s.minimum = values.front();
    s.lower_quartile = quantile(values, 0.25);
    s.median = quantile(values, 0.5);
    s.upper_quartile = quantile(values, 0.75);
    for (double& x : values) x = std::abs(x - s.median);
    s.mad = median(std::move(values));
    return s;
}

[[nodiscard]] inline double normal_cdf(double z) noexcept { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

/// The z with `normal_cdf(z) == p`, for 0 < p < 1, by bisection: it is called a few times a comparison.
[[nodiscard]] inline double normal_quantile(double p) noexcept {
    double low = -40, high = 40;
    for (int i = 0; i < 80; ++i) {
        const double z = std::midpoint(low, high);
        (normal_cdf(z) < p ? low : high) = z;
    }
    return std::midpoint(low, high);
}

/// P(X <= k) for X ~ Binomial(n, p), 0 < p < 1, summed term by term.
[[nodiscard]] inline double binomial_cdf(std::int64_t k, std::int64_t n, double p) {
    const auto log_factorial = [](std::int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
    double sum = 0;
    for (std::int64_t i = 0; i <= std::min(k, n); ++i) {
        sum += std::exp(log_factorial(n) - log_factorial(i) - log_factorial(n - i) +
                        static_cast<double>(i) * std::log(p) + static_cast<double>(n - i) * std::log1p(-p));
    }
    return std::min(sum, 1.0);
}

/// A proportion with its exact interval (Clopper & Pearson 1934): `successes` of `trials`.
[[nodiscard]] inline interval proportion(std::int64_t successes, std::int64_t trials, double confidence = 0.95) {
    const double tail = (1 - confidence) / 2;
    const auto solve = [&](std::int64_t k, double target) {  // the p at which P(X <= k) falls to target
        double low = 0, high = 1;
        for (int i = 0; i < 60; ++i) {
            const double p = std::midpoint(low, high);
            (binomial_cdf(k, trials, p) > target ? low : high) = p;
        }
        return low;
    };
    return {trials == 0 ? 0 : static_cast<double>(successes) / static_cast<double>(trials),
            successes == 0 ? 0 : solve(successes - 1, 1 - tail), successes == trials ? 1 : solve(successes, tail)};
}

/// Wilcoxon's signed-rank statistic W of n observations: the greatest c with P(W <= c - 1) <= tail, so that the c-th
/// smallest and c-th largest of the n(n+1)/2 pairwise means enclose the centre with probability >= 1 - 2 tail. Zero
/// when n is too small for any interval. Exact up to n = 64; above, an Edgeworth series with continuity correction,
/// whose achieved tail is within 1 % of `tail` down to 5e-4, and within 4 % at 5e-5.
[[nodiscard]] inline std::uint64_t signed_rank_depth(std::size_t n, double tail) {
    const std::uint64_t total = static_cast<std::uint64_t>(n) * (n + 1) / 2;
    if (n <= 64) {
        const std::size_t sums = n * (n + 1) / 2;
        std::vector<double> probability(sums + 1, 0.0);  // of W after the first `rank` ranks have chosen a sign each
        probability[0] = 1;
        for (std::size_t rank = 1; rank <= n; ++rank) {
            for (std::size_t w = rank * (rank + 1) / 2 + 1; w-- > 0;) {
                probability[w] = 0.5 * (probability[w] + (w >= rank ? probability[w - rank] : 0.0));
            }
        }
        std::size_t depth = 0;
        for (double below = probability[0]; below <= tail && depth < sums; below += probability[depth]) ++depth;
        return depth;
    }
    const auto m = static_cast<double>(n);
    const double mean = m * (m + 1) / 4, variance = m * (m + 1) * (2 * m + 1) / 24;
    const double fourth_cumulant = -m * (m + 1) * (2 * m + 1) * (3 * m * m + 3 * m - 1) / 240;  // -sum of i^4 / 8
    const auto cdf = [&](std::uint64_t w) {
        const double z = (static_cast<double>(w) + 0.5 - mean) / std::sqrt(variance);
        const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
        return normal_cdf(z) - density * (z * z * z - 3 * z) * fourth_cumulant / (24 * variance * variance);
    };
    std::uint64_t low = 0, high = total / 2;  // P(W <= low - 1) <= tail always holds
    while (low < high) {
        const std::uint64_t c = std::midpoint(low, high) + (high - low) % 2;
        if (cdf(c - 1) <= tail) low = c;
        else high = c - 1;
    }
    return low;
}

/// The k-th smallest (1-based) of the n(n+1)/2 pairwise means (Walsh averages) of `sorted`, without forming them:
/// bisection on the value, a count in O(n) at each step, and a last sweep that lands on a mean which exists (an exact
/// zero stays an exact zero, which ties at the clock's resolution need).
[[nodiscard]] inline double pairwise_mean(const std::vector<double>& sorted, std::uint64_t k) {
    std::uint64_t count = 0;
    double greatest = 0;
    const auto sweep = [&](double limit) {  // how many means are <= limit, and the greatest of those
        count = 0;
        greatest = sorted.front();
        std::size_t end = sorted.size();
        for (std::size_t i = 0; i < end; ++i) {
            while (end > i && std::midpoint(sorted[i], sorted[end - 1]) > limit) --end;
            if (end == i) break;
            count += end - i;
            greatest = std::max(greatest, std::midpoint(sorted[i], sorted[end - 1]));
        }
    };
    double low = sorted.front(), high = sorted.back();
    sweep(low);
    if (count >= k) return low;
    for (int i = 0; i < 64; ++i) {
        const double middle = std::midpoint(low, high);
        sweep(middle);
        (count >= k ? high : low) = middle;
    }
    sweep(high);
    return greatest;
}

/// How many independent observations `values`, in the order in which they were made, are worth: n over the integrated
/// autocorrelation time. Outliers are drawn in to three (robust) standard deviations first, or one would hide the
/// correlation of all others. Correlation counts from a first lag beyond 2/sqrt(n) (chance reaches it in 1 of 40 cases)
/// up to the first lag below 1/sqrt(n), which is looked for in steps of a thirty-second of itself: drift over 10^5
/// values would take seconds otherwise. Never more than n, never less than 1.
[[nodiscard]] inline double effective_size(std::vector<double> values) {
    const auto n = static_cast<double>(values.size());
    if (values.size() < 8) return n;
    const summary s = summarise(values);
    const double reach = 3 * 1.4826 * s.mad;
    double mean = 0;
    for (double& x : values) mean += (x = std::clamp(x, s.median - reach, s.median + reach)) / n;
    double variance = 0;
    for (double& x : values) {
        x -= mean;
        variance += x * x;
    }
    if (!(s.mad > 0) || !(variance > 0)) return n;  // more than half are tied
    double time = 1;
    for (std::size_t lag = 1, step = 1; lag <= values.size() / 4; lag += step) {
        double product = 0;
        for (std::size_t i = lag; i < values.size(); ++i) product += values[i] * values[i - lag];
        const double correlation = product / variance;
        if (correlation < (lag == 1 ? 2 : 1) / std::sqrt(n)) break;
        step = 1 + lag / 32;
        time += 2 * correlation * static_cast<double>(step);
    }
    return std::max(1.0, n / time);
}

/// The centre of symmetrically distributed `values` (in the order in which they were made): the Hodges-Lehmann
/// estimate, the median of the pairwise means, inside the signed-rank interval that misses with probability <= alpha.
/// Widened when the values are autocorrelated, at most from the least value to the greatest. Empty when there are too
/// few values for any interval at this alpha (below 6 at 0.05).
[[nodiscard]] inline std::optional<interval> centre(std::vector<double> values, double alpha) {
    const std::size_t n = values.size();
    const std::uint64_t total = static_cast<std::uint64_t>(n) * (n + 1) / 2;
    std::uint64_t depth = signed_rank_depth(n, alpha / 2);
    if (depth == 0) return std::nullopt;
    const double widening = std::sqrt(static_cast<double>(n) / effective_size(values));
    if (widening > 1) {
        const double middle = static_cast<double>(total) / 2;
        depth = static_cast<std::uint64_t>(std::max(1.0, middle - (middle - static_cast<double>(depth)) * widening));
    }
    std::sort(values.begin(), values.end());
    return interval{std::midpoint(pairwise_mean(values, (total + 1) / 2), pairwise_mean(values, total / 2 + 1)),
                    pairwise_mean(values, depth), pairwise_mean(values, total + 1 - depth)};
}

/// The smallest true effect that an interval of this half-width would have set apart from zero nine times in ten.
[[nodiscard]] inline double detectable_effect(double half_width, double alpha) noexcept {
    return half_width * (1 + normal_quantile(0.9) / normal_quantile(1 - alpha / 2));
}

}  // namespace statistics
}  // namespace headwise
