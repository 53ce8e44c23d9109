// Does the harness keep its promises on this machine? Known differences, measured again and again, beside nanobench's
// compare() where its header was found. The dose: one function that is not inlined, a chain of dependent
// multiplications with a trip count known only at run time, n against n(1+e). Both arms run the same instructions at
// the same addresses, so that the ratio is known to be 1+e, and identical arms are identical.
//
//     calibrate [--trials N] [--minutes M] [--cells idle,other,bursts,both,copies,empty]
//
// Tools take turns, trial by trial; each gets the same wall-clock time, warm-up and calibration included. Whatever is
// reached within M minutes is printed, each rate with its exact 95 % interval (Clopper & Pearson).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "machine.hpp"
#include "tally.hpp"
#include "tools.hpp"

namespace {

using namespace calibration;

// --- the cells

struct cell {
    load machine;
    double call_us, effect, seconds, margin;
    const char* target;
};

const std::vector<cell> cells{
    {load::idle, 10, 0, 0.2, 0, "different <= 5 %"},      {load::other, 10, 0, 0.2, 0, "different <= 5 %"},
    {load::bursts, 10, 0, 0.2, 0, "different <= 5 %"},    {load::idle, 2000, 0, 0.2, 0, "different <= 5 %"},
    {load::other, 2000, 0, 0.2, 0, "different <= 5 %"},   {load::bursts, 2000, 0, 0.2, 0, "different <= 5 %"},
    {load::idle, 10, 0.01, 0.2, 0, "slower >= 99 %"},     {load::idle, 10, 0.005, 0.25, 0, "slower >= 90 %"},
    {load::idle, 10, 0.002, 1, 0, "slower >= 90 %"},      {load::idle, 2000, 0.01, 0.2, 0, "slower >= 99 %"},
    {load::idle, 2000, 0.005, 0.25, 0, "slower >= 90 %"}, {load::idle, 2000, 0.002, 1, 0, "slower >= 90 %"},
    {load::both, 10, 0.02, 0.35, 0, "slower >= 99 %"},    {load::both, 10, 0.01, 0.35, 0, "slower >= 95 %"},
    {load::both, 10, 0.005, 1, 0, "slower >= 90 %"},      {load::both, 2000, 0.02, 0.35, 0, "slower >= 99 %"},
    {load::both, 2000, 0.01, 0.35, 0, "slower >= 95 %"},  {load::both, 2000, 0.005, 1, 0, "slower >= 90 %"},
    {load::idle, 10, 0, 2, 0.01, "equivalent >= 90 %"},   {load::idle, 2000, 0, 2, 0.01, "equivalent >= 90 %"},
};

struct settings {
    std::int64_t trials = 1000;
    double minutes = std::numeric_limits<double>::infinity();
    std::string chosen;  // empty: all
    [[nodiscard]] bool wants(const char* name) const {
        return chosen.empty() || ("," + chosen + ",").find("," + std::string(name) + ",") != std::string::npos;
    }
};

/// A cell's share of the time: rates of some per cent need more trials than rates near one.
double weight(const cell& c) { return c.effect > 0 || c.margin > 0 ? 0.4 : 1; }

/// What is left of the time is shared by the cells that are left.
void run_cells(const settings& s, clock_type::time_point start, double scale) {
    const std::vector<tool> racing = tools();
    std::vector<cell> chosen;
    for (const cell& c : cells) {
        if (s.wants(load_names[static_cast<std::size_t>(c.machine)])) chosen.push_back(c);
    }
    double weight_left = 0;
    for (const cell& c : chosen) weight_left += weight(c);
    for (const cell& c : chosen) {
        const double share = (60 * s.minutes - seconds_since(start)) * weight(c) / weight_left;
        weight_left -= weight(c);
        const disturbance busy(c.machine);
        const auto begin = clock_type::now();
        const auto trips = static_cast<std::uint64_t>(1e3 * c.call_us * scale);
        const auto more = static_cast<std::uint64_t>(std::llround(static_cast<double>(trips) * (1 + c.effect)));
        const double truth = static_cast<double>(more) / static_cast<double>(trips);
        const auto dosing = [](std::uint64_t n) { return [n] { return dose(n); }; };  // one type for both
        const call a = dosing(trips), b = dosing(more);
        std::vector<tally> tallies(racing.size());
        for (std::int64_t trial = 0; trial < s.trials && seconds_since(begin) < share; ++trial) {
            for (std::size_t i = 0; i < racing.size(); ++i) {
                const outcome o = racing[i].run(a, b, c.seconds, c.margin);
                tallies[i].add(o, truth);
            }
        }
        for (std::size_t i = 0; i < racing.size(); ++i) {
            print_row(load_names[static_cast<std::size_t>(c.machine)], c.call_us, c.effect, c.seconds, c.margin,
                      racing[i].name, tallies[i], i == 0 ? c.target : "");
        }
    }
}

// --- copies of one function in differently padded places

template <int Padding>
struct padded {
    [[gnu::noinline]] static std::uint64_t one(std::uint64_t n) { return body(n, 0); }
    [[gnu::noinline]] static std::uint64_t two(std::uint64_t n) { return body(n, 1); }

private:
    [[gnu::always_inline]] static std::uint64_t body(std::uint64_t n, int which) {
        std::uint64_t x = n | 1, y = 3;
        if (which == 0) asm volatile(".skip %c0, 0x90" : : "i"(3 + 7 * Padding));
        else asm volatile(".skip %c0, 0x90" : : "i"(1 + 11 * Padding));
        for (std::uint64_t i = 0; i < n; ++i) {
            x = x * 6364136223846793005ull + (y >> 7);
            y ^= x;
            keep(x);
        }
        return x + y;
    }
};

template <int... Padding>
void run_copies(const settings& s, double minutes, double scale, std::integer_sequence<int, Padding...>) {
    const std::vector<tool> racing = tools();
    std::vector<tally> tallies(racing.size());
    const auto n = static_cast<std::uint64_t>(5e3 * scale);
    const auto start = clock_type::now();
    const std::vector<std::pair<call, call>> pairs{
        {[n] { return padded<Padding>::one(n); }, [n] { return padded<Padding>::two(n); }}...};
    const disturbance idle(load::idle);
    for (std::int64_t trial = 0; trial < s.trials && seconds_since(start) < 60 * minutes; ++trial) {
        const auto& [a, b] = pairs[static_cast<std::size_t>(trial) % pairs.size()];
        for (std::size_t i = 0; i < racing.size(); ++i) tallies[i].add(racing[i].run(a, b, 0.2, 0.01), 1);
    }
    for (std::size_t i = 0; i < racing.size(); ++i)
        print_row("copies", 5, 0, 0.2, 0.01, racing[i].name, tallies[i], i == 0 ? "different <= 5 %" : "");
}

// --- next to nothing

void run_empty(const settings& s, double scale) {
    const disturbance idle(load::idle);
    std::int64_t trials = 0, no_ratio = 0;
    std::vector<double> bias;
    const auto few = static_cast<std::uint64_t>(std::max(1.0, std::round(5 * scale)));
    for (; trials < std::min<std::int64_t>(s.trials, 50); ++trials) {
        const comparison c = compare({.budget = std::chrono::milliseconds(50)},
                                     arm{"loop",
                                         [few] {
                                             auto x = dose(few);
                                             keep(x);
                                         }},
                                     arm{"nothing", [] {}});
        no_ratio += c.arms[1].indistinguishable_from_empty && !c.arms[1].speedup;
        // What a call costs besides its trips would be the bias of a 5 ns operation: t(n) - (t(2n) - t(n)), the call
        // itself in it.
        const comparison twice = compare({.budget = std::chrono::milliseconds(50)},
                                         arm{"n",
                                             [few] {
                                                 auto x = dose(few);
                                                 keep(x);
                                             }},
                                         arm{"2n", [few] {
                                                 auto x = dose(2 * few);
                                                 keep(x);
                                             }});
        bias.push_back(2 * twice.arms[0].time.median - twice.arms[1].time.median);
    }
    std::printf(
        "empty: no ratio for an arm that does nothing in %s %% of %lld; a call of dose(%llu) costs %.2f ns beyond its "
        "trips\n",
        rate(no_ratio, trials).c_str(), static_cast<long long>(trials), static_cast<unsigned long long>(few),
        statistics::median(bias));
}

[[noreturn]] void refuse_usage(const std::string& what) {
    std::fprintf(stderr,
                 "calibrate: %s; usage: calibrate [--trials N] [--minutes M] [--cells "
                 "idle,other,bursts,both,copies,empty]\n",
                 what.c_str());
    std::exit(2);
}

/// Refuses a list with a name that no cell has.
void check_cells(const std::string& list) {
    std::istringstream names(list + ",");
    for (std::string name; std::getline(names, name, ',');) {
        const auto is = [&name](const char* known) { return name == known; };
        if (!std::any_of(load_names.begin(), load_names.end(), is) && !is("copies") && !is("empty"))
            refuse_usage("--cells: there is no cell '" + name + "'");
    }
}

settings parse(int argc, char** argv) {
    settings s;
    for (int i = 1; i < argc; i += 2) {
        const std::string option = argv[i];
        if (option != "--cells" && option != "--trials" && option != "--minutes")
            refuse_usage("there is no option '" + option + "'");
        if (i + 1 == argc) refuse_usage(option + " needs a value");
        const std::string value = argv[i + 1];
        if (option == "--cells") {
            check_cells(s.chosen = value);
            continue;
        }
        char* end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        if (!(number > 0 && number < 1e9 && *end == '\0'))
            refuse_usage(option + ": '" + value + "' is not a number above 0");
        if (option == "--trials") s.trials = std::max<std::int64_t>(1, std::llround(number));
        else s.minutes = number;
    }
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    const settings s = parse(argc, argv);
    const auto start = clock_type::now();
    const double scale = trips_per_ns();
    print_heading();
    if (s.wants("empty")) run_empty(s, scale);
    if (s.wants("copies")) run_copies(s, s.minutes / 10, scale, std::make_integer_sequence<int, 8>{});
    run_cells(s, start, scale);
}
