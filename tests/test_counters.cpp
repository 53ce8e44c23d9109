// Counters: the scaling as a pure function, and what this machine can count, or why it cannot.
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <headwise/harness/counters.hpp>
#include <headwise/harness/keep.hpp>

using namespace headwise;
using doctest::Approx;

TEST_CASE("a counter that always ran is exact") {
    const auto counted = events_between({100, 1000, 1000}, {350, 3000, 3000});
    REQUIRE(counted);
    CHECK(counted->value == 250);
    CHECK(counted->share == 1);
    CHECK(events_between({100, 1000, 1000}, {100, 3000, 3000})->value == 0);  // counted, and nothing happened
    static_assert(events_between({1, 1, 1}, {2, 2, 2})->value == 1);
}

TEST_CASE("a counter that ran for a part is scaled by that part of the stretch, not of all time") {
    const auto counted = events_between({1000, 1000, 1000}, {1300, 5000, 2000});  // a quarter of 4000
    REQUIRE(counted);
    CHECK(counted->value == Approx(1200));
    CHECK(counted->share == Approx(0.25));
    // Multiplexed before, alone since: exact again.
    CHECK(events_between({1000, 5000, 1000}, {1400, 6000, 2000})->value == 400);
    CHECK(events_between({1000, 5000, 1000}, {1400, 6000, 2000})->share == 1);
}

TEST_CASE("a counter that never ran was not counted, which is not zero") {
    CHECK_FALSE(events_between({5, 1000, 500}, {5, 2000, 500}));
    CHECK_FALSE(events_between({}, {}));
    CHECK_FALSE(events_between({0, 1000, 1000}, {10, 1500, 2000}));  // ran longer than it was enabled: not believed
}

TEST_CASE("counters that a virtual machine offers and that stand still were not counted, which is not zero") {
    const auto counted = [](std::optional<double> cycles, std::optional<double> instructions) {
        counter_values v;
        if (cycles) v.values[0] = counted_events{*cycles, 1};
        if (instructions) v.values[1] = counted_events{*instructions, 1};
        v.values[4] = v.values[6] = counted_events{0, 1};  // cache misses, page faults
        detail::disbelieve_what_stands_still(v);
        CHECK(v[counter::page_faults]->value == 0);  // is the kernel's
        return v;
    };
    for (const auto& v : {counted(0, 0), counted(0, 500), counted(900, 0), counted(0, {}), counted({}, 0)}) {
        for (std::size_t i = 0; i < hardware_counters; ++i) CHECK_FALSE(v.values[i]);
        CHECK(v.hardware_missing.find("stand still") != std::string::npos);
    }
    for (const auto& v : {counted(900, 500), counted(900, {}), counted({}, 500), counted({}, {})}) {
        CHECK(v[counter::cache_misses]->value == 0);
        CHECK(v.hardware_missing.empty());
    }
}

TEST_CASE("a counter that wraps, and products beyond 64 bits, are right") {
    CHECK(events_between({UINT64_MAX - 9, 10, 10}, {15, 20, 20})->value == 25);
    CHECK(events_between({0, UINT64_MAX - 4, UINT64_MAX - 4}, {8, 5, 5})->value == 8);
    const std::uint64_t large = std::uint64_t{1} << 60;  // 2^60 events in 2^60 ns, half of the time: 2^121 as a product
    const auto counted = events_between({0, 0, 0}, {large, large, large / 2});
    REQUIRE(counted);
    CHECK(counted->value == Approx(0x1p61));
}

#if defined(HEADWISE_HAVE_PERF_EVENTS)
TEST_CASE("why something could not be counted, in a sentence") {
    CHECK(detail::why_not_counted(0, 2).empty());
    CHECK(detail::why_not_counted(ENOENT, 2) ==
          "this machine has no counter for it (a virtual machine often has no PMU)");
    CHECK(detail::why_not_counted(EACCES, 3) ==
          "no permission: kernel.perf_event_paranoid is 3; 2 or less, or CAP_PERFMON, would allow it");
    CHECK(detail::why_not_counted(EPERM, 1) ==
          "no permission: kernel.perf_event_paranoid is 1, so a container or seccomp forbids it");
    CHECK(detail::why_not_counted(EPERM, std::nullopt).find("is not readable") != std::string::npos);
    CHECK(detail::why_not_counted(ENOSYS, 2) == "this kernel was built without perf_event_open");
    CHECK(detail::why_not_counted(EMFILE, 2) == "no file descriptor is left for it");
    CHECK(detail::why_not_counted(EINVAL, 2).find("perf_event_open failed: ") == 0);
}
#endif

TEST_CASE("what can be counted here is, and what cannot has a reason") {
    counters c;
    c.start();
    std::vector<char> pages(std::size_t{64} << 20);
    for (std::size_t i = 0; i < pages.size(); i += 4096) pages[i] = 1;
    keep(pages);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const counter_values counted = c.stop();
    std::ostringstream text;
    text << counted;
    MESSAGE(text.str());
    for (std::size_t i = 0; i < counter_kinds; ++i) {
        const std::string& why = i < hardware_counters ? counted.hardware_missing : counted.software_missing;
        if (!counted.values[i] && i >= hardware_counters) CHECK_FALSE(why.empty());
        if (!why.empty()) CHECK(text.str().find(why) != std::string::npos);
    }
    if (counted[counter::task_clock]) CHECK(counted[counter::task_clock]->value > 0);
    if (counted[counter::page_faults]) CHECK(counted[counter::page_faults]->value > 0);
    if (counted[counter::context_switches]) CHECK(counted[counter::context_switches]->value > 0);
    if (counted[counter::cycles]) CHECK(counted[counter::cycles]->value > 0);
    if (!counted[counter::cycles]) CHECK(text.str().find("cycles            not counted\n") != std::string::npos);
}

TEST_CASE("each start begins anew; a stretch in which nothing happens counts nothing") {
    counters c;
    c.start();
    std::vector<char> pages(std::size_t{16} << 20, 1);
    keep(pages);
    const auto first = c.stop();
    c.start();
    const auto second = c.stop();
    if (!first[counter::page_faults]) return;
    CHECK(second[counter::page_faults]->value < first[counter::page_faults]->value / 2);
    CHECK(second[counter::task_clock]->value < first[counter::task_clock]->value);
}

TEST_CASE("counts, estimates and ratios are written down as what they are") {
    counter_values v;
    v.hardware_missing = "reason";
    v.values[0] = counted_events{2e6, 1};
    v.values[1] = counted_events{3e6, 0.25};
    std::ostringstream text;
    text << v;
    CHECK(text.str() ==
          "cycles            2000000\n"
          "instructions      3000000 (scaled: counted 25 % of the time)\n"
          "branches          not counted\n"
          "branch misses     not counted\n"
          "cache misses      not counted\n"
          "task clock        not counted\n"
          "page faults       not counted\n"
          "context switches  not counted\n"
          "migrations        not counted\n"
          "instructions a cycle: 1.50\n"
          "the processor's: reason\n");
    CHECK(*v.ratio(counter::instructions, counter::cycles) == Approx(1.5));
    CHECK_FALSE(v.ratio(counter::branch_misses, counter::branches));
    v.values[0]->value = 0;
    CHECK_FALSE(v.ratio(counter::instructions, counter::cycles));
}
