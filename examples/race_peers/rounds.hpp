// Short interleaved rounds: every entrant once a round, in random order, so that what the machine does to one it does
// to all; and what the rounds say, as paired ratios.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <headwise/harness/statistics.hpp>

#include "contender.hpp"

namespace race {

struct entrant {
    std::string name;
    runner run;
    std::vector<double> seconds{};  ///< per call, one entry a round; NaN where it rested
};

struct round_options {
    double budget = 2;                           ///< seconds for all rounds together
    bool settle = false;                         ///< before each entrant, wait until no thread of this program spins on
    bool processor_time = false;                 ///< of the calling thread alone
    std::size_t fewest = 7;                      ///< rounds, whatever the budget: an interval needs 6
    std::size_t subject = 0;                     ///< the entrant that never rests
    std::function<void(std::size_t)> each = {};  ///< called before each round
};

/// Seconds since whenever: wall time, or the time that this thread had a processor, which others' work does not
/// lengthen.
inline double now(bool processor_time) {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    if (processor_time) {
        std::timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    }
#else
    static_cast<void>(processor_time);
#endif
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Rests until the threads of this program do: a pool's idle threads look for work for a while before they sleep
/// (OpenMP's some milliseconds, OpenBLAS's 25), on the processor that the next entrant's want. At most 0.2 s. In steps
/// longer than the system's tick, which is when it counts a thread's time.
inline void settle() {
#if defined(CLOCK_PROCESS_CPUTIME_ID)
    const auto used = [] {
        std::timespec t{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    for (int i = 0; i < 20; ++i) {
        const double before = used(), start = now(false);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (used() - before < 0.1 * (now(false) - start)) return;
    }
#else
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
#endif
}

inline double seconds_of(const runner& run, std::ptrdiff_t calls, bool processor_time) {
    const double start = now(processor_time);
    run(calls);
    return (now(processor_time) - start) / static_cast<double>(calls);
}

/// The time of a call, hot: by doubling, up to a stretch of a tenth of a millisecond.
inline double calibrate(const runner& run, bool processor_time) {
    run(1);
    double per_call = seconds_of(run, 1, processor_time);
    for (std::ptrdiff_t calls = 2; per_call * static_cast<double>(calls) < 1e-4; calls *= 2)
        per_call = seconds_of(run, calls, processor_time);
    return per_call;
}

[[nodiscard]] inline double median_seconds(const entrant& e) {
    std::vector<double> raced;
    std::copy_if(e.seconds.begin(), e.seconds.end(), std::back_inserter(raced),
                 [](double t) { return !std::isnan(t); });
    return headwise::statistics::median(std::move(raced));
}

/// time of `slow` over time of `fast`, per round in which both ran: the centre of the log ratios with its 95 %
/// interval.
[[nodiscard]] inline std::optional<headwise::interval> paired_ratio(const entrant& slow, const entrant& fast) {
    std::vector<double> logs;
    for (std::size_t i = 0; i < slow.seconds.size(); ++i)
        if (const double ratio = slow.seconds[i] / fast.seconds[i]; !std::isnan(ratio)) logs.push_back(std::log(ratio));
    auto found = headwise::statistics::centre(std::move(logs), 0.05);
    if (found) *found = {std::exp(found->estimate), std::exp(found->low), std::exp(found->high)};
    return found;
}

/// One count of calls for all, such that the fastest takes a fifth of a millisecond (more would only lengthen a round);
/// an entrant that would take over 2 ms is given fewer, at least one. An entrant that was in none of the first rounds
/// within three times the fastest's median rests: its figure is known well enough, and its time is the others'.
inline void race_rounds(std::vector<entrant>& entrants, const round_options& options) {
    std::vector<double> estimate;
    for (const entrant& e : entrants) estimate.push_back(calibrate(e.run, options.processor_time));
    const double fastest = *std::min_element(estimate.begin(), estimate.end());
    const auto calls_for = [&](std::size_t i) {
        const double most = std::max(1.0, std::floor(2e-3 / estimate[i]));
        return static_cast<std::ptrdiff_t>(std::min(std::max(1.0, std::ceil(2e-4 / fastest)), most));
    };
    std::vector<std::size_t> order(entrants.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<bool> rests(entrants.size(), false);
    std::mt19937_64 random(20240229);  // any seed does; the same one makes the order of a run repeatable
    const double end = now(false) + options.budget;
    constexpr std::size_t most_rounds = 2000;
    for (std::size_t round = 0; round < most_rounds && (round < options.fewest || now(false) < end); ++round) {
        if (options.each) options.each(round);
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
            entrant& e = entrants[i];
            if (rests[i]) {
                e.seconds.push_back(std::numeric_limits<double>::quiet_NaN());
                continue;
            }
            if (options.settle) {
                settle();
                e.run(calls_for(i));  // wakes its own threads
            }
            e.seconds.push_back(seconds_of(e.run, calls_for(i), options.processor_time));
        }
        if (round + 1 == options.fewest) {
            std::vector<double> medians;
            for (const entrant& e : entrants) medians.push_back(median_seconds(e));
            const double fast = *std::min_element(medians.begin(), medians.end());
            for (std::size_t i = 0; i < rests.size(); ++i) {
                const auto& times = entrants[i].seconds;
                rests[i] = i != options.subject && *std::min_element(times.begin(), times.end()) > 3 * fast;
            }
        }
    }
}

}  // namespace race
