// What arms may return: which types are numbers, which are compared by ==, and how a difference reads.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_comparison.hpp"

using namespace headwise;

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
