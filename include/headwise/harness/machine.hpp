// The machine on a page: what it is, and its peaks for every number of threads and every level of its memory.
//
//     const machine_report m = measure_machine();  // about a second; machine_file.hpp keeps it in a file
//     std::cout << m << roofline_point{"fused", work, seconds, m.limits<float>(bytes, 1)};
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/machine_identity.hpp>
#include <headwise/harness/roofline.hpp>
#include <headwise/harness/units.hpp>

namespace headwise {

/// The most multiply-adds per second, two operations each, of so many threads at once.
struct machine_peak {
    std::string scalar;  ///< "float" or "double"
    int threads = 1;
    double flops = 0;
};

/// The bandwidth of one level of the memory to so many threads at once, bytes a second of all together.
struct machine_level {
    std::string name;  ///< "L1", "L2", ... or "memory"
    int threads = 1;
    std::size_t capacity = 0;     ///< the largest working set, of all threads, that lives in it; 0: any (memory)
    std::size_t working_set = 0;  ///< that it was measured with
    double read = 0, write = 0, streaming_write = 0, triad = 0;
};

struct machine_options {
    std::vector<int> threads = {};  ///< the numbers of threads to measure with; empty: 1, and all processors
    std::chrono::duration<double> budget = std::chrono::milliseconds(20);  ///< of each of the probes, some 40
    std::size_t memory_working_set = 0;  ///< bytes; 0: twice the last cache, at least 64 MiB and at most 1 GiB
};

/// A machine and its peaks. What it says depends on the day: another guest of the same host may take its share.
struct machine_report {
    machine_identity identity;
    std::string measured_on;  ///< the date, UTC: 2024-02-29
    std::vector<machine_peak> peaks;
    std::vector<machine_level> levels;  ///< for each number of threads, from the smallest cache to memory

    /// The limits of work in `Scalar`, float or double, whose inputs and outputs fill `working_set` bytes in all: those
    /// of the first level that holds them. Refuses a number of threads that was not measured.
    template <class Scalar>
        requires std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>
    [[nodiscard]] machine_limits limits(double working_set, int threads = 1) const {
        const machine_level& level = level_of(working_set, threads);
        return {flops(std::is_same_v<Scalar, float> ? "float" : "double", threads), level.read,
                std::max(level.write, level.streaming_write)};
    }

    /// The first level that holds `working_set` bytes of all threads together. Refuses as `limits` does.
    [[nodiscard]] const machine_level& level_of(double working_set, int threads = 1) const {
        for (const machine_level& level : levels) {
            if (level.threads != threads) continue;
            if (level.capacity == 0 || working_set <= static_cast<double>(level.capacity)) return level;
        }
        refuse_threads(threads);
    }

    [[nodiscard]] bool measured_with(int threads) const {
        return std::any_of(levels.begin(), levels.end(), [&](const machine_level& l) { return l.threads == threads; });
    }

private:
    [[nodiscard]] double flops(const char* scalar, int threads) const {
        for (const machine_peak& peak : peaks) {
            if (peak.scalar == scalar && peak.threads == threads) return peak.flops;
        }
        refuse_threads(threads);
    }
    [[noreturn]] void refuse_threads(int threads) const {
        std::string known;
        for (const machine_level& level : levels) {
            if (level.capacity == 0) known += (known.empty() ? "" : ", ") + std::to_string(level.threads);
        }
        detail::refuse("machine_report: nothing was measured with " + detail::threads_text(threads) +
                       "; measured were: " + (known.empty() ? "none" : known));
    }
};

namespace detail {

/// 1 and all processors, or what was asked for, ascending, each once. Refuses what is not positive.
[[nodiscard]] inline std::vector<int> thread_counts(const machine_options& options, int processors) {
    std::vector<int> counts = options.threads.empty() ? std::vector<int>{1, std::max(1, processors)} : options.threads;
    for (const int n : counts) {
        if (n < 1) refuse("measure_machine: threads must be at least 1, is " + std::to_string(n));
    }
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
}

/// The levels to measure with so many threads, still without figures. A working set of half a cache stays in it,
/// whatever else lives there. A cache of each processor counts as often as there are threads, and processors, to fill
/// it.
[[nodiscard]] inline std::vector<machine_level> levels_to_measure(const machine_identity& machine, int threads,
                                                                  std::size_t memory_working_set) {
    constexpr std::size_t smallest = std::size_t{64} << 20, largest = std::size_t{1} << 30;
    std::vector<machine_level> levels;
    std::size_t last = 0;
    const int filling = std::min(threads, std::max(1, machine.processors));
    for (const cache_level& cache : machine.caches) {
        const auto copies = static_cast<std::size_t>(std::max(1, filling / std::max(1, cache.shared_by)));
        last = cache.bytes * copies;
        levels.push_back({std::string("L") + std::to_string(cache.level), threads, last, last / 2});
    }
    const std::size_t memory = memory_working_set != 0 ? memory_working_set : std::clamp(2 * last, smallest, largest);
    levels.push_back({"memory", threads, 0, memory});
    return levels;
}

[[nodiscard]] inline std::string today_utc() {
    const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
    char text[32];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                  static_cast<unsigned>(day.day()));
    return text;
}

}  // namespace detail

namespace detail {

/// One look at everything with so many threads; a figure that is better than the one kept takes its place.
inline void look_at_machine(const probe_options& probe, std::vector<machine_peak>& peaks,
                            std::vector<machine_level>& levels) {
    const auto raise = [](double& kept, double now) { kept = std::max(kept, now); };
    for (machine_peak& peak : peaks) {
        if (peak.threads != probe.threads) continue;
        const fma_peak now = peak.scalar == "float" ? measure_fma_peak<float>(probe) : measure_fma_peak<double>(probe);
        raise(peak.flops, now.flops_per_second);
    }
    for (machine_level& level : levels) {
        if (level.threads != probe.threads) continue;
        const probe_buffer buffer(level.working_set);
        const auto look = [&](traffic kind, double& kept) {
            raise(kept, measure_bandwidth(kind, buffer.floats(), probe).bytes_per_second);
        };
        look(traffic::read, level.read), look(traffic::write, level.write);
        look(traffic::streaming_write, level.streaming_write), look(traffic::triad, level.triad);
    }
}

}  // namespace detail

/// Measures this machine: multiply-add peaks of float and double, and reading, writing, streaming and a triad
/// (a = b + s * c) in each cache and in memory, with one thread and with all. Takes about 40 times the budget and as
/// much memory as `memory_working_set`. Wants the machine for itself: what else runs lowers the peaks. It looks at
/// each of them three times, some tenths of a second apart, and keeps the best.
[[nodiscard]] inline machine_report measure_machine(const machine_options& options = {}) {
    machine_report report{this_machine(), detail::today_utc(), {}, {}};
    const std::vector<int> counts = detail::thread_counts(options, report.identity.processors);
    for (const int threads : counts) {
        for (const char* scalar : {"float", "double"}) report.peaks.push_back({scalar, threads});
        for (machine_level& level : detail::levels_to_measure(report.identity, threads, options.memory_working_set))
            report.levels.push_back(std::move(level));
    }
    constexpr int looks = 3;
    for (int look = 0; look < looks; ++look) {
        for (const int threads : counts)
            detail::look_at_machine({threads, options.budget / looks}, report.peaks, report.levels);
    }
    return report;
}

/// What it is, then its peaks, as a table in plain text.
inline std::ostream& operator<<(std::ostream& out, const machine_report& m) {
    out << m.identity << "\nmeasured on " << m.measured_on << '\n';
    for (const machine_peak& p : m.peaks) {
        out << "  " << p.scalar << ", " << detail::threads_text(p.threads) << ": "
            << detail::rate_text(p.flops, "FLOP/s") << '\n';
    }
    for (const machine_level& l : m.levels) {
        out << "  " << l.name << ", " << detail::threads_text(l.threads) << ", "
            << detail::bytes_text(static_cast<double>(l.working_set)) << ": read " << detail::rate_text(l.read, "B/s")
            << ", write " << detail::rate_text(l.write, "B/s") << ", streaming "
            << detail::rate_text(l.streaming_write, "B/s") << ", triad " << detail::rate_text(l.triad, "B/s") << '\n';
    }
    return out;
}

}  // namespace headwise
