// What the machine does to a measurement: the clock that the sampler reads, and what the system admits to.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#endif

namespace headwise::detail {

/// How often the calling thread lost its core against its will, how often it gave it up, and which core it is on.
struct switches {
    std::int64_t preempted = 0;
    std::int64_t slept = 0;
    int core = -1;
    friend bool operator==(const switches&, const switches&) = default;
};

/// The sampler's view of time, in nanoseconds. A test puts a clock of its own in this place.
/// One reading of `now` costs about 25 ns on Linux, of `on_core` and `switches_so_far` 150-400 ns (system calls): the
/// last two are read outside the timed window.
struct machine_clock {
    std::int64_t now() const noexcept {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }

#if defined(__linux__)
    /// Time that the calling thread has spent on a core, or -1 where the system does not tell.
    std::int64_t on_core() const noexcept {
        timespec t{};
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return -1;
        return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(t.tv_nsec);
    }
    switches switches_so_far() const noexcept {
        rusage usage{};
        getrusage(RUSAGE_THREAD, &usage);
        return {usage.ru_nivcsw, usage.ru_nvcsw, sched_getcpu()};
    }
#else
    std::int64_t on_core() const noexcept { return -1; }
    switches switches_so_far() const noexcept { return {}; }
#endif
};

/// Processor time of the whole machine since it started, in ticks; all zero where the system does not tell.
struct machine_time {
    double total = 0, stolen = 0;
};

inline machine_time machine_time_so_far() {
    machine_time time;
    std::FILE* stat = std::fopen("/proc/stat", "r");
    if (stat == nullptr) return time;
    double ticks = 0;  // of user nice system idle iowait irq softirq steal, after "cpu"
    if (std::fscanf(stat, "cpu") == 0) {
        for (int field = 0; field < 8 && std::fscanf(stat, "%lf", &ticks) == 1; ++field) {
            time.total += ticks;
            if (field == 7) time.stolen = ticks;
        }
    }
    std::fclose(stat);
    return time;
}

/// The share of the machine's time that the hypervisor gave to others between two readings.
inline double stolen_share(const machine_time& before, const machine_time& after) noexcept {
    const double total = after.total - before.total;
    return total > 0 ? (after.stolen - before.stolen) / total : 0.0;
}

/// What is wrong with this build or machine that a reader of the numbers must know. Usually nothing.
inline std::vector<std::string> environment_warnings() {
    std::vector<std::string> warnings;
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__OPTIMIZE__)
    warnings.emplace_back("built without optimisation: the times say little about the code as it will ship");
#endif
#if defined(_SC_NPROCESSORS_ONLN)
    if (sysconf(_SC_NPROCESSORS_ONLN) == 1) {
        warnings.emplace_back("one processor: everything else on this machine runs in between");
    }
#endif
    if (std::FILE* file = std::fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "r")) {
        char text[64] = "";
        const std::string governor = std::fscanf(file, "%63s", text) == 1 ? text : "performance";
        std::fclose(file);
        if (governor != "performance")
            warnings.push_back("frequency governor is '" + governor + "': absolute times drift, ratios hold");
    }
    return warnings;
}

}  // namespace headwise::detail
