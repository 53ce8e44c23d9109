// No speed without agreement: every way in which an arm can be wrong, on a clock that the test owns.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_comparison.hpp"

using namespace headwise;
using namespace std::chrono_literals;

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
    const auto giving = [&m](auto value) {
        return [&m, value] {
            m.work(10'000);
            return value;
        };
    };
    CHECK(on(m, brief, arm{"a", giving(point{1, 2})}, arm{"b", giving(point{1, 2})})["b"].verified);
    CHECK(on(m, brief, arm{"a", giving(point{1, 2})}, arm{"b", giving(point{1, 3})})["b"].verdict == verdict::mismatch);
    CHECK(on(m, brief, arm{"a", giving(std::string("x"))}, arm{"b", giving(std::string("x"))})["b"].verified);
    CHECK(on(m, brief, arm{"a", giving(immovable(1))}, arm{"b", giving(immovable(1))})["b"].verified);

    arm odd{"odd", giving(opaque{3})};
    arm also{"also odd", giving(opaque{5})};
    arm even{"even", giving(opaque{4})};
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

TEST_CASE("which results refer to memory that outlives the call") {
    using detail::refers;
    static_assert(refers<std::vector<float>&> && refers<const std::vector<float>&>);
    static_assert(refers<std::span<float>> && refers<std::span<float, 3>>);
    static_assert(!refers<std::vector<float>> && !refers<std::array<float, 3>> && !refers<std::string> &&
                  !refers<float>);
    static_assert(comparable_array<std::vector<float>> && comparable_array<const float(&)[3]>);
    static_assert(comparable_array<std::span<const double>> && !comparable_array<std::vector<bool>>);
    static_assert(!comparable_array<std::vector<std::string>> && !comparable_array<float>);
}
