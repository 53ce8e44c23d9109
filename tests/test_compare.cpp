// The gate and the public face: what is checked, what is refused, what is said; on a clock that the test owns.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_machine.hpp"

using namespace headwise;
using namespace std::chrono_literals;

namespace {

template <class... Arms>
comparison on(simulated_machine& machine, const compare_options& options, Arms... arms) {
    return detail::compare_on(machine, options, detail::default_agreement{options.closeness}, arms...);
}

const compare_options brief{.budget = 50ms, .seed = 1};
using numbers = std::vector<double>;

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

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

TEST_CASE("a wrong arm has no speed-up, whatever its speed, and its times stay readable") {
    simulated_machine m;
    const comparison c = on(m, brief,
                            arm{"right",
                                [&] {
                                    m.work(20'000);
                                    return numbers{1, 2, 3};
                                }},
                            arm{"wrong",
                                [&] {
                                    m.work(10);
                                    return numbers{1, 2.5, 3};
                                }},
                            arm{"shorter",
                                [&] {
                                    m.work(10'000);
                                    return numbers{1, 2};
                                }},
                            arm{"fine", [&] {
                                    m.work(10'000);
                                    return numbers{1, 2, 3};
                                }});
    CHECK(c["wrong"].verdict == verdict::mismatch);
    CHECK_FALSE(c["wrong"].speedup);
    CHECK_FALSE(c["wrong"].verified);
    CHECK(c["wrong"].time.median > 0);
    CHECK(c["wrong"].reason == "1 of 3 elements differs, the first at (1): 2.5 instead of 2");
    CHECK(c["shorter"].verdict == verdict::mismatch);
    CHECK(says(c["shorter"].reason, "shape"));
    CHECK(c["fine"].verdict == verdict::faster);
}

TEST_CASE("an arm that is right only at first is caught") {
    for (const int right_for : {1, 2, 100}) {
        simulated_machine m;
        int calls = 0;
        const comparison c = on(m, brief,
                                arm{"loop",
                                    [&] {
                                        m.work(10'000);
                                        return 42.0;
                                    }},
                                arm{"stale", [&] {
                                        m.work(5'000);
                                        return ++calls <= right_for ? 42.0 : 41.0;
                                    }});
        CHECK(c["stale"].verdict == verdict::mismatch);
        CHECK_FALSE(c["stale"].speedup);
        CHECK(says(c["stale"].reason, "in calls after the first"));
    }
}

TEST_CASE("an arm that returns another arm's memory, or does not write its own, is caught") {
    simulated_machine m;
    numbers ours(8), theirs(8), untouched(8, 7.0);
    const auto fill = [&](numbers& out) -> numbers& {
        m.work(10'000);
        out.assign(8, 7.0);
        return out;
    };
    const comparison c =
        on(m, brief, arm{"loop", [&]() -> numbers& { return fill(ours); }},
           arm{"copier",
               [&] {
                   m.work(100);
                   return ours;
               }},
           arm{"thief",
               [&]() -> numbers& {
                   m.work(100);
                   return ours;
               }},
           arm{"idle",
               [&]() -> numbers& {
                   m.work(100);
                   return untouched;
               }},
           arm{"half",
               [&]() -> numbers& {
                   m.work(100);
                   theirs.resize(8);
                   std::fill_n(theirs.begin(), 4, 7.0);
                   return theirs;
               }},
           arm{"sharer", [&]() -> numbers& { return fill(ours); }}, arm{"span", [&] { return std::span(fill(ours)); }});
    CHECK(c["copier"].verdict == verdict::mismatch);
    CHECK(c["thief"].verdict == verdict::mismatch);
    CHECK(says(c["thief"].reason, "8 of its 8 outputs were not written"));
    CHECK(c["idle"].verdict == verdict::mismatch);
    CHECK(says(c["idle"].reason, "were not written"));
    CHECK(c["half"].verdict == verdict::mismatch);
    CHECK(c["sharer"].verified);  // it wrote the shared output itself
    CHECK(c["span"].verified);
    CHECK(c["loop"].verified);
}

TEST_CASE("an arm that changes its input is caught, and named") {
    simulated_machine m;
    numbers x{1, 2, 3}, clean{1, 2, 3};
    const auto sum = [&] {
        m.work(10'000);
        return x[0] + x[1] + x[2];
    };
    const comparison c = on(m, {.budget = 50ms, .inputs = {clean, x}, .seed = 1}, arm{"loop", sum},
                            arm{"zeroes",
                                [&] {
                                    const double s = sum();
                                    x.assign(3, 0.0);
                                    return s;
                                }},
                            arm{"later", sum});
    CHECK(c["zeroes"].verdict == verdict::mismatch);
    CHECK(says(c["zeroes"].reason, "changed input 1"));
    CHECK_FALSE(c["zeroes"].verified);
    REQUIRE_FALSE(c.notes.empty());
    CHECK(says(c.notes.front(), "zeroes changed input 1"));

    x = {1, 2, 3};
    const comparison fine = on(m, {.budget = 50ms, .inputs = {x}, .seed = 1}, arm{"loop", sum}, arm{"again", sum});
    CHECK(fine["again"].verified);

    const comparison by_baseline = on(m, {.budget = 50ms, .inputs = {x}, .seed = 1},
                                      arm{"loop",
                                          [&] {
                                              m.work(10'000);
                                              x[0] += 1;
                                              return 1;
                                          }},
                                      arm{"other", [&] {
                                              m.work(10'000);
                                              return 1;
                                          }});
    CHECK(by_baseline["other"].verdict == verdict::mismatch);
}

TEST_CASE("an output that is the input is left alone") {
    simulated_machine m;
    numbers x{3, 1, 2};
    const auto identity = [&]() -> numbers& {
        m.work(10'000);
        return x;
    };
    const comparison c = on(m, {.budget = 50ms, .inputs = {x}, .seed = 1}, arm{"a", identity}, arm{"b", identity});
    CHECK(c["b"].verified);
    CHECK(x == numbers{3, 1, 2});
}

TEST_CASE("an answer of zeros is not an agreement") {
    simulated_machine m;
    const comparison c = on(m, brief,
                            arm{"softmax",
                                [&] {
                                    m.work(10'000);
                                    return numbers{0.25, 0.75, 0};
                                }},
                            arm{"zeros", [&] {
                                    m.work(100);
                                    return numbers(3, 0.0);
                                }});
    CHECK(c["zeros"].verdict == verdict::mismatch);
    CHECK(c["zeros"].reason == "its output is all zeros");

    const comparison both = on(m, brief,
                               arm{"a",
                                   [&] {
                                       m.work(10'000);
                                       return numbers(3, 0.0);
                                   }},
                               arm{"b", [&] {
                                       m.work(100);
                                       return numbers(3, 0.0);
                                   }});
    CHECK(both["b"].verdict == verdict::faster);
    CHECK_FALSE(both["b"].verified);
    CHECK_FALSE(both["a"].verified);
    CHECK(says(both.notes.front(), "all outputs are zero"));

    numbers mostly(100, 0.0);
    mostly[0] = 1;
    const comparison few = on(m, brief,
                              arm{"a",
                                  [&] {
                                      m.work(10'000);
                                      return mostly;
                                  }},
                              arm{"b", [&] {
                                      m.work(100);
                                      return mostly;
                                  }});
    CHECK(says(few.notes.front(), "99 % of the outputs are zero"));
    CHECK(few["b"].verified);
}

TEST_CASE("an arm that returns nothing is timed, not verified") {
    simulated_machine m;
    const comparison c = on(m, brief, arm{"a", [&] { m.work(10'000); }}, arm{"b", [&] {
                                                                                 m.work(5'000);
                                                                                 return 1;
                                                                             }});
    CHECK(c["b"].verdict == verdict::faster);
    CHECK_FALSE(c["b"].verified);
    CHECK_FALSE(c["a"].verified);
    CHECK(says(sentence(c, 1), "outputs not checked"));

    const comparison half = on(m, brief,
                               arm{"a",
                                   [&] {
                                       m.work(10'000);
                                       return 1;
                                   }},
                               arm{"b", [&] { m.work(5'000); }});
    CHECK_FALSE(half["b"].verified);
    CHECK(half["b"].verdict == verdict::faster);
}

TEST_CASE("a baseline that does not repeat itself verifies nobody") {
    simulated_machine m;
    double x = 0;
    const comparison c = on(m, brief,
                            arm{"a",
                                [&] {
                                    m.work(10'000);
                                    return x += 1;
                                }},
                            arm{"b", [&] {
                                    m.work(5'000);
                                    return 1.0;
                                }});
    CHECK(c["b"].verdict == verdict::mismatch);
    CHECK(says(c["b"].reason, "the output of a itself changed"));
    CHECK_FALSE(c["a"].verified);
}

namespace {

struct point {
    int x, y;
    friend bool operator==(const point&, const point&) = default;
};
struct opaque {
    int value;
};
struct reason {
    bool fine;
    explicit operator bool() const { return fine; }
    friend std::ostream& operator<<(std::ostream& out, const reason& r) {
        return out << (r.fine ? "fine" : "the parities differ\nat length");
    }
};
struct immovable {
    explicit immovable(int v) : value(std::make_unique<int>(v)) {}
    immovable(const immovable& other) : value(std::make_unique<int>(*other.value)) {}
    immovable& operator=(const immovable&) = delete;
    std::unique_ptr<int> value;
    friend bool operator==(const immovable& a, const immovable& b) { return *a.value == *b.value; }
};

}  // namespace

TEST_CASE("anything with == can be compared, anything else with an agreement of the caller's") {
    simulated_machine m;
    CHECK(on(m, brief,
             arm{"a",
                 [&] {
                     m.work(10'000);
                     return point{1, 2};
                 }},
             arm{"b",
                 [&] {
                     m.work(10'000);
                     return point{1, 2};
                 }})["b"]
              .verified);
    CHECK(on(m, brief,
             arm{"a",
                 [&] {
                     m.work(10'000);
                     return point{1, 2};
                 }},
             arm{"b",
                 [&] {
                     m.work(10'000);
                     return point{1, 3};
                 }})["b"]
              .verdict == verdict::mismatch);
    CHECK(on(m, brief,
             arm{"a",
                 [&] {
                     m.work(10'000);
                     return std::string("x");
                 }},
             arm{"b",
                 [&] {
                     m.work(10'000);
                     return std::string("x");
                 }})["b"]
              .verified);
    CHECK(on(m, brief,
             arm{"a",
                 [&] {
                     m.work(10'000);
                     return immovable(1);
                 }},
             arm{"b",
                 [&] {
                     m.work(10'000);
                     return immovable(1);
                 }})["b"]
              .verified);

    arm odd{"odd", [&] {
                m.work(10'000);
                return opaque{3};
            }};
    arm also{"also odd", [&] {
                 m.work(10'000);
                 return opaque{5};
             }};
    arm even{"even", [&] {
                 m.work(10'000);
                 return opaque{4};
             }};
    const auto parity = [](const opaque& x, const opaque& y) { return reason{x.value % 2 == y.value % 2}; };
    const comparison c = detail::compare_on(m, brief, parity, odd, also, even);
    CHECK(c["also odd"].verified);
    CHECK(c["even"].verdict == verdict::mismatch);
    CHECK(c["even"].reason == "the parities differ");
}

TEST_CASE("how close is close enough is the caller's to say") {
    simulated_machine m;
    const auto a = [&] {
        m.work(10'000);
        return 1.0f;
    };
    const auto b = [&] {
        m.work(10'000);
        return 1.001f;
    };
    CHECK(on(m, brief, arm{"a", a}, arm{"b", b})["b"].verdict == verdict::mismatch);
    CHECK(on(m, {.budget = 50ms, .closeness = tolerance::within({.rtol = 0.01}), .seed = 1}, arm{"a", a},
             arm{"b", b})["b"]
              .verified);
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
    CHECK(require_not_slower(c, "loop", 0));
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
