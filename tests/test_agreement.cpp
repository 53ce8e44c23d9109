#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <headwise/doctest.hpp>
#include <headwise/harness/agreement.hpp>

#include "test_agreement.hpp"

using agreement_test::dense;
using agreement_test::noise;
using agreement_test::strided;
using namespace headwise;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::string refusal_of(F&& f) {
    try {
        f();
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "";
}

/// Stands in for Eigen::bfloat16: the upper half of a float, rounded to nearest even, convertible both ways.
struct brief {
    std::uint16_t bits = 0;
    brief() = default;
    explicit brief(float x) {
        const auto wide = std::bit_cast<std::uint32_t>(x);
        bits = static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
    }
    operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace

template <>
struct std::numeric_limits<brief> : std::numeric_limits<float> {
    static constexpr int digits = 8;
    static brief epsilon() { return brief(0x1p-7f); }
};

TEST_CASE("isclose: relative to b, and inclusive") {
    CHECK(isclose(1.0, 3.0, {.rtol = 0.5, .atol = 0.5}));
    CHECK_FALSE(isclose(3.0, 1.0, {.rtol = 0.5, .atol = 0.5}));
    CHECK(isclose(1.0f, 1.0f, {.rtol = 0, .atol = 0}));
    CHECK(isclose(infinity, infinity));
    CHECK_FALSE(isclose(infinity, -infinity, {.rtol = 1, .atol = infinity}));
    CHECK_FALSE(isclose(NaN, NaN));
    CHECK(isclose(NaN, NaN, {.equal_nan = true}));
    CHECK_FALSE(isclose(NaN, 1.0, {.equal_nan = true}));
}

TEST_CASE("isclose: integers do not wrap around") {
    constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
    CHECK_FALSE(isclose(most, least, {.rtol = 0, .atol = 1}));
    CHECK_FALSE(isclose(most, most - 1, {.rtol = 0, .atol = 0}));  // the same double
    CHECK_FALSE(isclose(std::uint8_t{3}, std::uint8_t{5}, {.rtol = 0, .atol = 1}));
    CHECK(isclose(std::uint8_t{3}, std::uint8_t{5}, {.rtol = 0, .atol = 2}));
    CHECK_FALSE(isclose(-1, std::numeric_limits<unsigned>::max(), {.rtol = 0, .atol = 0}));
    CHECK(isclose(true, true));
    CHECK_FALSE(isclose(true, false));
}

TEST_CASE("isclose: a narrow type rounds each step to itself") {
    // 1.0078125 is the neighbour of 1 in bfloat16; rtol * 1.0078125 = 0.0078735… rounds to 0.00787353515625 there.
    CHECK(isclose(brief(1.0f), brief(1.0078125f), {.rtol = 0.0078125, .atol = 0}));
    CHECK_FALSE(isclose(brief(1.0f), brief(1.0078125f), {.rtol = 0.0077, .atol = 0}));
    // |a - b| = 257 becomes 256 in bfloat16 (ties to even), so it is within 256.
    CHECK(isclose(brief(256.0f), brief(-1.0f), {.rtol = 0, .atol = 256}));
    CHECK_FALSE(isclose(256.0f, -1.0f, {.rtol = 0, .atol = 256}));
}

TEST_CASE("isclose into a mask") {
    const std::vector<float> a{1, 2, 3, static_cast<float>(NaN)}, b{1, 2.5f, 3, static_cast<float>(NaN)};
    std::array<bool, 4> mask{};
    isclose(a, b, mask, {.equal_nan = true});
    CHECK(mask == std::array{true, false, true, true});
    const std::vector<float> many(100, 1.0f);
    std::array<bool, 100> all{};
    isclose(many, many, all);
    CHECK(std::all_of(all.begin(), all.end(), [](bool close) { return close; }));
    std::array<bool, 3> short_mask{};
    CHECK(refusal_of([&] { isclose(a, b, short_mask); }).find("(3)") != std::string::npos);
}

TEST_CASE("allclose finds one wrong element wherever it is") {
    for (const std::ptrdiff_t n : {1, 3, 4, 5, 31, 32, 33, 511, 512, 513, 1100}) {
        const auto b = noise<float>(n, 1);
        REQUIRE(allclose(b, b, {.rtol = 0, .atol = 0}));
        for (std::size_t i = 0; i < b.size(); ++i) {
            auto a = b;
            a[i] += 0.25f;
            CHECK_FALSE(allclose(a, b));
            CHECK(allclose(a, b, {.rtol = 0, .atol = 0.26}));
        }
    }
}

TEST_CASE("allclose sees masked scores: infinities of one sign agree, one of the other does not") {
    auto a = noise<double>(2000, 1);
    for (std::size_t i = 0; i < a.size(); i += 2) a[i] = -infinity;
    auto b = a;
    CHECK(allclose(a, b));
    b[1234] = infinity;
    CHECK_FALSE(allclose(a, b));
}

TEST_CASE("allclose of empty arrays is true, of unequal shapes refused") {
    const std::vector<float> none, three(3), four(4);
    CHECK(allclose(none, none));
    CHECK(close_report(none, none));
    const std::string why = refusal_of([&] { (void)allclose(three, four); });
    CHECK(why.find("(3)") != std::string::npos);
    CHECK(why.find("(4)") != std::string::npos);
    // A tensor of the same number of elements is not the same shape.
    const std::vector<float> values(12);
    CHECK(refusal_of([&] {
              (void)allclose(dense(values, {1, 1, 3, 4}), values);
          }).find("(1, 1, 3, 4)") != std::string::npos);
    CHECK(refusal_of([&] { (void)close_report(dense(values, {1, 1, 3, 4}), dense(values, {1, 1, 4, 3})); }) != "");
    CHECK(allclose(dense(values, {1, 0, 3, 4}), dense(values, {1, 0, 3, 4})));
}

TEST_CASE("strides that take no step, and extents beside a zero, may be anything; negative extents may not") {
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max(), least = -huge - 1;
    const std::vector<float> x = noise<float>(12, 1);
    const strided<float> junk{x.data(), {1, 1, 3, 4}, {least, least, 4, 1}};
    CHECK(allclose(junk, dense(x, {1, 1, 3, 4})));
    CHECK(close_report(junk, junk, {.rtol = 0, .atol = 0}));
    const strided<float> empty{nullptr, {huge, huge, 0, huge}, {huge, least, huge, least}};
    CHECK(allclose(empty, empty));
    CHECK(close_report(empty, empty).total == 0);
    const strided<float> negative{x.data(), {1, 1, -3, -4}, {12, 12, 4, 1}};
    CHECK(refusal_of([&] { (void)allclose(negative, negative); }) ==
          "shape (1, 1, -3, -4): every extent must be >= 0");
}

TEST_CASE("negative and NaN tolerances are refused by value, zero and infinite ones are not") {
    const std::vector<float> x(3);
    CHECK(refusal_of([&] {
              (void)allclose(x, x, {.rtol = -0.5});
          }).find("rtol must not be negative or NaN; it is -0.5") == 0);
    CHECK(refusal_of([&] {
              (void)allclose(x, x, {.atol = NaN});
          }).find("atol must not be negative or NaN; it is NaN") == 0);
    CHECK(refusal_of([&] { (void)isclose(1, 1, {.atol = -infinity}); }).find("-inf") != std::string::npos);
    CHECK(allclose(x, x, {.rtol = infinity, .atol = -0.0}));
}

TEST_CASE("an infinite rtol allows nothing where b is zero") {
    const std::vector<float> a{1, 1}, b{1, 0};
    CHECK_FALSE(allclose(a, b, {.rtol = infinity, .atol = 1}));
    const std::vector<float> c{1, 5};
    CHECK(allclose(a, c, {.rtol = infinity}));
    CHECK(allclose(a, c, {.rtol = 1e300}));  // infinite as a float
}

TEST_CASE("strided operands: transposed, reversed, broadcast, in any pairing") {
    const std::ptrdiff_t B = 2, H = 3, L = 5, M = 70;
    const auto values = noise<float>(B * H * L * M, 3);
    const auto plain = dense(values, {B, H, L, M});
    std::vector<float> swapped(values.size()), reversed(values.rbegin(), values.rend());  // (b, l, h, m) and backwards
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    swapped[static_cast<std::size_t>(((m * L + l) * H + h) * B + b)] =
                        values[static_cast<std::size_t>(((b * H + h) * L + l) * M + m)];
    const strided<float> other{swapped.data(), {B, H, L, M}, {1, B, H * B, L * H * B}};
    const strided<float> backwards{reversed.data() + reversed.size() - 1, {B, H, L, M}, {-H * L * M, -L * M, -M, -1}};
    const allclose_options exact{.rtol = 0, .atol = 0};
    for (const auto& x : {plain, other, backwards})
        for (const auto& y : {plain, other, backwards}) CHECK(allclose(x, y, exact));

    swapped[static_cast<std::size_t>(((67 * L + 3) * H + 2) * B + 1)] += 1;
    for (const auto& x : {plain, backwards}) {
        CHECK_FALSE(allclose(x, other, exact));
        const close_report report(other, x, exact);
        CHECK(report.mismatches == 1);
        CHECK(report.first[0].index == std::array<std::ptrdiff_t, 4>{1, 2, 3, 67});
        CHECK(report.greatest_absolute->index == std::array<std::ptrdiff_t, 4>{1, 2, 3, 67});
    }

    const std::vector<float> one_row(static_cast<std::size_t>(M), 1.5f), ones(values.size(), 1.5f);
    const strided<float> rows{one_row.data(), {B, H, L, M}, {0, 0, 0, 1}},
        scalar{one_row.data(), {B, H, L, M}, {0, 0, 0, 0}};
    CHECK(allclose(rows, dense(ones, {B, H, L, M}), exact));
    CHECK(allclose(scalar, rows, exact));
    CHECK_FALSE(allclose(scalar, plain, exact));
}

TEST_CASE("a fault that only the strides reach is found") {
    const std::vector<float> b(80, 1.0f);
    std::vector<float> a = b;
    a[78] = 2;
    const strided<float> every_other_a{a.data(), {1, 1, 1, 40}, {0, 0, 0, 2}},
        every_other_b{b.data(), {1, 1, 1, 40}, {0, 0, 0, 2}};
    CHECK_FALSE(allclose(every_other_a, every_other_b));
    CHECK(close_report(every_other_a, every_other_b).first[0].index[3] == 39);
    a[78] = 1, a[77] = 2;  // and one that they do not
    CHECK(allclose(every_other_a, every_other_b));
}

TEST_CASE("mixed operands are compared in the wider type; every contiguous range is an array") {
    const std::vector<float> a{1, 2, 0.1f};
    const std::array<double, 3> b{1, 2, 0.1};
    CHECK(allclose(a, b));
    CHECK_FALSE(allclose(a, b, {.rtol = 1e-9, .atol = 0}));
    const int whole[3] = {1, 2, 3};
    CHECK(allclose(whole, std::span<const int>(whole)));
    CHECK(allclose(std::vector<brief>{brief(1.0f)}, std::vector<brief>{brief(1.0f)}));
}

TEST_CASE("the defaults of torch.testing, by type") {
    static_assert(tolerance::standard<float>().rtol == 1.3e-6 && tolerance::standard<float>().atol == 1e-5);
    static_assert(tolerance::standard<double>().rtol == 1e-7 && tolerance::standard<double>().atol == 1e-7);
    static_assert(tolerance::standard<brief>().rtol == 1.6e-2 && tolerance::standard<brief>().atol == 1e-5);
    static_assert(tolerance::standard<int>().rtol == 0 && tolerance::standard<int>().atol == 0);
}

TEST_CASE("ulp_distance counts steps, through zero and up to infinity") {
    CHECK(ulp_distance(1.0f, 1.0f) == 0);
    CHECK(ulp_distance(0.0f, -0.0f) == 0);
    CHECK(ulp_distance(1.0f, std::nextafter(1.0f, 2.0f)) == 1);
    CHECK(ulp_distance(-1.0, std::nextafter(-1.0, 0.0)) == 1);
    CHECK(ulp_distance(std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::denorm_min()) == 2);
    CHECK(ulp_distance(std::numeric_limits<double>::max(), infinity) == 1);
    CHECK(ulp_distance(NaN, 1.0) == not_comparable);
    CHECK(ulp_distance(NaN, NaN) == 0);
    CHECK(ulp_distance(brief(1.0f), brief(1.0078125f)) == 1);
    CHECK(ulp_distance(1.0, 2.0) == std::uint64_t{1} << 52);
}

TEST_CASE("compare_ulp and bitwise_equal") {
    std::vector<float> a(100, 1.0f), b = a;
    b[77] = std::nextafter(std::nextafter(1.0f, 2.0f), 2.0f);
    CHECK(compare_ulp(a, b, 2));
    CHECK_FALSE(compare_ulp(a, b, 1));
    CHECK_FALSE(bitwise_equal(a, b));
    b[77] = 1.0f, a[5] = 0.0f, b[5] = -0.0f;
    CHECK(compare_ulp(a, b, 0));
    CHECK_FALSE(bitwise_equal(a, b));
    a[5] = b[5] = static_cast<float>(NaN);
    CHECK(bitwise_equal(a, b));
    const std::vector<double> wide(100, 1.0);
    CHECK(refusal_of([&] { (void)bitwise_equal(a, wide); }) != "");
    CHECK(compare_ulp(std::vector<int>{1, -2}, std::vector<int>{1, -3}, 1));
}

TEST_CASE("HEADWISE_CHECK_CLOSE passes what is close, with default or given tolerances") {
    const std::vector<float> a{1, 2, 3}, b{1, 2, 3.00001f};
    HEADWISE_CHECK_CLOSE(a, b);
    HEADWISE_CHECK_CLOSE(a, b, {.rtol = 1e-4, .atol = 0});
    HEADWISE_CHECK_CLOSE(a, b, tolerance::ulps(100));
    HEADWISE_REQUIRE_CLOSE(a, b);
}

TEST_CASE("HEADWISE_CHECK_CLOSE fails what is not" * doctest::should_fail()) {
    const std::vector<float> a{1, 2, 3}, b{1, 2, 4};
    HEADWISE_CHECK_CLOSE(a, b, {.rtol = 1e-4, .atol = 0});
}

TEST_CASE("HEADWISE_CHECK_CLOSE fails what is refused, and the test goes on" * doctest::expected_failures(3)) {
    const std::vector<float> a{1, 2, 3}, shorter{1, 2};
    HEADWISE_CHECK_CLOSE(a, shorter);
    HEADWISE_CHECK_CLOSE(a, a, {.rtol = -1});
    HEADWISE_REQUIRE_CLOSE(a, shorter, tolerance::ulps(1));
}
