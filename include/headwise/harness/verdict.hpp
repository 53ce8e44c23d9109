// From a trace to verdicts: a pure function, so that error rates and power are tested on simulated traces.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/sampling.hpp>
#include <headwise/harness/statistics.hpp>

namespace headwise::detail {

struct judging {
    double confidence = 0.95;
    double margin = 0.01;
    double resolution_ns = 0.3;  ///< a call that costs no more than this above a call of nothing does nothing
    bool each_call = false;      ///< calls are timed one by one: the empty arm's time comes off each
};

/// The error that one arm's interval may have at the look that the trace is at: the total, shared out over the looks
/// and then evenly over the arms (Bonferroni, exact at every number of blocks because the interval below is).
[[nodiscard]] inline double alpha_at(const trace& t, double confidence) {
    return (1 - confidence) * looks[t.look].error / static_cast<double>(std::max<std::size_t>(t.arms.size() - 1, 1));
}

/// One observation a block: ln of the shorter of a's epochs over the shorter of b's.
///
/// The shorter of two, because what hits an epoch makes it longer: on traces recorded with ticks, bursts and a second
/// process on the same core, intervals are up to 5 times narrower than with the mean of the two, and never wider by
/// more than a fifth. It treats both arms alike, so the symmetry that the test rests on stays exact. Its price, that it
/// shows an arm whose calls alternate between fast and slow from its better side, is paid by `total_contrast` below. A
/// block where one of the two has no epoch that is valid and unspoiled is left out; but when that leaves less than half
/// of them, spoiled epochs are taken as they are (a call longer than a scheduler's slice is never unspoiled).
[[nodiscard]] inline std::vector<double> block_log_ratios(const arm_trace& a, const arm_trace& b,
                                                          std::size_t epochs_per_block, double overhead_per_epoch = 0) {
    const auto shortest = [&](const arm_trace& arm, std::size_t first, bool with_spoiled) {
        double best = 0;  // none
        for (std::size_t i = first; i < first + epochs_per_block; ++i) {
            const double ns = arm.ns[i] - overhead_per_epoch;
            if (!is_finite_number(ns) || ns <= 0 || (arm.spoiled[i] && !with_spoiled)) continue;
            best = best > 0 ? std::min(best, ns) : ns;
        }
        return best;
    };
    const std::size_t blocks = std::min(a.ns.size(), b.ns.size()) / epochs_per_block;
    std::vector<double> ratios;
    for (const bool with_spoiled : {false, true}) {
        ratios.clear();
        for (std::size_t block = 0; block < blocks; ++block) {
            const double of_a = shortest(a, block * epochs_per_block, with_spoiled),
                         of_b = shortest(b, block * epochs_per_block, with_spoiled);
            if (of_a > 0 && of_b > 0) ratios.push_back(std::log(of_a / of_b));
        }
        if (2 * ratios.size() >= blocks) break;
    }
    return ratios;
}

/// Total time against typical time: positive when a's epochs take longer in sum, in standard errors of the block sums.
/// An arm that is fast in most calls and very slow in some is typically fast and slow in total; four standard errors
/// against the verdict and it is withheld. Machine noise does not get there: it is heavy-tailed, which keeps this
/// small.
[[nodiscard]] inline double total_contrast(const arm_trace& a, const arm_trace& b, std::size_t epochs_per_block) {
    const std::size_t blocks = std::min(a.ns.size(), b.ns.size()) / epochs_per_block;
    double n = 0, mean = 0, squares = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
        double difference = 0;
        bool valid = true;
        for (std::size_t i = block * epochs_per_block; i < (block + 1) * epochs_per_block; ++i) {
            valid = valid && !a.spoiled[i] && !b.spoiled[i] && is_finite_number(a.ns[i]) && is_finite_number(b.ns[i]);
            difference += a.ns[i] - b.ns[i];
        }
        if (!valid) continue;
        ++n;
        const double step = difference - mean;
        mean += step / n;
        squares += step * (difference - mean);
    }
    return n > 2 && squares > 0 ? mean / std::sqrt(squares / (n - 1) / n) : 0;
}

[[nodiscard]] inline summary time_per_call(const arm_trace& arm, std::size_t calls, double overhead_ns = 0) {
    std::vector<double> times;
    for (const bool with_spoiled : {false, true}) {
        times.clear();
        for (std::size_t i = 0; i < arm.ns.size(); ++i) {
            if (with_spoiled || !arm.spoiled[i]) times.push_back(arm.ns[i] / static_cast<double>(calls) - overhead_ns);
        }
        if (2 * times.size() >= arm.ns.size()) break;
    }
    return statistics::summarise(std::move(times));
}

/// What a coarse clock adds to an interval of log ratios, either way: one of its steps, less what the ratios spread
/// over by themselves. Noise that covers a step averages the rounding out; without it the rounding is the same in every
/// block.
[[nodiscard]] inline double rounding(const trace& t, std::size_t i, std::vector<double> ratios) {
    std::sort(ratios.begin(), ratios.end());
    const double spread = statistics::quantile(ratios, 0.75) - statistics::quantile(ratios, 0.25);
    const double shorter = std::min(time_per_call(t.arms[0], t.calls).median, time_per_call(t.arms[i], t.calls).median);
    return std::max(0.0, t.tick_ns / (shorter * static_cast<double>(t.calls)) - spread);
}

/// The control: arm 0 against itself. It is asked at a fiftieth of the permitted error, so that it fails by chance in
/// one comparison of a thousand; a difference is then believed only where it is beyond all that the control may show.
struct control_finding {
    std::optional<interval> log_ratio;
    double floor = 0;
};

[[nodiscard]] inline control_finding judge_control(const trace& t, double confidence) {
    const std::vector<double> ratios = block_log_ratios(t.control_partner, t.control, t.epochs_per_block);
    const auto found = statistics::centre(ratios, (1 - confidence) / 50);
    const bool differs = found && (found->low > 0 || found->high < 0);
    return {found, differs ? std::max(std::abs(found->low), std::abs(found->high)) : 0};
}

/// The verdict that an interval of the log ratio supports.
[[nodiscard]] inline verdict verdict_of(const interval& log_ratio, double margin, double floor) noexcept {
    const double within = std::log1p(margin);
    if (margin > 0 && floor <= within && log_ratio.low >= -within && log_ratio.high <= within)
        return verdict::equivalent;
    if (log_ratio.low > floor) return verdict::faster;
    if (log_ratio.high < -floor) return verdict::slower;
    return verdict::unresolved;
}

/// Fills in what the trace says about arm i: verdict, speed-up, reason, detectable difference. `arm.time` is set
/// already.
inline void judge_arm(const trace& t, std::size_t i, const judging& how, double overhead_ns,
                      const control_finding& control, arm_result& arm) {
    const double alpha = alpha_at(t, how.confidence);
    const std::vector<double> ratios =
        block_log_ratios(t.arms[0], t.arms[i], t.epochs_per_block, overhead_ns * static_cast<double>(t.calls));
    arm.effective_blocks = statistics::effective_size(ratios);
    if (ratios.empty()) {
        arm.reason = "no block could be measured in the time given";
        return;
    }
    auto centre = statistics::centre(ratios, alpha);
    if (!centre) {
        arm.speedup = interval{std::exp(statistics::median(ratios)), 0, HUGE_VAL};
        arm.detectable = 0;
        arm.reason = std::to_string(ratios.size()) + " blocks are too few for an interval";
        return;
    }
    const double step = rounding(t, i, ratios);
    centre->low -= step;
    centre->high += step;
    arm.speedup = exponential(*centre);
    arm.detectable = std::expm1(statistics::detectable_effect((centre->high - centre->low) / 2, alpha));
    arm.verdict = verdict_of(*centre, how.margin, control.floor);
    const double contrast = total_contrast(t.arms[0], t.arms[i], t.epochs_per_block);
    if (arm.verdict == verdict::unresolved) {
        arm.reason = "a difference of " + percent_text(arm.detectable) + " would have shown";
        if (control.floor > 0 && verdict_of(*centre, 0, 0) != verdict::unresolved) {
            arm.reason =
                "identical code came out up to " + percent_text(std::expm1(control.floor)) + " different in this run";
        }
    } else if ((arm.verdict == verdict::faster && contrast < -4) || (arm.verdict == verdict::slower && contrast > 4)) {
        arm.verdict = verdict::unresolved;
        arm.reason =
            "its typical and its total time disagree about which is faster: some calls are far slower than the rest";
    }
}

/// Judges every arm of `result` that is not a mismatch already; the arms' names and agreement are in place.
inline void judge(const trace& t, const judging& how, comparison& result) {
    result.calls_per_epoch = t.calls;
    result.epochs_per_block = t.epochs_per_block;
    result.blocks = t.blocks;
    result.rescued = t.rescued;
    result.empty_ns = time_per_call(t.empty, t.calls).median;

    const control_finding control = judge_control(t, how.confidence);
    result.control_failed = control.floor > 0;
    if (control.log_ratio) result.control = exponential(*control.log_ratio);
    // What reading the clock adds: to each call, or once to an epoch. It matters where an arm hundreds of times as slow
    // as another leaves time for few calls.
    const double overhead = how.each_call ? result.empty_ns : t.reading_ns / static_cast<double>(t.calls);
    const double nothing = result.empty_ns - overhead + std::max(how.resolution_ns, overhead / 10);
    for (std::size_t i = 0; i < t.arms.size(); ++i) {
        arm_result& arm = result.arms[i];
        const summary time = time_per_call(t.arms[i], t.calls, overhead);
        if (time.count != 0) arm.time = time;
        arm.indistinguishable_from_empty = time.count != 0 && !t.empty.ns.empty() && time.median <= nothing;
        arm.verdict = i == 0                             ? verdict::baseline
                      : arm.verdict == verdict::mismatch ? verdict::mismatch
                                                         : verdict::unresolved;
        if (arm.verdict != verdict::unresolved) continue;
        arm.speedup.reset();
        arm.reason.clear();
        if (arm.indistinguishable_from_empty || result.arms[0].indistinguishable_from_empty) {
            arm.reason = (arm.indistinguishable_from_empty ? arm.name : result.arms[0].name) +
                         " is indistinguishable from empty: its calls cost no more than calling does";
        } else {
            judge_arm(t, i, how, overhead, control, arm);
        }
    }
}

/// May measuring stop? Every arm is a mismatch already, or equivalent, or beyond the margin with an interval no wider
/// than `precision` either way: an early "about 1.5x" helps nobody who has time left.
[[nodiscard]] inline bool settled(const comparison& c, double precision) {
    return std::all_of(c.arms.begin(), c.arms.end(), [&](const arm_result& arm) {
        if (arm.verdict == verdict::baseline || arm.verdict == verdict::mismatch || arm.indistinguishable_from_empty)
            return true;
        if (arm.verdict == verdict::equivalent) return true;
        if (arm.verdict == verdict::unresolved || !arm.speedup) return c.arms.front().indistinguishable_from_empty;
        const interval& s = *arm.speedup;
        const bool beyond = s.low > 1 + c.margin || s.high < 1 / (1 + c.margin);
        return beyond && s.high <= s.low * (1 + 2 * precision);
    });
}

}  // namespace headwise::detail
