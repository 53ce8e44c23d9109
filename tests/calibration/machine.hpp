// The dose, whose ratio is known, and what else the machine does meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <headwise/harness/compare.hpp>

namespace calibration {

using namespace headwise;
using clock_type = std::chrono::steady_clock;

inline double seconds_since(clock_type::time_point start) {
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

[[gnu::noinline]] inline std::uint64_t dose(std::uint64_t trips) {
    std::uint64_t x = trips | 1;
    for (std::uint64_t i = 0; i < trips; ++i) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        keep(x);
    }
    return x;
}

/// Trips a nanosecond, by the least of many readings.
inline double trips_per_ns() {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 300; ++i) {
        const auto start = clock_type::now();
        auto x = dose(100'000);
        keep(x);
        least = std::min(least, seconds_since(start) * 1e9);
    }
    return 100'000 / least;
}

enum class load { idle, other, bursts, both };
constexpr std::array<const char*, 4> load_names{"idle", "other", "bursts", "both"};

/// Spinning processes, pinned; this process is pinned to core 0 meanwhile, so that a load on "our" core is one.
class disturbance {
public:
    explicit disturbance(load kind) {
        pin(0);
        const int other = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0;
        if (kind == load::other || kind == load::both) start(other, false);
        if (kind == load::bursts) start(0, true);
        if (kind == load::both) start(0, false);
    }
    disturbance(const disturbance&) = delete;
    disturbance& operator=(const disturbance&) = delete;
    ~disturbance() {
        for (const pid_t child : children_) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
    }

private:
    static void pin(int core) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(core), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    void start(int core, bool in_bursts) {
        const pid_t parent = getpid(), child = fork();
        if (child > 0) children_.push_back(child);
        if (child != 0) return;
        pin(core);
        detail::order_generator random(static_cast<std::uint64_t>(getpid()));
        const auto some = [&] { return 0.005 + 0.045 * static_cast<double>(random() >> 11) / 9007199254740992.0; };
        while (getppid() == parent) {  // ends with its parent, however that ends
            const auto begin = clock_type::now();
            for (const double length = some(); seconds_since(begin) < length;) dose(1'000);
            if (in_bursts) usleep(static_cast<useconds_t>(some() * 1e6));
        }
        _exit(0);
    }
    std::vector<pid_t> children_;
};

}  // namespace calibration
