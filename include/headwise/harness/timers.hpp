// Which clock? Timer policies with one interface, for what one clock cannot say.
//
//   steady_clock_timer   wall time, on every system; the same for all threads
//   thread_cpu_timer     the time that the calling thread has spent on a processor: waiting is not counted
//   tsc_timer            the processor's own counter, where it is invariant: about half the cost of the steady clock
//   cuda_event_timer     time on a GPU's stream (cuda_timer.hpp)
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ctime>
#include <string>

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define HEADWISE_HAVE_TSC 1
#include <cpuid.h>
#endif

#include <headwise/error.hpp>

namespace headwise {

/// A clock that a timer can be made of: nanoseconds since some fixed moment, never going back on one thread. `shared`
/// says whether the times of different threads can be compared.
template <class Clock>
concept nanosecond_clock = requires {
    { Clock::now() }
    noexcept->std::same_as<std::int64_t>;
    { Clock::shared } -> std::convertible_to<bool>;
};

/// What can time: `start(); ...; stop(); elapsed_ms()`. Started again, it begins anew.
template <class Timer>
concept timer_policy = requires(Timer t, const Timer& finished) {
    t.start();
    t.stop();
    { finished.elapsed_ms() } -> std::floating_point;
};

/// The timer of a clock. `elapsed_ns()` is exact; 0 before the first `stop()`.
template <nanosecond_clock Clock>
class clock_timer {
public:
    void start() noexcept { stop_ = start_ = Clock::now(); }
    void stop() noexcept { stop_ = Clock::now(); }
    [[nodiscard]] std::int64_t elapsed_ns() const noexcept { return stop_ - start_; }
    [[nodiscard]] double elapsed_ms() const noexcept { return static_cast<double>(elapsed_ns()) * 1e-6; }

private:
    std::int64_t start_ = 0, stop_ = 0;
};

struct steady_ns {
    static constexpr bool shared = true;
    [[nodiscard]] static std::int64_t now() noexcept {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
};

/// Some 0.2 us a reading: the system is asked. Where it does not tell, `available()` is false and all times are 0.
struct thread_cpu_ns {
    static constexpr bool shared = false;
    [[nodiscard]] static bool available() noexcept { return read() >= 0; }
    [[nodiscard]] static std::int64_t now() noexcept {
        const std::int64_t time = read();
        return time < 0 ? 0 : time;
    }

private:
    static std::int64_t read() noexcept {
#if defined(CLOCK_THREAD_CPUTIME_ID)
        timespec t{};
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0)
            return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(t.tv_nsec);
#endif
        return -1;
    }
};

namespace detail {

#if defined(HEADWISE_HAVE_TSC)
/// Bit 8 of EDX of leaf 0x80000007: the counter runs at one rate in every power state, and never stops.
[[nodiscard]] inline bool has_invariant_tsc() noexcept {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx & 0x100u) != 0;
}
[[nodiscard]] inline std::uint64_t read_tsc() noexcept { return __builtin_ia32_rdtsc(); }
#else
[[nodiscard]] inline bool has_invariant_tsc() noexcept { return false; }
[[nodiscard]] inline std::uint64_t read_tsc() noexcept { return 0; }
#endif

/// One moment on both clocks.
struct tsc_anchor {
    std::uint64_t ticks = 0;
    std::int64_t ns = 0;
};

/// Of some tries the one whose readings of the counter, before and after the clock's, lie closest together.
[[nodiscard]] inline tsc_anchor read_anchor() noexcept {
    tsc_anchor best;
    std::uint64_t least = ~std::uint64_t{0};
    for (int attempt = 0; attempt < 32; ++attempt) {
        const std::uint64_t before = read_tsc();
        const std::int64_t ns = steady_ns::now();
        const std::uint64_t width = read_tsc() - before;
        if (width < least) least = width, best = {before + width / 2, ns};
    }
    return best;
}

struct tsc_scale {
    tsc_anchor origin;
    double ns_per_tick = 0;

    /// Rounded to double on the way: exact to 1 ns for 100 days, and it never goes back.
    [[nodiscard]] constexpr std::int64_t ns_at(std::uint64_t ticks) const noexcept {
        return origin.ns + static_cast<std::int64_t>(static_cast<double>(ticks - origin.ticks) * ns_per_tick);
    }
};

/// Ten milliseconds between two anchors that are each known to some 20 ns: about 5 parts in a million.
[[nodiscard]] inline tsc_scale calibrated_tsc() noexcept {
    const tsc_anchor first = read_anchor();
    while (steady_ns::now() - first.ns < 10'000'000) {
    }
    const tsc_anchor last = read_anchor();
    return {first, static_cast<double>(last.ns - first.ns) / static_cast<double>(last.ticks - first.ticks)};
}

}  // namespace detail

/// x86's time stamp counter, calibrated against the steady clock at the first use (10 ms), in its nanoseconds. Not
/// serialising: the processor may read it some instructions early or late. Only where `available()`.
struct tsc_ns {
    static constexpr bool shared = true;  // Linux and Windows hold the processors' counters together
    [[nodiscard]] static bool available() noexcept {
        static const bool invariant = detail::has_invariant_tsc();
        return invariant;
    }
    [[nodiscard]] static std::int64_t now() noexcept {
        static const detail::tsc_scale scale = detail::calibrated_tsc();
        return scale.ns_at(detail::read_tsc());
    }
};

using steady_clock_timer = clock_timer<steady_ns>;
using thread_cpu_timer = clock_timer<thread_cpu_ns>;
using tsc_timer = clock_timer<tsc_ns>;

/// A clock chosen when the program runs.
struct profile_clock {
    std::int64_t (*now)() noexcept;
    bool shared;
};

/// `clock_of<tsc_ns>()`, for `profile_options::clock`. Refused where the machine has no such clock.
template <nanosecond_clock Clock>
[[nodiscard]] profile_clock clock_of() {
    if constexpr (requires { Clock::available(); }) {
        if (!Clock::available()) detail::refuse(std::string("clock_of: this machine does not have this clock"));
        (void)Clock::now();  // whatever the first reading costs is paid here
    }
    return {&Clock::now, Clock::shared};
}

}  // namespace headwise
