// A machine whose truth is known: a clock that arms advance by "working", and the noise that real machines add to it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include <headwise/harness/system_noise.hpp>

/// Amplitudes follow traces recorded on a shared two-core virtual machine: ticks of 20 us every 2 ms or so, slices of
/// 3-4 ms taken by another process, bursts of 5-50 ms, and a frequency that wanders by some per cent over seconds.
struct machine_noise {
    double white = 0;  ///< relative, of each call
    double drift = 0;  ///< relative, over a period of `drift_period_ns`
    double drift_period_ns = 3e9;
    double tick_every_ns = 0;  ///< mean; 0: no ticks
    double tick_ns = 20'000;
    bool sharing = false;         ///< another process wants the core, all the time
    bool bursts = false;          ///< ... or for 5-50 ms at a time, with as much rest between
    bool tells = true;            ///< does the system report preemptions and time on the core?
    std::int64_t resolution = 1;  ///< of the clock
};

class simulated_machine {
public:
    explicit simulated_machine(const machine_noise& noise = {}, std::uint64_t seed = 1) : noise_(noise), random_(seed) {
        next_tick_ = noise_.tick_every_ns > 0 ? time_ + wait(noise_.tick_every_ns) : HUGE_VAL;
        slice_end_ = time_ + wait(4e6);
    }

    // What the sampler reads.
    std::int64_t now() { return quantised(time_ += 20); }
    std::int64_t on_core() { return noise_.tells ? quantised(core_ += 200) : -1; }
    headwise::detail::switches switches_so_far() { return noise_.tells ? switches_ : headwise::detail::switches{}; }

    /// Work that takes `ns` on a quiet machine.
    void work(double ns) {
        double cost = ns * (1 + noise_.white * normal_(random_));
        cost *= 1 + noise_.drift * std::sin(2 * 3.14159265358979 * time_ / noise_.drift_period_ns + 1);
        const double end = time_ + cost;
        while (next_tick_ < end) {
            cost += noise_.tick_ns;
            next_tick_ += wait(noise_.tick_every_ns);
        }
        core_ += cost;
        time_ += cost;
        while (slice_end_ < time_) {
            if (crowded()) {
                time_ += 4e6;
                ++switches_.preempted;
                if (noise_.tick_every_ns > 0) next_tick_ = std::max(next_tick_, time_ + wait(noise_.tick_every_ns));
            }
            slice_end_ = time_ + 3e6 + 1e6 * uniform_(random_);
        }
    }

    /// Time that passes while the arm waits of its own accord.
    void sleep(double ns) {
        time_ += ns;
        ++switches_.slept;
    }
    void jump(double ns) { time_ += ns; }

private:
    std::int64_t quantised(double t) const {
        return static_cast<std::int64_t>(t) / noise_.resolution * noise_.resolution;
    }
    double wait(double mean) { return -mean * std::log(1 - uniform_(random_)); }
    bool crowded() {
        if (noise_.sharing) return true;
        if (!noise_.bursts) return false;
        while (burst_end_ < time_) {
            burst_start_ = burst_end_ + 5e6 + 45e6 * uniform_(random_);
            burst_end_ = burst_start_ + 5e6 + 45e6 * uniform_(random_);
        }
        return time_ > burst_start_;
    }

    machine_noise noise_;
    std::mt19937_64 random_;
    std::normal_distribution<double> normal_;
    std::uniform_real_distribution<double> uniform_;
    double time_ = 1e9, core_ = 0, next_tick_ = 0, slice_end_ = 0, burst_start_ = 0, burst_end_ = 0;
    headwise::detail::switches switches_{0, 0, 0};
};
