// What arms may return: which types are numbers, which are compared by ==, and how a difference reads.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_comparison.hpp"

using namespace headwise;
using namespace std::chrono_literals;

namespace {

/// Upper half of a float, and no more than is asked of such a class: an explicit conversion to float.
struct half_float {
    std::uint16_t bits = 0;
    half_float() = default;
    explicit half_float(float x) : bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)) {}
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
struct dual {
    double value, derivative;
    explicit operator float() const { return static_cast<float>(value); }
    explicit operator double() const { return value; }
};
struct id {
    std::uint64_t value;
    operator std::uint64_t() const { return value; }
    bool operator==(const id& other) const { return value == other.value; }
};

/// A comparison of two arms that return these values.
template <class A, class B>
comparison of(const A& a, const B& b, const compare_options& options = brief) {
    simulated_machine m;
    return on(m, options,
              arm{"a",
                  [&] {
                      m.work(10'000);
                      return a;
                  }},
              arm{"b", [&] {
                      m.work(10'000);
                      return b;
                  }});
}

}  // namespace

template <>
struct std::numeric_limits<half_float> : std::numeric_limits<float> {
    static constexpr int digits = 8;
    static half_float epsilon() { return half_float(0x1p-7f); }
};

TEST_CASE("of the classes that convert to float, those of two bytes are numbers") {
    static_assert(element<half_float> && !element<dual> && !element<id>);
    static_assert(!comparable_array<std::vector<dual>>);  // .inputs would hash the first half of each
    const std::vector<half_float> x{half_float(1), half_float(2)}, y{half_float(1), half_float(3)};
    CHECK(of(x, x)["b"].verified);
    CHECK(of(x, y)["b"].verdict == verdict::mismatch);
    CHECK(close_report(x, y).text().find("1 of 2 values differ") == 0);

    const std::uint64_t beyond_float = 1u << 30;
    CHECK(of(id{beyond_float}, id{beyond_float})["b"].verified);
    CHECK(of(id{beyond_float}, id{beyond_float + 1})["b"].verdict == verdict::mismatch);
    const double one = 1, two = 2;
    CHECK(of(std::ref(one), std::ref(one))["b"].verified);
    CHECK(of(std::ref(one), std::ref(two))["b"].verdict == verdict::mismatch);
}

#if defined(__SIZEOF_INT128__)
TEST_CASE("integers wider than 64 bits are compared whole, by ==") {
    __extension__ using wide = __int128;
    const wide one = 1, far = one + (one << 64);
    static_assert(!element<wide>);  // with GNU extensions it is arithmetic
    CHECK(of(one, one)["b"].verified);
    CHECK(of(one, far)["b"].verdict == verdict::mismatch);
}
#endif

TEST_CASE("a reason shows two values in as many digits as tell them apart, and integers in full") {
    const auto reason = [](auto actual, auto expected) { return of(expected, actual)["b"].reason; };
    compare_options exact = brief;
    exact.closeness = tolerance::bitwise();
    const auto exactly = [&](auto actual, auto expected) { return of(expected, actual, exact)["b"].reason; };
    CHECK(says(exactly(0.1 + 1e-12, 0.1 - 2e-8), ": 0.1 instead of 0.09999998"));
    CHECK(says(exactly(0.1f, std::nextafter(0.1f, 1.0f)), ": 0.1 instead of 0.10000001"));
    CHECK(says(exactly(0.1, std::nextafter(0.1, 1.0)), ": 0.10000000000000001 instead of 0.10000000000000002"));
    CHECK(says(exactly(0.0, -0.0), ": 0 instead of -0"));
    const std::int64_t large = (std::int64_t{1} << 53) + 1;
    CHECK(says(reason(-large, large), ": -9007199254740993 instead of 9007199254740993"));
    CHECK(says(exactly(large, large - 1), ": 9007199254740993 instead of 9007199254740992"));
    CHECK(says(exactly(~std::uint64_t{0}, std::uint64_t{1}), ": 18446744073709551615 instead of 1"));
    CHECK(says(exactly(std::numeric_limits<std::int64_t>::min(), std::int64_t{1}), ": -9223372036854775808 instead"));
    CHECK(says(reason(1234567, 2), ": 1234567 instead of 2"));
    CHECK(says(reason(1.5, 2), ": 1.5 instead of 2"));
    CHECK(says(close_report(std::array{large}, std::array{large - 1}, tolerance::bitwise()).text(),
               "actual 9007199254740993, expected 9007199254740992\n"));
}

TEST_CASE("NaN that both arms return is named, and what lets it agree") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const numbers x{1, 2, std::copysign(nan, -1.0), nan}, y{1, 2, 3, nan};
    const comparison c = of(x, x);
    CHECK(c["b"].reason ==
          "2 of 4 elements differ, the first at (2): nan instead of nan; 2 are NaN in both outputs, which agree where "
          "the tolerance says .equal_nan = true");
    CHECK(c.notes.at(0) == "2 outputs of a are NaN");
    CHECK(says(of(x, y)["b"].reason, "the first at (2): 3 instead of nan; 1 is NaN in both outputs, which agree"));
    CHECK(of(nan, 1.0).notes.at(0) == "1 output of a is NaN");
    CHECK_FALSE(says(of(numbers{1, nan}, numbers{1, 2})["b"].reason, "equal_nan"));
    compare_options as_torch = brief;
    as_torch.closeness = tolerance::within({.equal_nan = true});
    CHECK(of(x, x, as_torch)["b"].verified);
}

TEST_CASE("long double must be equal, and the reason says why no tolerance was asked") {
    const long double third = 1.0L / 3;
    const double rounded = static_cast<double>(third);
    CHECK(of(third, third)["b"].verified);
    const char* const expected = "its result is not equal; numbers wider than double, as long double, must be";
    CHECK(says(of(2 * third, third)["b"].reason, expected));
    if (static_cast<long double>(rounded) != third) CHECK(says(of(third, rounded)["b"].reason, expected));
    const std::vector<long double> x{third}, y{2 * third};
    CHECK(of(x, x)["b"].verified);
    CHECK(says(of(x, y)["b"].reason, expected));
    CHECK(of(id{1}, id{2})["b"].reason == "its result is not equal");
}

TEST_CASE("an arm that leaves a number unwritten is caught; one that shows arm 0's output, constant, is not checked") {
    simulated_machine m;
    double total = 0;
    const auto add = [&]() -> double& {
        m.work(10'000);
        total = 42;
        return total;
    };
    const auto lazy = [&]() -> double& {
        m.work(10);
        return total;
    };
    CHECK(on(m, brief, arm{"a", add}, arm{"b", add})["b"].verified);
    CHECK(on(m, brief, arm{"a", add}, arm{"lazy", lazy})["lazy"].verdict == verdict::mismatch);

    numbers out(8);
    const auto write = [&] {
        m.work(10'000);
        out.assign(8, 7.0);
    };
    const auto shown = [&](const auto& show) {
        const comparison c = on(m, brief,
                                arm{"writes",
                                    [&]() -> decltype(show()) {
                                        write();
                                        return show();
                                    }},
                                arm{"lazy", [&]() -> decltype(show()) {
                                        m.work(10);
                                        return show();
                                    }});
        CHECK_FALSE(c["lazy"].verified);
        CHECK(says(sentence(c, 1), "outputs not checked"));
    };
    shown([&] { return std::span<const double>(out); });
    shown([&]() -> const numbers& { return out; });
    const numbers own(8, 7.0);
    const comparison apart = on(m, brief,
                                arm{"writes",
                                    [&]() -> const numbers& {
                                        write();
                                        return out;
                                    }},
                                arm{"another", [&]() -> const numbers& { return own; }});
    CHECK(apart["another"].verified);
}

TEST_CASE("an input that an arm changes while it is timed: that arm is named, and no other") {
    for (const bool silent : {false, true}) {
        CAPTURE(silent);
        simulated_machine m;
        numbers x{1, 2, 3};
        int calls = 0;
        const auto sum = [&] {
            m.work(10'000);
            return x[0] + x[1] + x[2];
        };
        const auto change = [&] {
            if (++calls > 1) x[0] += 1e-9;
        };
        const compare_options watched{.budget = 50ms, .inputs = {x}, .seed = 1};
        const comparison c = silent ? on(m, watched, arm{"good", [&] { static_cast<void>(sum()); }},
                                         arm{"bad",
                                             [&] {
                                                 static_cast<void>(sum());
                                                 change();
                                             }},
                                         arm{"third", [&] { static_cast<void>(sum()); }})
                                    : on(m, watched, arm{"good", sum},
                                         arm{"bad",
                                             [&] {
                                                 change();
                                                 return sum();
                                             }},
                                         arm{"third", sum});
        CHECK(c["bad"].verdict == verdict::mismatch);
        CHECK(c["bad"].reason == "it changed input 0");
        CHECK_FALSE(says(c["third"].reason, "good"));
        CHECK(c["good"].verdict == verdict::baseline);
    }
}
