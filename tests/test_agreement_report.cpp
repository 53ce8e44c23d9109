// What a report says. Golden texts, and the mutants: each usual mistake must be caught and called by its name.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/agreement.hpp>

#include "test_agreement.hpp"

using namespace agreement_test;
using headwise::allclose;
using headwise::close_report;
using headwise::tolerance;

namespace {

constexpr float NaN = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
constexpr std::ptrdiff_t B = 2, H = 3, L = 16, M = 16, D = 64;
using index4 = std::array<std::ptrdiff_t, 4>;

std::string text_of(const close_report& report) {
    std::ostringstream out;
    out << report;
    return out.str();
}

std::size_t at(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, std::ptrdiff_t m) {
    return static_cast<std::size_t>(((b * H + h) * L + l) * M + m);
}

/// Two right results, one of which a test will spoil.
struct mutant {
    std::vector<float> q = noise<float>(B * H * L * D, 1), k = noise<float>(B * H * M * D, 2);
    std::vector<float> expected = scores(q, k, B*H, L, M, D, 1), actual = scores(q, k, B*H, L, M, D, 8);
    tolerance rule = tolerance::dot(dense(q, {B, H, L, D}), dense(k, {B, H, M, D}));

    close_report report() const { return {dense(actual, {B, H, L, M}), dense(expected, {B, H, L, M}), rule}; }

    /// Both under the derived bound and under plain allclose with room for rounding.
    bool named(const std::string& name) const {
        const close_report plain(dense(actual, {B, H, L, M}), dense(expected, {B, H, L, M}),
                                 {.rtol = 1e-4, .atol = 1e-4});
        return named_in(report(), name) && named_in(plain, name);
    }

    static bool named_in(const close_report& report, const std::string& name) {
        REQUIRE_FALSE(report.matches);
        INFO(report.text());
        const bool found = report.text().find(name) != std::string::npos;
        CHECK_MESSAGE(found, name);
        return found;
    }

    template <class F>
    void each(F&& f) {
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t m = 0; m < M; ++m) f(b, h, l, m);
    }
};

}  // namespace

TEST_CASE("golden: all agree") {
    std::vector<float> a(4096, 1.0f), b = a;
    CHECK(text_of(close_report(a, b)) == "all 4096 values agree (rtol 1e-05, atol 1e-08); no difference\n");
    a[700] = 1.0f + 0x1p-20f;
    CHECK(text_of(close_report(a, b, {.rtol = 0x1p-19, .atol = 0})) ==
          "all 4096 values agree (rtol 1.91e-06, atol 0); greatest difference 9.54e-07 at (700), at worst 0.5 of the "
          "tolerance\n");
}

TEST_CASE("golden: finite mismatches, a zero that was expected, NaN and infinities") {
    const std::vector<float> b{1, 2, 0, 4, 5, -infinity, 7, 8};
    std::vector<float> a = b;
    a[1] = 2.5f, a[2] = 0x1p-10f, a[3] = NaN, a[5] = infinity;
    const std::string counts =
        "4 of 8 values differ (50 %; rtol 0, atol 0.000244): 2 finite, 1 with NaN on one side, 1 with an infinity\n";
    CHECK(text_of(close_report(dense(a, {1, 2, 2, 2}), dense(b, {1, 2, 2, 2}), {.rtol = 0, .atol = 0x1p-12})) ==
          counts +
              "  greatest absolute difference 0.5 at (0, 0, 0, 1): actual 2.5 (0x1.4p+1), expected 2 (0x1p+1), 2097152 "
              "ulp\n"
              "  greatest relative difference 0.25 at (0, 0, 0, 1): actual 2.5 (0x1.4p+1), expected 2 (0x1p+1), "
              "2097152 ulp\n"
              "  greatest |a - b| / tolerance 2048 at (0, 0, 0, 1): actual 2.5 (0x1.4p+1), expected 2 (0x1p+1), "
              "2097152 ulp\n"
              "  no tolerance would pass\n"
              "  all of them:\n"
              "    (0, 0, 0, 1): actual 2.5 (0x1.4p+1), expected 2 (0x1p+1), 2097152 ulp\n"
              "    (0, 0, 1, 0): actual 0.0009765625 (0x1p-10), expected 0, 981467136 ulp\n"
              "    (0, 0, 1, 1): actual nan, expected 4 (0x1p+2)\n"
              "    (0, 1, 0, 1): actual inf, expected -inf, 4278190080 ulp\n");
}

TEST_CASE("golden: a derived bound, a single mismatch") {
    mutant x;
    for (float& value : x.q) value = 1;
    for (float& value : x.k) value = 0.5f;
    x.expected.assign(x.expected.size(), 32), x.actual = x.expected;
    x.rule = tolerance::dot(dense(x.q, {B, H, L, D}), dense(x.k, {B, H, M, D}));
    x.actual[at(1, 2, 3, 4)] = 32.25f;
    CHECK(text_of(x.report()) ==
          "1 of 1536 values differ (0.0651 %; the rounding of a dot product of length 64): 1 finite\n"
          "  greatest absolute difference 0.25 at (1, 2, 3, 4): actual 32.25 (0x1.02p+5), expected 32 (0x1p+5), 65536 "
          "ulp\n"
          "  greatest relative difference 0.0078125 at (1, 2, 3, 4): actual 32.25 (0x1.02p+5), expected 32 (0x1p+5), "
          "65536 ulp\n"
          "  greatest |a - b| / tolerance 1024 at (1, 2, 3, 4): actual 32.25 (0x1.02p+5), expected 32 (0x1p+5), 65536 "
          "ulp\n"
          "  |a - b| / (u |q| |k|) is up to 131072\n"
          "  would pass with atol 2.50e-01, or with rtol 7.82e-03\n"
          "  the one:\n"
          "    (1, 2, 3, 4): actual 32.25 (0x1.02p+5), expected 32 (0x1p+5), 65536 ulp\n");
}

TEST_CASE("one NaN hides no finite maximum") {
    std::vector<float> a = noise<float>(1000, 1), b = a;
    a[10] = NaN, a[500] += 3, a[501] += 1;
    const close_report report(a, b);
    CHECK(report.mismatches == 3);
    CHECK(report.finite == 2);
    CHECK(report.nan_one_side == 1);
    REQUIRE(report.greatest_absolute);
    CHECK(report.greatest_absolute->index[3] == 500);
    CHECK(report.greatest_absolute->absolute == doctest::Approx(3.0));
    CHECK_FALSE(report.passing_atol);
}

TEST_CASE("the greatest differences are those of the mismatches; of a match, those of all") {
    std::vector<double> b(100, 1.0), a = b;
    b[3] = 1e9, a[3] = 1e9 + 100;  // close: 1e-7 relative
    a[60] = 1.25, a[61] = 1.5;
    const close_report report(a, b, {.rtol = 1e-6, .atol = 0});
    CHECK(report.mismatches == 2);
    CHECK(report.greatest_absolute->index[3] == 61);
    CHECK(report.greatest_relative->index[3] == 61);
    const close_report match(a, b, {.rtol = 1, .atol = 0});
    CHECK(match.matches);
    CHECK(match.greatest_absolute->index[3] == 3);
    CHECK(match.worst->index[3] == 61);
    CHECK(match.worst_ratio == 0.5);
}

TEST_CASE("the records of a match are found among blocks that are close as a whole") {
    auto b = noise<float>(5000, 7);
    auto a = b;
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += static_cast<float>((i * 7919) % 5000) * 1e-7f;
    double greatest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        greatest = std::max(greatest, std::abs(static_cast<double>(a[i] - b[i])));
    const close_report report(a, b, {.rtol = 1e-3, .atol = 1e-3});
    REQUIRE(report.matches);
    CHECK(report.greatest_absolute->absolute == greatest);
}

TEST_CASE("the tolerances that a report names pass, and nothing below them does") {
    auto b = noise<float>(3000, 5), a = noise<float>(3000, 6);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] + a[i] * 1e-3f;
    const headwise::allclose_options options{.rtol = 1e-6, .atol = 1e-6};
    const close_report report(a, b, options);
    REQUIRE_FALSE(report.matches);
    REQUIRE(report.passing_atol);
    REQUIRE(report.passing_rtol);
    const auto below = [](double x) { return static_cast<double>(std::nextafter(static_cast<float>(x), 0.0f)); };
    CHECK(allclose(a, b, {.rtol = options.rtol, .atol = *report.passing_atol}));
    CHECK_FALSE(allclose(a, b, {.rtol = options.rtol, .atol = below(*report.passing_atol)}));
    CHECK(allclose(a, b, {.rtol = *report.passing_rtol, .atol = options.atol}));
    CHECK_FALSE(allclose(a, b, {.rtol = below(*report.passing_rtol), .atol = options.atol}));
    for (std::size_t i = 0; i < a.size(); ++i) {
        const std::vector<float> x{a[i]}, y{b[i]};
        const close_report one(x, y, options);
        if (one.matches) continue;
        CHECK(allclose(x, y, {.rtol = options.rtol, .atol = *one.passing_atol}));
        CHECK_FALSE(allclose(x, y, {.rtol = options.rtol, .atol = below(*one.passing_atol)}));
        CHECK(allclose(x, y, {.rtol = *one.passing_rtol, .atol = options.atol}));
        CHECK_FALSE(allclose(x, y, {.rtol = below(*one.passing_rtol), .atol = options.atol}));
    }
    b[7] = 0, a[7] = 1;
    CHECK_FALSE(close_report(a, b, options).passing_rtol);  // no rtol helps where zero is expected
    CHECK(close_report(a, b, options).passing_atol);
    const std::vector<float> one{1}, tiny{std::numeric_limits<float>::denorm_min()};
    CHECK_FALSE(close_report(one, tiny, options).passing_rtol);  // the greatest float would not be enough
    CHECK(close_report(one, tiny, options).text().find("or with rtol") == std::string::npos);
}

TEST_CASE("the first ten are listed, in order, and counted") {
    const std::vector<double> b(100, 1.0), a(100, 2.0);
    const close_report report(a, b);
    CHECK(report.mismatches == 100);
    CHECK(report.first[9].index[3] == 9);
    CHECK(report.text().find("the first 10:") != std::string::npos);
}

TEST_CASE("a difference that overflows fits no tolerance; one of the smallest numbers can be printed") {
    const float most = std::numeric_limits<float>::max();
    const std::vector<float> a{most, 1}, b{-most, 2};
    for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
        const close_report report(x, y);
        CHECK(report.finite == 2);
        CHECK_FALSE(report.passing_atol);
        CHECK_FALSE(report.passing_rtol);
        CHECK(report.text().find("no tolerance would pass") != std::string::npos);
    }
    CHECK_FALSE(allclose(a, b, {.rtol = 0, .atol = std::numeric_limits<double>::infinity()}));

    const std::vector<double> tiny{std::numeric_limits<double>::denorm_min()}, zero{0.0};
    CHECK(close_report(tiny, zero, {.rtol = 0, .atol = 0}).text().find("would pass with atol 4.94e-324") !=
          std::string::npos);
    const std::vector<double> huge{std::numeric_limits<double>::max()};
    CHECK(close_report(huge, zero).text().find("would pass with atol ") != std::string::npos);
}

TEST_CASE("where nothing is allowed, the worst is the greatest difference, and its ratio is called infinite") {
    const std::vector<float> a{1, 2, 3}, b{1, 3, 3.5f};
    const close_report report(a, b, {.rtol = 0, .atol = 0});
    REQUIRE(report.worst);
    CHECK(report.worst->index[3] == 1);
    CHECK(report.text().find("greatest |a - b| / tolerance infinite at (1)") != std::string::npos);
}

TEST_CASE("one wrong column of a single row per head is no diagonal") {
    std::vector<float> a(2 * 3 * 16), b = a;
    for (std::size_t h = 0; h < 3; ++h) a[h * 16 + 15] = 1.0f + static_cast<float>(h);
    const close_report report(dense(a, {2, 3, 1, 16}), dense(b, {2, 3, 1, 16}));
    REQUIRE(report.suspicions.size() == 1);
    CHECK(report.suspicions[0] == "all mismatches lie in b = 0, m = 15");
}

TEST_CASE("under an exact rule, a rounding everywhere is not called a scale") {
    const auto b = noise<float>(1000, 1);
    auto a = b;
    for (float& x : a) x = std::nextafter(x, 2 * x);
    for (const auto& rule : {tolerance::bitwise(), tolerance::ulps(0)}) {
        const close_report report(a, b, rule);
        CHECK(report.mismatches == 1000);
        CHECK(report.suspicions.empty());
    }
}

TEST_CASE("two right results match, and nothing is suspected") {
    const close_report report = mutant().report();
    CHECK(report.matches);
    CHECK(report.suspicions.empty());
    REQUIRE(report.dot_ratio);
    CHECK(*report.dot_ratio < 4);
    CHECK(report.greatest_absolute->absolute > 0);
}

TEST_CASE("mutant: one wrong element") {
    mutant x;
    x.actual[at(1, 2, 3, 4)] += 0.125f;
    CHECK(x.named("1 of 1536 values differ"));
    CHECK(x.report().greatest_absolute->index == index4{1, 2, 3, 4});
    CHECK(x.report().suspicions.empty());
}

TEST_CASE("mutant: the last d is dropped") {
    mutant x;
    x.actual = scores(x.q, x.k, B * H, L, M, D, 1, D - 1);
    CHECK(mutant::named_in(x.report(), "the last of the D = 64 products is missing"));
}

TEST_CASE("mutant: one head swapped with another") {
    mutant x;
    for (std::ptrdiff_t l = 0; l < L; ++l)
        for (std::ptrdiff_t m = 0; m < M; ++m) std::swap(x.actual[at(0, 1, l, m)], x.actual[at(0, 2, l, m)]);
    CHECK(
        x.named("heads are permuted: (b, h) = (0, 1) holds what was expected of (0, 2); (b, h) = (0, 2) holds what was "
                "expected of (0, 1)"));
}

TEST_CASE("mutant: L and M transposed") {
    mutant x;
    const auto right = x.actual;
    x.each([&](auto b, auto h, auto l, auto m) { x.actual[at(b, h, l, m)] = right[at(b, h, m, l)]; });
    CHECK(x.named("the last two dimensions (L and M) are transposed"));
}

TEST_CASE("mutant: the scale is missing, or applied twice") {
    mutant x;
    for (float& value : x.expected) value *= 0.125f;
    CHECK(x.named("actual is expected times 8, which is sqrt(64): a scale of 1/sqrt(D) missing?"));
    mutant y;
    for (float& value : y.actual) value *= 0.125f;
    CHECK(y.named("which is 1/sqrt(64): a scale of 1/sqrt(D) too many?"));
    mutant z;
    for (float& value : z.actual) value *= 1.7f;
    CHECK(z.named("actual is expected times 1.7\n"));
}

TEST_CASE("mutant: a causal mask that is off by one") {
    for (const bool infinite : {true, false}) {
        mutant x;
        const float hidden = infinite ? -infinity : 0.0f;
        x.each([&](auto b, auto h, auto l, auto m) {
            if (m > l) x.expected[at(b, h, l, m)] = hidden;
            if (m > l + 1) x.actual[at(b, h, l, m)] = hidden;
        });
        CHECK(x.named("all mismatches lie on the diagonal m = l + 1: a causal mask that is off by one?"));
    }
    mutant x;
    x.each([&](auto b, auto h, auto l, auto m) {
        if (m > l) x.expected[at(b, h, l, m)] = -infinity;
        if (m >= l) x.actual[at(b, h, l, m)] = -infinity;
    });
    CHECK(x.named("all mismatches lie on the diagonal m = l: a causal mask that is off by one?"));
}

TEST_CASE("mutant: NaN in one place") {
    mutant x;
    x.actual[at(0, 0, 5, 6)] = NaN;
    CHECK(x.named("1 of 1536 values differ"));
    CHECK(x.named("0 finite, 1 with NaN on one side"));
    CHECK(x.named("(0, 0, 5, 6): actual nan, expected"));
}

TEST_CASE("mutant: all zeros") {
    mutant x;
    for (float& value : x.actual) value = 0;
    CHECK(x.named("actual is zero at "));
}

TEST_CASE("mutant: a row of the previous call") {
    mutant x;
    const auto stale = noise<float>(M, 99);
    for (std::ptrdiff_t m = 0; m < M; ++m) x.actual[at(1, 0, 7, m)] = stale[static_cast<std::size_t>(m)];
    CHECK(x.named("all mismatches lie in b = 1, h = 0, l = 7"));
}

TEST_CASE("mutant: rows off by one") {
    for (const std::ptrdiff_t step : {-1, 1}) {
        mutant x;
        const auto right = x.actual;
        x.each([&](auto b, auto h, auto l, auto m) {
            if (l + step >= 0 && l + step < L) x.actual[at(b, h, l, m)] = right[at(b, h, l + step, m)];
        });
        CHECK(x.named(step < 0 ? "expected of the row before" : "expected of the row after"));
    }
}

TEST_CASE("mutant: rounding to float16 and to bfloat16") {
    mutant x;
    for (float& value : x.actual) {
        int exponent = 0;
        const float fraction = std::frexp(value, &exponent);
        value = std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
    }
    CHECK(x.named("actual looks rounded to float16 (11 bits)"));
    for (float& value : x.actual) {
        int exponent = 0;
        const float fraction = std::frexp(value, &exponent);
        value = std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
    }
    CHECK(x.named("actual looks rounded to bfloat16 (8 bits)"));
}

TEST_CASE("mutant: a sign") {
    mutant x;
    for (float& value : x.actual) value = -value;
    CHECK(x.named("actual is expected with the sign changed"));
}

TEST_CASE("mutant: right except in the padded tail") {
    mutant x;
    x.each([&](auto b, auto h, auto l, auto m) {
        if (m >= M - 3) x.actual[at(b, h, l, m)] += 1;
    });
    CHECK(x.named("all mismatches lie in m = 13 ... 15"));
}
