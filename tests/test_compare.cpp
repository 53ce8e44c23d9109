// The public face: what is measured, what is refused, what is said; on a clock that the test owns.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_comparison.hpp"

using namespace headwise;
using namespace std::chrono_literals;

TEST_CASE("two arms that agree: one is faster, both are verified") {
    simulated_machine m;
    const numbers answer{1, 2, 3};
    const comparison c = on(m, brief,
                            arm{"loop",
                                [&] {
                                    m.work(20'000);
                                    return answer;
                                }},
                            arm{"fused", [&] {
                                    m.work(10'000);
                                    return numbers{1, 2, 3 + 1e-9};
                                }});
    CHECK(c.arms[0].verdict == verdict::baseline);
    CHECK(c.arms[1].verdict == verdict::faster);
    CHECK(c.arms[0].verified);
    CHECK(c.arms[1].verified);
    REQUIRE(c.arms[1].speedup);
    CHECK(c.arms[1].speedup->estimate == doctest::Approx(2).epsilon(0.01));
    CHECK(c["fused"].time.median == doctest::Approx(10'000).epsilon(0.01));
    CHECK(c["loop"].samples.size() == c.blocks * c.epochs_per_block);
    CHECK_THROWS_AS(static_cast<void>(c["other"]), std::invalid_argument);
}

TEST_CASE("one arm is measured; none is refused") {
    simulated_machine m;
    const comparison c = on(m, brief, arm{"alone", [&] {
                                              m.work(10'000);
                                              return 1;
                                          }});
    CHECK(c.arms.size() == 1);
    CHECK(c.arms[0].verdict == verdict::baseline);
    CHECK(c.arms[0].time.median == doctest::Approx(10'000).epsilon(0.01));
    CHECK_THROWS_AS(static_cast<void>(compare({})), std::invalid_argument);
}

TEST_CASE("what makes no sense is refused before anything runs") {
    simulated_machine m;
    int calls = 0;
    const auto f = [&] { return ++calls; };
    CHECK_THROWS_WITH_AS(on(m, brief, arm{"same", f}, arm{"other", f}, arm{"same", f}),
                         "compare: arms 0 and 2 are both called 'same'", std::invalid_argument);
    CHECK_THROWS_AS(on(m, brief, arm{"", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.budget = 0ms}, arm{"a", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.confidence = 1}, arm{"a", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.confidence = 0}, arm{"a", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.margin = -0.1}, arm{"a", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.precision = 0}, arm{"a", f}), std::invalid_argument);
    CHECK_THROWS_AS(on(m, {.epoch = -1ns}, arm{"a", f}), std::invalid_argument);
    CHECK(calls == 0);
}

TEST_CASE("an arm that throws is named; what it threw is inside") {
    simulated_machine m;
    for (const int survives : {0, 1, 50}) {
        int calls = 0;
        auto alive = std::make_shared<int>(0);
        const auto thrower = [&, alive] {
            m.work(10'000);
            if (calls++ == survives) throw std::out_of_range("no such key");
            return std::vector<std::shared_ptr<int>>(10, alive);
        };
        try {
            static_cast<void>(on(m, brief,
                                 arm{"steady",
                                     [&] {
                                         m.work(10'000);
                                         return std::vector<std::shared_ptr<int>>(10, alive);
                                     }},
                                 arm{"moody", thrower}));
            FAIL("it did not throw");
        } catch (const std::runtime_error& e) {
            CHECK(std::string(e.what()) == "compare: arm 'moody' threw: no such key");
            CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
        }
        CHECK(alive.use_count() == 2);  // here and in `thrower`: nothing that was returned is left
    }
    CHECK_THROWS_WITH_AS(on(m, brief, arm{"odd", [&]() -> int { throw 7; }}),
                         "compare: arm 'odd' threw something that is not a std::exception", std::runtime_error);
}

TEST_CASE("a budget shorter than one call says so, and returns") {
    simulated_machine m;
    const comparison c = on(m, {.budget = 10ms, .seed = 1},
                            arm{"slow",
                                [&] {
                                    m.work(1e9);
                                    return 1;
                                }},
                            arm{"quick", [&] {
                                    m.work(1e6);
                                    return 1;
                                }});
    CHECK(c.blocks == 0);
    CHECK(c["quick"].verdict == verdict::unresolved);
    CHECK_FALSE(c["quick"].speedup);
    CHECK(c["slow"].time.median == doctest::Approx(1e9).epsilon(0.01));
    REQUIRE_FALSE(c.notes.empty());
    CHECK(says(c.notes.front(), "a budget of 0.010 s is too short: one call of each arm takes 1.001 s"));
    CHECK(c.seconds < 1.2);
}

TEST_CASE("arms that take a second are compared in the time it takes") {
    simulated_machine m({.white = 0.001});
    const comparison c = on(m, {.budget = 20s, .seed = 1},
                            arm{"slow",
                                [&] {
                                    m.work(1e9);
                                    return 1;
                                }},
                            arm{"slower", [&] {
                                    m.work(1.5e9);
                                    return 1;
                                }});
    CHECK(c.calls_per_epoch == 1);
    CHECK(c.seconds <= 20.1);
    CHECK(c.arms[1].verdict == verdict::slower);
}

TEST_CASE("set-up runs before every call and is not timed") {
    simulated_machine m;
    numbers work;
    int setups = 0, sorts = 0;
    const auto fresh = [&] {
        ++setups;
        m.work(1e5);
        work = {3, 1, 2};
    };
    const auto sort = [&]() -> numbers& {
        ++sorts;
        m.work(10'000);
        std::ranges::sort(work);
        return work;
    };
    const comparison c = on(m, brief, arm{"sort", sort, fresh}, arm{"again", sort, fresh});
    CHECK(setups == sorts);
    CHECK(c["sort"].time.median == doctest::Approx(10'000).epsilon(0.01));
    CHECK(c["again"].verified);
    CHECK(c["again"].verdict == verdict::equivalent);
    CHECK(c.seconds < 0.06);
}

TEST_CASE("rounds: exactly so many calls of each") {
    simulated_machine m;
    int calls = 0;
    const comparison c = on(m, {.calls = 1, .rounds = 10, .seed = 1},
                            arm{"a",
                                [&] {
                                    ++calls;
                                    m.work(1e6);
                                    return 1;
                                }},
                            arm{"b", [&] {
                                    m.work(2e6);
                                    return 1;
                                }});
    CHECK(c["a"].samples.size() == 10);
    CHECK(c["b"].samples.size() == 10);
    CHECK(c["a"].time.mean == doctest::Approx(1e6).epsilon(0.01));
    CHECK(c["b"].verdict == verdict::slower);
    CHECK(calls < 20);
}

TEST_CASE("progress is told after every round") {
    simulated_machine m;
    std::vector<std::size_t> done;
    const auto working = [&m] {
        m.work(1'000);
        return 1;
    };
    const comparison c = on(m,
                            {.rounds = 4,
                             .seed = 1,
                             .progress =
                                 [&](std::size_t blocks, std::size_t of) {
                                     CHECK(of == 4);
                                     done.push_back(blocks);
                                 }},
                            arm{"a", working}, arm{"b", working});
    CHECK(done == std::vector<std::size_t>{1, 2, 3, 4});
    CHECK(c.blocks == 4);
}

TEST_CASE("cold: what was in the caches is driven out before every call") {
    simulated_machine m;
    CHECK(on(m, {.budget = 5ms, .cache = cache_state::cold, .seed = 1},
             arm{"a",
                 [&] {
                     m.work(1e6);
                     return 1;
                 }},
             arm{"b",
                 [&] {
                     m.work(1e6);
                     return 1;
                 }})
              .calls_per_epoch == 1);
}

TEST_CASE("both: the hot verdict, and beside it what the arms do from cold caches, in what is left of the budget") {
    simulated_machine m;
    const auto working = [&m](double ns, double result) {
        return [&m, ns, result] {
            m.work(ns);
            return result;
        };
    };
    const comparison c = on(m, {.budget = 60ms, .cache = cache_state::both, .seed = 1}, arm{"a", working(20'000, 1)},
                            arm{"b", working(10'000, 1)}, arm{"wrong", working(10'000, 2)});
    CHECK(c.arms[1].verdict == verdict::faster);
    CHECK(c.calls_per_epoch > 1);
    REQUIRE(c.arms[1].cold);
    CHECK(c.arms[1].cold->verdict == verdict::faster);
    REQUIRE(c.arms[1].cold->speedup);
    CHECK(c.arms[1].cold->speedup->estimate == doctest::Approx(2).epsilon(0.02));
    CHECK(c.arms[0].cold->time.median == doctest::Approx(20'000).epsilon(0.02));
    CHECK(c.arms[1].samples.size() == c.blocks * c.epochs_per_block);  // the hot ones
    CHECK_FALSE(c["wrong"].cold);
    CHECK(says(sentence(c, 1), "; from cold caches 2."));

    // What cannot be told apart takes all of the time: three quarters of it hot, the rest cold.
    const std::int64_t start = m.now();
    const comparison alike = on(m, {.budget = 60ms, .margin = 0, .cache = cache_state::both, .seed = 1},
                                arm{"a", working(20'000, 1)}, arm{"b", working(20'000, 1)});
    CHECK(m.now() - start < 62'000'000);
    const std::size_t hot_calls = alike.arms[0].samples.size() * alike.calls_per_epoch;
    CHECK(hot_calls * 40'000 > 30'000'000);
    CHECK(alike.arms[0].cold->time.count * 40'000 > 8'000'000);

    const comparison hot = on(m, {.budget = 20ms, .seed = 1}, arm{"a", working(20'000, 1)});
    CHECK_FALSE(hot.arms[0].cold);
}

TEST_CASE("the same seed gives the same comparison") {
    const auto once = [](std::uint64_t seed) {
        simulated_machine m({.white = 0.01}, 9);
        const comparison c = on(m, {.budget = 50ms, .seed = seed},
                                arm{"a",
                                    [&] {
                                        m.work(10'000);
                                        return 1;
                                    }},
                                arm{"b", [&] {
                                        m.work(10'000);
                                        return 1;
                                    }});
        CHECK(c.seed == seed);
        return c.arms[1].samples;
    };
    CHECK(once(3) == once(3));
    CHECK(once(3) != once(4));
}

TEST_CASE("require_not_slower throws the sentence for what is shown to be slower, and for what is wrong") {
    simulated_machine m;
    const auto at = [&](double cost) {
        return [&m, cost] {
            m.work(cost);
            return 1;
        };
    };
    const comparison c = on(m, brief, arm{"loop", at(10'000)}, arm{"fused", at(5'000)}, arm{"close", at(10'100)},
                            arm{"slow", at(12'000)}, arm{"wrong", [&] {
                                                             m.work(1);
                                                             return 2;
                                                         }});
    CHECK(require_not_slower(c, "fused", 0));
    CHECK(require_not_slower(c, "close", 0.02));
    CHECK_THROWS_AS(require_not_slower(c, "slow", 0.02), regression);
    CHECK_THROWS_AS(require_not_slower(c, "wrong", 0.02), regression);
    CHECK_THROWS_AS(require_not_slower(c, "absent", 0.02), std::invalid_argument);
    CHECK_THROWS_AS(require_not_slower(c, "fused", -1), std::invalid_argument);
    try {
        require_not_slower(c, "slow", 0.02);
    } catch (const regression& e) {
        CHECK(std::string(e.what()) == sentence(c, 3) + "; at most 2.0 % slower is allowed");
        CHECK(says(e.what(), "slow takes 1.2000x the time of loop"));
    }
    comparison vague = c;
    vague.arms[3].speedup = interval{0.9, 0.7, 1.1};
    CHECK_FALSE(require_not_slower(vague, "slow", 0.02));  // could not tell: no failure, and no false assurance
    // A verdict that was withheld though the interval says something: neither believed nor held against the arm.
    vague.arms[3].verdict = verdict::unresolved;
    for (const interval withheld : {interval{0.95, 0.94, 0.96}, interval{1.1, 1.09, 1.11}}) {
        vague.arms[3].speedup = withheld;
        CHECK_FALSE(require_not_slower(vague, "slow", 0.02));
    }
    vague.arms[3].speedup = interval{1, 0.99, 1.01};
    CHECK(require_not_slower(vague, "slow", 0.02));
    vague.control_failed = true;
    CHECK_FALSE(require_not_slower(vague, "slow", 0.02));
    vague.arms[3].speedup.reset();
    CHECK_THROWS_AS(require_not_slower(vague, "slow", 0.02), regression);  // not measured
    vague.arms[3].indistinguishable_from_empty = true;
    CHECK_FALSE(require_not_slower(vague, "slow", 0.02));
}

TEST_CASE("on this machine, too: it runs, and what it says is consistent") {
    const auto work = [](int n) {
        double x = 1;
        for (int i = 0; i < n; ++i) {
            x = x * 1.0000001 + 1e-9;
            keep(x);
        }
        return n > 0;
    };
    const comparison c =
        compare({.budget = 30ms}, arm{"one", [&] { return work(1000); }}, arm{"two", [&] { return work(1000); }});
    CHECK(c.arms[1].verified);
    CHECK(c.blocks > 0);
    CHECK(c.arms[0].time.minimum > 0);
    if (c.arms[1].speedup) {
        CHECK(c.arms[1].speedup->low <= c.arms[1].speedup->estimate);
        CHECK(c.arms[1].speedup->estimate <= c.arms[1].speedup->high);
    }
}

TEST_CASE("calls too short to be timed one by one, as a setup has them timed, are remarked on") {
    simulated_machine m;
    const auto notes_of = [&](double ns, auto setup) {
        std::string notes;
        for (const std::string& note :
             on(m, brief, arm{"short", [&, ns] { m.work(ns); }, setup}, arm{"long", [&] { m.work(5'000); }}).notes)
            notes += note;
        return notes;
    };
    const auto setup = [] {};
    CHECK(says(notes_of(200, setup), "timed by itself, since an arm has a setup: calls below 1 us, as those of short"));
    CHECK_FALSE(says(notes_of(2'000, setup), "timed by itself"));
    CHECK_FALSE(says(notes_of(200, no_setup{}), "timed by itself"));
}
