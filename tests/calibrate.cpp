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
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <headwise/harness/compare.hpp>

#if defined(HEADWISE_HAVE_NANOBENCH)
#define ANKERL_NANOBENCH_IMPLEMENT
#include <nanobench.h>
#endif

namespace {

using namespace headwise;
using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start) {
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

[[gnu::noinline]] std::uint64_t dose(std::uint64_t trips) {
    std::uint64_t x = trips | 1;
    for (std::uint64_t i = 0; i < trips; ++i) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        keep(x);
    }
    return x;
}

/// Trips a nanosecond, by the least of many readings.
double trips_per_ns() {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 300; ++i) {
        const auto start = clock_type::now();
        auto x = dose(100'000);
        keep(x);
        least = std::min(least, seconds_since(start) * 1e9);
    }
    return 100'000 / least;
}

// --- what else the machine does
// ------------------------------------------------------------------------------------------

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

// --- the tools
// -----------------------------------------------------------------------------------------------------------

struct outcome {
    verdict found = verdict::unresolved;
    double low = 0, high = std::numeric_limits<double>::infinity();  ///< of time b over time a
    double seconds = 0;
};

using call = std::function<std::uint64_t()>;
struct tool {
    const char* name;
    std::function<outcome(const call& a, const call& b, double seconds, double margin)> run;
};

/// Both arms are of one type, so that the harness, too, runs the same instructions for both: an interval 0.03 % wide
/// tells two copies of a loop around a call of 10 us apart, and two closures around one call.
outcome by_headwise(const call& a, const call& b, double seconds, double margin) {
    const auto start = clock_type::now();
    const auto calling = [](const call& f) {
        return [&f] {
            auto x = f();
            keep(x);
        };
    };
    const comparison c =
        compare({.budget = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)), .margin = margin},
                arm{"a", calling(a)}, arm{"b", calling(b)});
    outcome o{c.arms[1].verdict, 0, std::numeric_limits<double>::infinity(), seconds_since(start)};
    if (c.arms[1].speedup) o.low = 1 / c.arms[1].speedup->high, o.high = 1 / c.arms[1].speedup->low;
    return o;
}

#if defined(HEADWISE_HAVE_NANOBENCH)
/// The number of rounds is adapted, in runs that do not count, until it takes the time it is given; its interval
/// decides: above or below 1 is a verdict, inside the margin is "equivalent".
outcome by_nanobench(const call& a, const call& b, double seconds, double margin) {
    const auto calling = [](const call& f) { return [&f] { ankerl::nanobench::doNotOptimizeAway(f()); }; };
    const auto op_a = calling(a), op_b = calling(b);
    static double rounds = 0, for_seconds = 0;
    static const call* for_call = nullptr;
    double took = 0;
    const auto measure = [&] {
        const auto start = clock_type::now();
        auto found = ankerl::nanobench::Bench()
                         .output(nullptr)
                         .epochs(static_cast<std::size_t>(rounds))
                         .compare("a", op_a, "b", op_b);
        took = seconds_since(start);
        rounds = std::clamp(rounds * std::clamp(seconds / took, 0.5, 2.0), 8.0, 100'000.0);
        return found;
    };
    if (for_call != &a || for_seconds < seconds || for_seconds > seconds) {  // another cell
        rounds = 50 * seconds;
        for_call = &a, for_seconds = seconds;
        for (int i = 0; i < 8 && (took < 0.9 * seconds || took > 1.1 * seconds); ++i) measure();
    }
    const auto found = measure();
    const auto& entry = found[1];
    outcome o{verdict::unresolved, 1 / entry.relativeHigh, 1 / entry.relativeLow, took};
    if (margin > 0 && o.low > 1 / (1 + margin) && o.high < 1 + margin) o.found = verdict::equivalent;
    else if (o.low > 1) o.found = verdict::slower;
    else if (o.high < 1) o.found = verdict::faster;
    return o;
}
#endif

std::vector<tool> tools() {
    std::vector<tool> all{{"headwise", by_headwise}};
#if defined(HEADWISE_HAVE_NANOBENCH)
    all.push_back({"nanobench", by_nanobench});
#endif
    return all;
}

// --- the cells
// -----------------------------------------------------------------------------------------------------------

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

struct tally {
    std::int64_t trials = 0, faster = 0, slower = 0, equivalent = 0, covered = 0;
    double seconds = 0;
    std::vector<double> widths{};

    void add(const outcome& o, double truth) {
        ++trials;
        faster += o.found == verdict::faster;
        slower += o.found == verdict::slower;
        equivalent += o.found == verdict::equivalent;
        covered += o.low <= truth && truth <= o.high;
        seconds += o.seconds;
        widths.push_back(o.high - o.low);
    }
};

std::string rate(std::int64_t k, std::int64_t n) {
    const interval p = statistics::proportion(k, n);
    char text[64];
    std::snprintf(text, sizeof text, "%5.1f (%4.1f-%5.1f)", 100 * p.estimate, 100 * p.low, 100 * p.high);
    return text;
}

void print_row(const char* where, double call_us, double effect, double seconds, double margin, const char* name,
               const tally& t, const char* target) {
    std::printf("%-7s %6.0f %6.2f %6.2f %6.1f  %-9s %5lld %s %s %s %s %8.3f %7.3f  %s\n", where, call_us, 100 * effect,
                seconds, 100 * margin, name, static_cast<long long>(t.trials), rate(t.faster, t.trials).c_str(),
                rate(t.slower, t.trials).c_str(), rate(t.equivalent, t.trials).c_str(),
                rate(t.covered, t.trials).c_str(), 100 * statistics::median(t.widths),
                t.trials ? t.seconds / static_cast<double>(t.trials) : 0, target);
    std::fflush(stdout);
}

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
// ---------------------------------------------------------------------

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
// -------------------------------------------------------------------------------------------------------------

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

settings parse(int argc, char** argv) {
    settings s;
    bool good = argc % 2 == 1;  // each option has a value
    for (int i = 1; good && i < argc; i += 2) {
        const std::string option = argv[i];
        char* end = nullptr;
        const double number = std::strtod(argv[i + 1], &end);
        const bool positive = number > 0 && number < 1e9 && *end == '\0';
        if (option == "--cells") s.chosen = argv[i + 1];
        else if (option == "--trials" && positive) s.trials = std::llround(number);
        else if (option == "--minutes" && positive) s.minutes = number;
        else good = false;
    }
    if (good) return s;
    std::fprintf(stderr, "usage: calibrate [--trials N] [--minutes M] [--cells idle,other,bursts,both,copies,empty]\n");
    std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
    const settings s = parse(argc, argv);
    const auto start = clock_type::now();
    const double scale = trips_per_ns();
    std::printf("%-7s %6s %6s %6s %6s  %-9s %5s %-18s %-18s %-18s %-18s %8s %7s\n", "machine", "us", "effect", "s",
                "margin", "tool", "n", "faster %", "slower %", "equivalent %", "covered %", "width %", "took s");
    if (s.wants("empty")) run_empty(s, scale);
    if (s.wants("copies")) run_copies(s, s.minutes / 10, scale, std::make_integer_sequence<int, 8>{});
    run_cells(s, start, scale);
}
