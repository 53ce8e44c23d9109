// Clocks and timers. No test depends on how long anything really takes.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include <headwise/harness/keep.hpp>
#include <headwise/harness/profiler.hpp>
#include <headwise/harness/timers.hpp>

using namespace headwise;
using doctest::Approx;

namespace {

std::int64_t fake_time = 0;
struct fake_ns {
    static constexpr bool shared = false;
    static std::int64_t now() noexcept { return fake_time; }
};
struct absent_ns : fake_ns {
    static bool available() noexcept { return false; }
};

static_assert(timer_policy<steady_clock_timer> && timer_policy<thread_cpu_timer> && timer_policy<tsc_timer>);
static_assert(nanosecond_clock<fake_ns> && !nanosecond_clock<steady_clock_timer>);

template <class Clock>
void never_goes_back() {
    std::int64_t last = Clock::now();
    for (int i = 0; i < 10'000; ++i) {
        const std::int64_t now = Clock::now();
        REQUIRE(now >= last);
        last = now;
    }
}

}  // namespace

TEST_CASE("a timer measures from start to stop") {
    clock_timer<fake_ns> t;
    CHECK(t.elapsed_ns() == 0);
    fake_time = 1'000;
    t.start();
    CHECK(t.elapsed_ns() == 0);
    fake_time += 2'500'000;
    t.stop();
    fake_time += 99;
    CHECK(t.elapsed_ns() == 2'500'000);
    CHECK(t.elapsed_ms() == Approx(2.5));
    t.start();
    fake_time += 7;
    t.stop();
    CHECK(t.elapsed_ns() == 7);
}

TEST_CASE("clocks never go back") {
    never_goes_back<steady_ns>();
    never_goes_back<thread_cpu_ns>();
    if (tsc_ns::available()) never_goes_back<tsc_ns>();
}

TEST_CASE("a thread's processor time stands still while it sleeps") {
    if (!thread_cpu_ns::available()) return;
    thread_cpu_timer cpu;
    steady_clock_timer wall;
    wall.start(), cpu.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cpu.stop(), wall.stop();
    CHECK(wall.elapsed_ns() >= 30'000'000);
    CHECK(cpu.elapsed_ns() < 15'000'000);
    CHECK(cpu.elapsed_ns() >= 0);
    cpu.start();
    for (int i = 0; i < 100'000; ++i) keep(i);
    cpu.stop();
    CHECK(cpu.elapsed_ns() > 0);
    CHECK_FALSE(thread_cpu_ns::shared);
}

TEST_CASE("ticks become the nanoseconds of the steady clock") {
    const detail::tsc_scale half{{1'000, 50}, 0.5};
    CHECK(half.ns_at(1'000) == 50);
    CHECK(half.ns_at(1'200) == 150);
    CHECK(half.ns_at(1'000 + (std::uint64_t{1} << 53)) == 50 + (std::int64_t{1} << 52));
    std::int64_t last = half.ns_at(1'000);
    for (std::uint64_t ticks = 1'000; ticks < 3'000; ++ticks) {
        CHECK(half.ns_at(ticks) >= last);
        last = half.ns_at(ticks);
    }
    if (!tsc_ns::available()) return;
    (void)tsc_ns::now();
    const std::int64_t low = steady_ns::now(), between = tsc_ns::now(), high = steady_ns::now();
    constexpr std::int64_t slack = 1'000'000;  // the rate is known to some parts in a million
    CHECK(between > low - slack);
    CHECK(between < high + slack);
}

TEST_CASE("a clock is chosen at run time, and refused where there is none") {
    CHECK(clock_of<steady_ns>().shared);
    CHECK_FALSE(clock_of<thread_cpu_ns>().shared);
    fake_time = 5;
    CHECK(clock_of<fake_ns>().now() == 5);
    CHECK_THROWS_AS((void)clock_of<absent_ns>(), std::invalid_argument);
    profile p({.clock = clock_of<fake_ns>()});
    {
        const scope s("s");
        fake_time += 12;
    }
    CHECK(p.table()["s"].total_ns == 12);
}
