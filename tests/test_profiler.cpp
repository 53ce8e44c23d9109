// The table of a profile: summed up from recordings made by hand, and what it looks like.
#include <doctest/doctest.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/profiler.hpp>

using namespace headwise;
using doctest::Approx;

namespace {

constexpr std::uint32_t none = detail::none;

/// Two threads. The first: load [0, 100) with inside it fill [10, 30) and load again [40, 90), which holds fill [50,
/// 60). The second: fill [0, 1000), of another shape.
recording example() {
    recording r{.start = 0, .stop = 1000, .memory_counted = true, .threads = {}};
    r.threads.resize(2);
    r.threads[0] = {1,
                    "main",
                    {{"load", nullptr, 0, 100, none, 0, false},
                     {"fill", "(2, 3)", 10, 30, 0, 1, false},
                     {"load", nullptr, 40, 90, 0, 2, false},
                     {"fill", "(2, 3)", 50, 60, 2, 3, false}},
                    {{{.flops = 1e3}, {5, 500, 2, 200}},
                     {{.flops = 40, .bytes_read = 20, .bytes_written = 60}, {1, 100, 1, 100}},
                     {{.flops = 500}, {2, 250, 0, 0}},
                     {{.flops = 20, .bytes_read = 100, .bytes_written = 20}, {1, 50, 0, 0}}},
                    {},
                    0};
    r.threads[1] = {2, "", {{"fill", "(9, 9)", 0, 1000, none, 0, false}}, {{{}, {}}}, {}, 3};
    return r;
}

template <class Value>
std::string text(const Value& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

std::vector<std::string> order(profile_column column) {
    std::vector<std::string> names;
    for (const auto& row : tabulate({example()}, {.grouping = profile_grouping::name_and_shape, .sort = column}).rows)
        names.push_back(row.name + row.shape);
    return names;
}

}  // namespace

TEST_CASE("self times add up to the total; recursion is not counted twice") {
    const profile_table table = tabulate({example()});
    CHECK(table.total_ns == 1100);
    CHECK(table.threads == 2);
    CHECK(table.lost == 3);
    REQUIRE(table.rows.size() == 2);
    const profile_row &load = table["load"], &fill = table["fill"];
    CHECK(load.calls == 2);
    CHECK(load.total_ns == 100);
    CHECK(load.self_ns == (100 - 20 - 50) + (50 - 10));
    CHECK(load.runs_ns == 150);
    CHECK(load.mean_ns() == Approx(75));
    CHECK(load.min_ns == 50);
    CHECK(load.max_ns == 100);
    CHECK(load.done.flops == Approx(1000));
    CHECK(fill.calls == 3);
    CHECK(fill.self_ns == 1030);
    CHECK(fill.total_ns == 1030);
    CHECK(fill.min_ns == 10);
    CHECK(fill.max_ns == 1000);
    CHECK(load.self_ns + fill.self_ns == table.total_ns);
}

TEST_CASE("memory is counted inside, and apart: what is inside another scope is not the outer one's own") {
    const profile_table table = tabulate({example()});
    const profile_row &load = table["load"], &fill = table["fill"];
    CHECK(*load.memory == memory_count{5, 500, 2, 200});
    CHECK(*load.self_memory == memory_count{5 - 1 - 2 + (2 - 1), 500 - 100 - 250 + (250 - 50), 2 - 1, 200 - 100});
    CHECK(*fill.memory == memory_count{2, 150, 1, 100});
    CHECK(*fill.self_memory == *fill.memory);

    recording uncounted = example();
    uncounted.memory_counted = false;
    CHECK_FALSE(tabulate({uncounted})["load"].memory);
}

TEST_CASE("of an open run as much memory is known as the runs inside it tell") {
    recording r = example();
    r.threads[0].runs[0].open = true;
    r.threads[0].details[0].memory = {};
    const profile_table table = tabulate({r});
    CHECK(table.open == 1);
    CHECK(*table["load"].memory == memory_count{3, 350, 1, 100});
    CHECK(table["load"].self_memory->allocations == 1);
}

TEST_CASE("rates and shares come from the work that scopes told of") {
    const machine_limits limits{.flops = 1e11, .bytes_read = 1e10, .bytes_written = 1e10};
    const profile_table table = tabulate({example()}, {.grouping = profile_grouping::name_and_shape, .limits = limits});
    REQUIRE(table.rows.size() == 3);
    const profile_row& fill = table.rows[2];
    REQUIRE(fill.shape == "(2, 3)");
    CHECK(fill.total_ns == 30);
    CHECK(*fill.flops_per_second() == Approx(60 / 30e-9));
    CHECK(*fill.bytes_per_second() == Approx(200 / 30e-9));
    CHECK(*fill.share_of_limit() == Approx((8e-9 + 12e-9) / 30e-9));  // each run has a limit of its own
    CHECK(*table["load"].share_of_limit() == Approx(10e-9 / 100e-9));
    CHECK_FALSE(table.rows[0].flops_per_second());
    CHECK_FALSE(table.rows[0].share_of_limit());
    CHECK_FALSE(tabulate({example()})["load"].share_of_limit());
}

TEST_CASE("rows are sorted by any column, the unknown last, and then by name") {
    using names = std::vector<std::string>;
    CHECK(order(profile_column::self) == names{"fill(9, 9)", "load", "fill(2, 3)"});
    CHECK(order(profile_column::calls) == names{"fill(2, 3)", "load", "fill(9, 9)"});
    CHECK(order(profile_column::min) == names{"fill(9, 9)", "load", "fill(2, 3)"});
    CHECK(order(profile_column::max) == names{"fill(9, 9)", "load", "fill(2, 3)"});
    CHECK(order(profile_column::mean) == names{"fill(9, 9)", "load", "fill(2, 3)"});
    CHECK(order(profile_column::total) == names{"fill(9, 9)", "load", "fill(2, 3)"});
    CHECK(order(profile_column::name) == names{"fill(2, 3)", "fill(9, 9)", "load"});
    CHECK(order(profile_column::allocations) == names{"load", "fill(2, 3)", "fill(9, 9)"});
    CHECK(order(profile_column::allocated_bytes) == names{"load", "fill(2, 3)", "fill(9, 9)"});
    CHECK(order(profile_column::released_bytes) == names{"load", "fill(2, 3)", "fill(9, 9)"});
    CHECK(order(profile_column::releases) == names{"load", "fill(2, 3)", "fill(9, 9)"});
    CHECK(order(profile_column::flops_per_second) == names{"load", "fill(2, 3)", "fill(9, 9)"});
    CHECK(order(profile_column::bytes_per_second) == names{"fill(2, 3)", "fill(9, 9)", "load"});
    CHECK(order(profile_column::share_of_limit) == names{"fill(2, 3)", "fill(9, 9)", "load"});  // none is known
}

TEST_CASE("a name is its text, not where it stands") {
    const std::string copy = "load";
    recording r = example();
    r.threads[0].runs[2].name = copy.c_str();
    CHECK(tabulate({r}).rows.size() == 2);
    CHECK(tabulate({r})["load"].total_ns == 100);
}

TEST_CASE("recordings add up") {
    const profile_table table = tabulate({example(), example()});
    CHECK(table.total_ns == 2200);
    CHECK(table.threads == 2);
    CHECK(table["load"].calls == 4);
    CHECK(table["load"].memory->allocations == 10);
    CHECK_THROWS_WITH_AS((void)table["lead"], "profile_table: there is no scope 'lead'", std::invalid_argument);
    CHECK(tabulate({}).rows.empty());
}

TEST_CASE("limits of flops alone leave the share of work with bytes unknown") {
    const profile_table table =
        tabulate({example()}, {.sort = profile_column::share_of_limit, .limits = machine_limits{.flops = 1e11}});
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].name == "load");  // what is not known comes last
    CHECK(*table["load"].share_of_limit() == Approx(0.1));
    CHECK_FALSE(table["fill"].share_of_limit());
    CHECK(text(table).find("inf") == std::string::npos);
}

TEST_CASE("the table and its notes, word for word") {
    const machine_limits limits{.flops = 1e11, .bytes_read = 1e10, .bytes_written = 1e10};
    CHECK(text(tabulate({example()}, {.grouping = profile_grouping::name_and_shape, .limits = limits})) ==
          "scope  shape   calls     self           total            mean      min      max   allocated    released"
          "  FLOP/s  bytes/s  of limit\n"
          "fill   (9, 9)      1  1.00 us   91 %  1.00 us   91 %  1.00 us  1.00 us  1.00 us           0           0"
          "       -        -         -\n"
          "load               2  70.0 ns  6.4 %   100 ns  9.1 %  75.0 ns  50.0 ns   100 ns  500 B in 5  200 B in 2"
          "  10.0 G        -      10 %\n"
          "fill   (2, 3)      2  30.0 ns  2.7 %  30.0 ns  2.7 %  15.0 ns  10.0 ns  20.0 ns  150 B in 2  100 B in 1"
          "  2.00 G   6.67 G      67 %\n"
          "\n"
          "1.10 us in all, on 2 threads\n"
          "note: 3 records found no room; the time of such scopes is in those around them\n");

    recording plain = example();
    plain.memory_counted = false;
    plain.threads.resize(1);
    plain.threads[0].details.clear();
    for (scope_run& run : plain.threads[0].runs) run.extra = none;
    plain.threads[0].runs[0].open = true;
    plain.threads[0].runs[1].name = "li\nne";
    CHECK(text(tabulate({plain}, {.rows = 2})) ==
          "scope  calls     self          total            mean      min      max\n"
          "load       2  70.0 ns  70 %   100 ns  100 %  75.0 ns  50.0 ns   100 ns\n"
          "li?ne      1  20.0 ns  20 %  20.0 ns   20 %  20.0 ns  20.0 ns  20.0 ns\n"
          "\n"
          "1 more row\n"
          "100 ns in all, on 1 thread\n"
          "memory: not counted (headwise/harness/memory_hooks.hpp)\n"
          "note: 1 run had not ended, and counted so far\n");
}

TEST_CASE("amounts read well") {
    CHECK(detail::rate_text(999.4) == "999");
    CHECK(detail::rate_text(999.6) == "1.00 k");
    CHECK(detail::rate_text(12.34e9) == "12.3 G");
    CHECK(detail::rate_text(std::nullopt) == "-");
    CHECK(detail::memory_text(0, 0) == "0");
    CHECK(detail::memory_text(1023, 1) == "1023 B in 1");
    CHECK(detail::memory_text(1 << 20, 3) == "1 MiB in 3");
    CHECK(detail::memory_text(100 << 10, 3) == "100 KiB in 3");
}

TEST_CASE("a schedule's phases") {
    using enum profile_phase;
    const profile_schedule s{.wait = 2, .warmup = 1, .active = 2, .repeat = 2, .skip_first = 1};
    const std::vector<profile_phase> expected{none,   none,   none, warmup, active, save, none, none,
                                              warmup, active, save, none,   none,   none, none, none};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(phase_at(s, static_cast<long>(i)) == expected[i]);
    CHECK(phase_at({.active = 1}, 1'000'000) == save);
    CHECK(phase_at({.wait = 1, .active = 1}, 1'000'001) == save);
    CHECK(phase_at({}, 12) == active);
    static_assert(phase_at({.active = 3}, 1) == active);
}

TEST_CASE("a schedule keeps what is active, and says when a stretch of it ends") {
    profile p({.schedule = {.wait = 1, .warmup = 1, .active = 2, .repeat = 2}});
    std::vector<int> saved;
    const char* const steps[]{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    for (int i = 0; i < 10; ++i) {
        { HEADWISE_SCOPE(steps[i]); }
        if (p.step()) saved.push_back(i);
    }
    CHECK(saved == std::vector{3, 7});
    CHECK_FALSE(p.is_recording());
    const profile_table table = p.table({.sort = profile_column::name});
    REQUIRE(table.rows.size() == 4);
    CHECK(table.rows[0].name == "2");
    CHECK(table.rows[1].name == "3");
    CHECK(table.rows[2].name == "6");
    CHECK(table.rows[3].name == "7");
    CHECK(p.recordings().size() == 2);
}

TEST_CASE("stopping ends a schedule, in a warm-up with nothing; starting begins it again") {
    profile p({.schedule = {.warmup = 1, .active = 1}});
    { HEADWISE_SCOPE("warm-up"); }
    CHECK(p.is_recording());
    p.stop();
    CHECK(p.table().rows.empty());
    CHECK_FALSE(p.step());
    CHECK_FALSE(p.is_recording());
    p.start();
    { HEADWISE_SCOPE("warm-up"); }
    CHECK_FALSE(p.step());
    { HEADWISE_SCOPE("active"); }
    CHECK(p.step());
    CHECK(p.table().rows.size() == 1);
    CHECK(p.table()["active"].calls == 1);
    CHECK(p.is_recording());  // the next warm-up
    p.stop();

    profile everything;
    CHECK_FALSE(everything.step());
    CHECK(everything.is_recording());
}

TEST_CASE("a schedule that cannot be is refused") {
    CHECK_THROWS_WITH_AS(
        profile({.schedule = {.wait = 3}}),
        "profile: schedule {.wait = 3, .warmup = 0, .active = 0, .repeat = 0, .skip_first = 0}: active must be at "
        "least 1, the others at least 0",
        std::invalid_argument);
    for (const profile_schedule& s : {profile_schedule{.active = -1},
                                      {.wait = -1, .active = 1},
                                      {.warmup = -1, .active = 1},
                                      {.active = 1, .repeat = -1},
                                      {.active = 1, .skip_first = -1}})
        CHECK_THROWS_AS(profile({.schedule = s}), std::invalid_argument);
    const profile still_possible;
    CHECK(still_possible.is_recording());
}
