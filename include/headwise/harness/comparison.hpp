// What a comparison found: the result types, and what they say in one sentence.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/number_text.hpp>
#include <headwise/harness/statistics.hpp>

namespace headwise {

/// What is known about an arm, relative to arm 0.
enum class verdict {
    baseline,    ///< arm 0 itself
    faster,      ///< faster than arm 0, and not shown to be the same within the margin
    slower,      ///< likewise
    equivalent,  ///< the same within the margin, whichever way the rest of the difference points
    unresolved,  ///< this run could not tell; `arm_result::detectable` says what it could have seen
    mismatch,    ///< its output is wrong: it has no speed-up
};

[[nodiscard]] constexpr const char* text_of(verdict v) noexcept {
    constexpr const char* names[]{"baseline", "faster", "slower", "equivalent", "unresolved", "mismatch"};
    return names[static_cast<std::size_t>(v)];
}

/// What was found of an arm beside the rest, with its data driven out of the caches before each call.
struct cold_result {
    headwise::verdict verdict = headwise::verdict::unresolved;
    std::optional<interval> speedup;
    summary time;  ///< nanoseconds a call
};

struct arm_result {
    std::string name;
    headwise::verdict verdict = headwise::verdict::unresolved;
    bool verified = false;            ///< its outputs were checked against arm 0's, before and after timing, and agree
    std::optional<interval> speedup;  ///< time of arm 0 over time of this arm; empty on mismatch, and when not measured
    std::string reason;               ///< why the verdict is `mismatch` or `unresolved`, why outputs were not checked
    summary time;                     ///< nanoseconds a call, over the epochs that nothing came between
    double detectable = 0;        ///< the least difference this run would have seen 9 times in 10: 0.01 is 1 %; 0: none
    double effective_blocks = 0;  ///< what the blocks are worth once autocorrelation is taken off
    bool indistinguishable_from_empty =
        false;                        ///< the calls cost no more than calling does: there is nothing to compare
    std::vector<double> samples;      ///< nanoseconds a call, one for each epoch, in the order measured
    std::vector<bool> spoiled;        ///< for each sample: did the system come between?
    std::optional<cold_result> cold;  ///< under `cache_state::both`
};

struct comparison {
    std::vector<arm_result> arms;
    double confidence = 0, margin = 0;
    std::size_t calls_per_epoch = 0, epochs_per_block = 0, blocks = 0;
    double seconds = 0, budget_seconds = 0;  ///< wall clock
    std::optional<interval> control;       ///< arm 0 against itself, measured inside the same run; empty when too short
    bool control_failed = false;           ///< ... and it came out different: smaller differences are not believed
    double empty_ns = 0;                   ///< what a call of nothing costs here
    std::size_t spoiled = 0, rescued = 0;  ///< epochs that something came between; of a known length, so still of use
    double stolen = 0;                     ///< share of the machine's time that its hypervisor gave to others
    std::int64_t stopped = 0;              ///< how often a limit of processor time (a container's) was reached
    std::uint64_t seed = 0;                ///< of the random order
    std::vector<std::string> notes;        ///< what a reader should know besides

    /// The arm of that name. Refuses a name that no arm has.
    [[nodiscard]] const arm_result& operator[](std::string_view name) const {
        for (const arm_result& arm : arms) {
            if (arm.name == name) return arm;
        }
        detail::refuse("comparison: there is no arm '" + std::string(name) + "'");
    }
};

namespace detail {

/// As many decimals as leave two significant digits of `width`, four at most: an interval says how much its ends are
/// worth.
[[nodiscard]] inline int decimals_for(double width) noexcept {
    if (!(width > 0) || !detail::is_finite_number(width)) return 2;
    return std::clamp(1 - static_cast<int>(std::floor(std::log10(width))), 0, 4);
}

[[nodiscard]] inline std::string counted(std::size_t n, const char* noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

[[nodiscard]] inline std::string percent_text(double share) {
    const double percent = 100 * share;
    return fixed(percent, percent >= 9.95 ? 0 : percent >= 0.995 ? 1 : percent >= 0.0995 ? 2 : 3) + " %";
}

/// "95 %", "99.286 %"; near to 100 % as many digits as tell it from that.
[[nodiscard]] inline std::string confidence_text(double confidence) {
    const double error = 100 * (1 - confidence);
    const int decimals = error > 0 && error < 0.01 ? 1 - static_cast<int>(std::floor(std::log10(error))) : 3;
    std::string text = fixed(100 * confidence, decimals);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " %";
}

/// The decimals of a ratio. Below 0.01 they are as many as show three digits of it.
[[nodiscard]] inline int ratio_decimals(const interval& ratio) noexcept {
    const int decimals = decimals_for(ratio.high - ratio.low);
    if (!(ratio.estimate > 0 && ratio.estimate < 0.01)) return decimals;
    return std::max(decimals, 2 - static_cast<int>(std::floor(std::log10(ratio.estimate))));
}

/// A ratio in two pieces of text: "7.31x" and "7.24-7.38".
struct ratio_text {
    std::string estimate, range;
    explicit ratio_text(const interval& ratio) {
        const int decimals = ratio_decimals(ratio);
        estimate = fixed(ratio.estimate, decimals) + "x";
        range = fixed(ratio.low, decimals) + "-" +
                (detail::is_finite_number(ratio.high) ? fixed(ratio.high, decimals) : std::string("?"));
    }
};

[[nodiscard]] inline interval exponential(const interval& log_ratio) noexcept {
    return {std::exp(log_ratio.estimate), std::exp(log_ratio.low), std::exp(log_ratio.high)};
}

[[nodiscard]] inline interval inverse(const interval& ratio) noexcept {
    return {1 / ratio.estimate, 1 / ratio.high, ratio.low > 0 ? 1 / ratio.low : HUGE_VAL};
}

}  // namespace detail

namespace detail {

/// What is known of the arm when its data is not in the caches, as the end of a sentence.
[[nodiscard]] inline std::string cold_clause(const arm_result& arm) {
    if (!arm.cold || !arm.cold->speedup) return "";
    const ratio_text ratio(*arm.cold->speedup);
    return "; from cold caches " + ratio.estimate + " (" + ratio.range + ")";
}

}  // namespace detail

/// The finding about arm i in one sentence, such as "fused is 7.31x as fast as loop (95 %: 7.24-7.38), outputs agree".
[[nodiscard]] inline std::string sentence(const comparison& c, std::size_t i) {
    const arm_result& arm = c.arms.at(i);
    const std::string& name = arm.name;
    const std::string& base = c.arms.front().name;
    if (i == 0) return name + " is what the others are compared with";
    if (arm.verdict == verdict::mismatch) {
        return name + " does not agree with " + base + ": " + arm.reason + "; it has no speed-up";
    }
    const std::string checked = (arm.verified ? ", outputs agree" : ", outputs not checked") + detail::cold_clause(arm);
    if (!arm.speedup) return name + " against " + base + ": " + arm.reason + checked;
    const std::string level = detail::confidence_text(c.confidence) + ": ";
    const detail::ratio_text ratio(*arm.speedup);
    switch (arm.verdict) {
        case verdict::faster:
            return name + " is " + ratio.estimate + " as fast as " + base + " (" + level + ratio.range + ")" + checked;
        case verdict::slower: {
            const detail::ratio_text cost(detail::inverse(*arm.speedup));
            return name + " takes " + cost.estimate + " the time of " + base + " (" + level + cost.range + ")" +
                   checked;
        }
        case verdict::equivalent:
            return name + " is as fast as " + base + ", within " + detail::percent_text(c.margin) + ": " +
                   ratio.estimate + " (" + level + ratio.range + ")" + checked;
        default:
            return "cannot tell " + name + " from " + base + ": " + ratio.estimate + " (" + level + ratio.range + ")" +
                   checked + (arm.reason.empty() ? "" : "; " + arm.reason);
    }
}

/// What `require_not_slower` throws; built with -fno-exceptions, the sentence is printed and the program aborts.
struct regression : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A gate for a build: throws `regression`, with the sentence, when the arm of that name has been shown to be slower
/// than arm 0 by more than `margin` (0.02: 2 %), when its output is wrong, or when it was not measured at all. True
/// when it has been shown not to be slower by more than that; false when the run could not tell, which a gate on a
/// noisy machine must not fail for: the caller decides. Refuses arm 0, of which nothing was found.
inline bool require_not_slower(const comparison& c, std::string_view name, double margin) {
    if (!(margin >= 0 && margin < 1)) {
        detail::refuse("require_not_slower: margin must be at least 0 and below 1, is " + std::to_string(margin));
    }
    const arm_result& arm = c[name];
    const arm_result& base = c.arms.front();
    if (&arm == &base)
        detail::refuse("require_not_slower: '" + arm.name + "' is what the others are compared with; name one of them");
    if (arm.verdict == verdict::unresolved) {
        if (arm.indistinguishable_from_empty || base.indistinguishable_from_empty) return false;
        // An interval beside 1 that gave no verdict is not believed; beside a control that failed, none is.
        if (arm.speedup && (c.control_failed || arm.speedup->low > 1 || arm.speedup->high < 1)) return false;
    }
    const double limit = 1 / (1 + margin);
    if (arm.speedup && arm.speedup->high >= limit) return arm.speedup->low >= limit;
    const std::string message = sentence(c, static_cast<std::size_t>(&arm - c.arms.data())) + "; at most " +
                                detail::percent_text(margin) + " slower is allowed";
#if defined(__cpp_exceptions)
    throw regression(message);
#else
    detail::refuse(message);
#endif
}

}  // namespace headwise
