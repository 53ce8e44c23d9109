// The scheduler, on a machine whose clock the test owns: calibration, order, budget, looks, what is spoiled and
// rescued.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <headwise/harness/sampling.hpp>

#include "simulated_machine.hpp"

using namespace headwise;
using detail::sampling_plan;
using doctest::Approx;

namespace {

constexpr double ms = 1e6;

// A runner of calls that cost `ns` each, which notes who ran.
detail::runner<simulated_machine> working(simulated_machine&, double ns, std::string& order, char name) {
    return [ns, &order, name](simulated_machine& m, std::size_t calls, bool lead_in) {
        order += name;
        if (lead_in) m.work(ns);
        detail::epoch e;
        e.before = m.switches_so_far();
        const std::int64_t core = m.on_core(), start = m.now();
        for (std::size_t i = 0; i < calls; ++i) m.work(ns);
        e.wall = m.now() - start;
        e.on_core = core < 0 ? -1 : m.on_core() - core;
        e.after = m.switches_so_far();
        return e;
    };
}

struct bench {
    simulated_machine machine;
    std::string order;
    sampling_plan plan;
    double first_call_factor = 1;

    explicit bench(double budget_ms, const machine_noise& noise = {}, std::uint64_t seed = 5) : machine(noise, seed) {
        plan.start = machine.now();
        plan.budget = static_cast<std::int64_t>(budget_ms * ms);
        plan.seed = seed;
    }
    template <class Enough>
    detail::trace run(const std::vector<double>& costs, Enough&& enough) {
        std::vector<detail::runner<simulated_machine>> runners;
        char name = 'A';
        for (const double ns : costs) runners.push_back(working(machine, ns, order, name++));
        runners.push_back(working(machine, 0.5, order, '.'));
        std::vector<double> first_call;
        for (const double ns : costs) first_call.push_back(first_call_factor * ns);
        detail::sampler<simulated_machine> sampler(machine, plan, std::move(runners), first_call);
        order.clear();
        return sampler.run(enough);
    }
    detail::trace run(const std::vector<double>& costs) {
        return run(costs, [](const detail::trace&) { return false; });
    }
    double spent_ms() { return static_cast<double>(machine.now() - plan.start) / ms; }
};

}  // namespace

TEST_CASE("one number of calls for all arms fills the fastest one's epoch, within four of the slowest") {
    CHECK(bench(200).run({10'000, 10'000}).calls == 10);
    CHECK(bench(200).run({1'000, 1'500}).calls == Approx(100).epsilon(0.02));
    CHECK(bench(200).run({10'000, 70'000}).calls == 5);  // 4 * 100 us / 70 us
    CHECK(bench(200).run({10'000, 2'000'000}).calls == 1);
    CHECK(bench(20).run({30}).calls == Approx(3'300).epsilon(0.05));
}

TEST_CASE("calibration believes no single reading: a preempted one does not end it early") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        bench b(5, {.sharing = true}, seed);
        b.first_call_factor = 50;  // a cold first call says little
        CHECK(b.run({100, 100}).calls == Approx(1000).epsilon(0.1));
    }
}

TEST_CASE("a number of calls that was asked for is taken") {
    bench b(100);
    b.plan.calls = 3;
    CHECK(b.run({10'000, 10'000}).calls == 3);
}

TEST_CASE("blocks are ABBA or BAAB, by an even chance") {
    bench b(2000);
    const detail::trace t = b.run({10'000, 10'000});
    CHECK(t.epochs_per_block == 2);
    std::string order = b.order.substr(b.order.find_last_of('.', b.order.find(".....") + 4) + 1);
    std::map<std::string, int> seen;
    std::size_t at = 0;
    for (std::size_t block = 0; block < t.blocks; ++block) {
        const std::size_t length = block % 8 == 4 ? 8 : 4;  // with the control and the empty arm, mirrored too
        const std::string one = order.substr(at, length);
        CHECK(one == std::string(one.rbegin(), one.rend()));
        if (length == 4) ++seen[one];
        at += length;
    }
    CHECK(at == order.size());
    CHECK(seen.size() == 2);
    const double n = seen["ABBA"] + seen["BAAB"];
    CHECK(n > 1000);
    CHECK(std::abs(seen["ABBA"] - n / 2) < 4 * std::sqrt(n / 4));
}

TEST_CASE("with three arms every order is as frequent as any other") {
    bench b(4000);
    const detail::trace t = b.run({30'000, 30'000, 30'000});
    const std::string order = b.order.substr(b.order.find(".....") + 5);
    std::map<std::string, int> seen;
    std::size_t at = 0;
    for (std::size_t block = 0; block < t.blocks; ++block) {
        if (block % 8 != 4) ++seen[order.substr(at, 3)];
        at += block % 8 == 4 ? 10u : 6u;
    }
    CHECK(seen.size() == 6);
    double n = 0;
    for (const auto& [text, count] : seen) n += count;
    for (const auto& [text, count] : seen) CHECK(std::abs(count - n / 6) < 4.5 * std::sqrt(n * 5 / 36));
}

TEST_CASE("the budget is kept, whatever a call takes") {
    for (const double call : {200.0, 10'000.0, 2e6, 20e6, 60e6, 500e6}) {
        bench b(200);
        const detail::trace t = b.run({call, call});
        CHECK_MESSAGE(b.spent_ms() <= 200.1, "call of ", call, " ns");
        CHECK_MESSAGE((t.blocks > 0) == (call < 100e6), "call of ", call, " ns");
        CHECK(t.look == detail::looks.size() - 1);
        CHECK(t.arms[0].ns.size() == t.blocks * t.epochs_per_block);
        CHECK(t.arms[1].ns.size() == t.blocks * t.epochs_per_block);
    }
}

TEST_CASE(
    "few long calls are compared in pairs: six of them suffice for an interval, six ABBA blocks take twice the time") {
    CHECK(bench(200).run({10e6, 10e6}).epochs_per_block == 1);
    CHECK(bench(200).run({1e6, 1e6}).epochs_per_block == 2);
}

TEST_CASE("the data is looked at when planned, each look once, and measuring stops when told") {
    bench b(1000);
    std::vector<std::size_t> looked;
    std::vector<double> at;
    b.run({10'000, 10'000}, [&](const detail::trace& t) {
        looked.push_back(t.look);
        at.push_back(b.spent_ms() / 1000);
        return false;
    });
    CHECK(looked == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});  // the last look is the end
    for (std::size_t i = 0; i < at.size(); ++i) CHECK(at[i] == Approx(detail::looks[i].at).epsilon(0.1));

    bench early(1000);
    const detail::trace t = early.run({10'000, 10'000}, [](const detail::trace& so_far) { return so_far.look == 2; });
    CHECK(t.look == 2);
    CHECK(early.spent_ms() == Approx(1000.0 / 16).epsilon(0.1));
}

TEST_CASE("the looks spend the whole error, no more") {
    double sum = 0, last = 0;
    for (const detail::look& l : detail::looks) {
        sum += l.error;
        CHECK(l.at > last);
        last = l.at;
    }
    CHECK(sum == Approx(1));
    CHECK(last == 1);
}

TEST_CASE("exactly the rounds asked for, whatever they take") {
    bench b(1);  // a budget of 1 ms
    b.plan.blocks = 12;
    const detail::trace t = b.run({1e6, 1e6});
    CHECK(t.blocks == 12);
    CHECK(t.arms[0].ns.size() == 12);
    CHECK(t.arms[1].ns.size() == 12);
}

TEST_CASE("time lost to another process is taken off where the system tells, and marked where it does not know") {
    bench told(400, {.sharing = true});
    const detail::trace t = told.run({100'000, 100'000});
    CHECK(t.rescued > 10);
    double longest = 0;
    for (const detail::arm_trace& arm : t.arms) {
        for (std::size_t i = 0; i < arm.ns.size(); ++i) {
            CHECK_FALSE(arm.spoiled[i]);
            longest = std::max(longest, arm.ns[i]);
        }
    }
    CHECK(longest < 101'000);  // a slice of the other process is 4 ms

    bench untold(400, {.sharing = true, .tells = false});
    const detail::trace u = untold.run({100'000, 100'000});
    CHECK(u.rescued == 0);
    CHECK(*std::ranges::max_element(u.arms[0].ns) > 4e6);
}

TEST_CASE("an arm that sleeps is not corrected: its waiting is its own") {
    simulated_machine m({.sharing = true}, 3);
    sampling_plan plan{.start = m.now(), .budget = 400'000'000, .seed = 1};
    std::size_t preempted_asleep = 0;
    const detail::runner<simulated_machine> sleeper = [&](simulated_machine& machine, std::size_t calls, bool) {
        detail::epoch e;
        e.before = machine.switches_so_far();
        const std::int64_t core = machine.on_core(), start = machine.now();
        for (std::size_t i = 0; i < calls; ++i) machine.work(50'000), machine.sleep(50'000);
        e.wall = machine.now() - start;
        e.on_core = machine.on_core() - core;
        e.after = machine.switches_so_far();
        preempted_asleep += e.after.preempted != e.before.preempted ? 1u : 0u;
        return e;
    };
    std::string ignored;
    detail::sampler<simulated_machine> sampler(m, plan, {sleeper, sleeper, working(m, 1, ignored, '.')},
                                               {100'000, 100'000});
    const detail::trace t = sampler.run([](const detail::trace&) { return false; });
    CHECK(preempted_asleep > 0);
    std::size_t spoiled = 0;
    for (std::size_t i = 0; i < t.arms[0].ns.size(); ++i) {
        if (t.arms[0].spoiled[i]) ++spoiled;
        CHECK(t.arms[0].ns[i] > 99'000);  // never 50 us, the time on the core
    }
    CHECK(spoiled > 0);
}

TEST_CASE("a coarse clock gets longer epochs") {
    CHECK(bench(1000, {.resolution = 1000}).run({10'000, 10'000}).calls == Approx(100).epsilon(0.05));
    CHECK(bench(1000, {.resolution = 1000}).run({10'000, 10'000}).tick_ns == 1000);
}

TEST_CASE("an arm that throws leaves the sampler as it came") {
    bench b(100);
    int calls = 0;
    const detail::runner<simulated_machine> thrower = [&](simulated_machine& m, std::size_t n, bool) -> detail::epoch {
        if (++calls == 20) throw std::runtime_error("twentieth");
        m.work(1e4 * static_cast<double>(n));
        return {
            .wall = static_cast<std::int64_t>(1e4 * static_cast<double>(n)), .on_core = -1, .before = {}, .after = {}};
    };
    std::string ignored;
    detail::sampler<simulated_machine> sampler(b.machine, b.plan, {thrower, working(b.machine, 1, ignored, '.')},
                                               {1e4});
    CHECK_THROWS_WITH(sampler.run([](const detail::trace&) { return false; }), "twentieth");
}
