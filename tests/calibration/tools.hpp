// What is held against its promises: each tool compares two calls in the time that it is given.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <headwise/harness/compare.hpp>

#if defined(HEADWISE_HAVE_NANOBENCH)
#define ANKERL_NANOBENCH_IMPLEMENT
#include <nanobench.h>
#endif

#include "machine.hpp"

namespace calibration {

struct outcome {
    verdict found = verdict::unresolved;
    double low = 0, high = std::numeric_limits<double>::infinity();  ///< of time b over time a
    double seconds = 0;
};

using call = std::function<std::uint64_t()>;
struct tool {
    const char* name;
    std::function<outcome(const call& a, const call& b, double seconds, double margin)> run;
};

/// Both arms are of one type, so that the harness, too, runs the same instructions for both: an interval 0.03 % wide
/// tells two copies of a loop around a call of 10 us apart, and two closures around one call.
inline outcome by_headwise(const call& a, const call& b, double seconds, double margin) {
    const auto start = clock_type::now();
    const auto calling = [](const call& f) {
        return [&f] {
            auto x = f();
            keep(x);
        };
    };
    const comparison c =
        compare({.budget = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)), .margin = margin},
                arm{"a", calling(a)}, arm{"b", calling(b)});
    outcome o{c.arms[1].verdict, 0, std::numeric_limits<double>::infinity(), seconds_since(start)};
    if (c.arms[1].speedup) o.low = 1 / c.arms[1].speedup->high, o.high = 1 / c.arms[1].speedup->low;
    return o;
}

#if defined(HEADWISE_HAVE_NANOBENCH)
/// The number of rounds is adapted, in runs that do not count, until it takes the time it is given; its interval
/// decides: above or below 1 is a verdict, inside the margin is "equivalent".
inline outcome by_nanobench(const call& a, const call& b, double seconds, double margin) {
    const auto calling = [](const call& f) { return [&f] { ankerl::nanobench::doNotOptimizeAway(f()); }; };
    const auto op_a = calling(a), op_b = calling(b);
    static double rounds = 0, for_seconds = 0;
    static const call* for_call = nullptr;
    double took = 0;
    const auto measure = [&] {
        const auto start = clock_type::now();
        auto found = ankerl::nanobench::Bench()
                         .output(nullptr)
                         .epochs(static_cast<std::size_t>(rounds))
                         .compare("a", op_a, "b", op_b);
        took = seconds_since(start);
        rounds = std::clamp(rounds * std::clamp(seconds / took, 0.5, 2.0), 8.0, 100'000.0);
        return found;
    };
    if (for_call != &a || for_seconds < seconds || for_seconds > seconds) {  // another cell
        rounds = 50 * seconds;
        for_call = &a, for_seconds = seconds;
        for (int i = 0; i < 8 && (took < 0.9 * seconds || took > 1.1 * seconds); ++i) measure();
    }
    const auto found = measure();
    const auto& entry = found[1];
    outcome o{verdict::unresolved, 1 / entry.relativeHigh, 1 / entry.relativeLow, took};
    if (margin > 0 && o.low > 1 / (1 + margin) && o.high < 1 + margin) o.found = verdict::equivalent;
    else if (o.low > 1) o.found = verdict::slower;
    else if (o.high < 1) o.found = verdict::faster;
    return o;
}
#endif

inline std::vector<tool> tools() {
    std::vector<tool> all{{"headwise", by_headwise}};
#if defined(HEADWISE_HAVE_NANOBENCH)
    all.push_back({"nanobench", by_nanobench});
#endif
    return all;
}

}  // namespace calibration
