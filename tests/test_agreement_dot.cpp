// tolerance::dot: it rejects no right result, and catches every fault larger than itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <headwise/harness/agreement.hpp>

#include "test_agreement.hpp"

using namespace agreement_test;
using headwise::allclose;
using headwise::close_report;
using headwise::tolerance;

namespace {

/// The bound by the book, in long double: 2 g |q| |k|.
template <class T>
double bound_by_the_book(const T* q, const T* k, std::ptrdiff_t D, double u) {
    long double qq = 0, kk = 0;
    for (std::ptrdiff_t d = 0; d < D; ++d) {
        qq += static_cast<long double>(q[d]) * static_cast<long double>(q[d]);
        kk += static_cast<long double>(k[d]) * static_cast<long double>(k[d]);
    }
    const long double nu = static_cast<long double>(D) * static_cast<long double>(u);
    return static_cast<double>(2 * nu / (1 - nu) * std::sqrt(qq) * std::sqrt(kk));
}

}  // namespace

TEST_CASE_TEMPLATE("no right result is rejected: a million outputs, in two orders of summation", T, float, double) {
    // The larger depths are tried by fewer outputs here; HEADWISE_TEST_THOROUGH asks for a million at each.
#if defined(HEADWISE_TEST_THOROUGH)
    const std::ptrdiff_t outputs = 1 << 20;
#else
    const std::ptrdiff_t outputs = 1 << 16;
#endif
    for (const std::ptrdiff_t D : {1, 7, 32, 64, 128, 256}) {
        const std::ptrdiff_t L = 256, M = outputs / 256 / 2, heads = 2;
        const auto q = noise<T>(heads * L * D, 11), k = noise<T>(heads * M * D, 12);
        const auto rule = tolerance::dot(dense(q, {1, heads, L, D}), dense(k, {1, heads, M, D}));
        const auto reference = scores(q, k, heads, L, M, D, 1);
        for (const std::ptrdiff_t strands : {3, 16}) {
            const auto other = scores(q, k, heads, L, M, D, std::min(strands, D));
            const close_report report(dense(other, {1, heads, L, M}), dense(reference, {1, heads, L, M}), rule);
            INFO(D, " ", report.text());
            CHECK(report.matches);
            CHECK(*report.dot_ratio <= 2 * static_cast<double>(D) * 1.001);
            CHECK(report.worst_ratio < 1);
        }
    }
}

TEST_CASE("plain allclose at its defaults rejects right results: the reason that the bound exists") {
    const std::ptrdiff_t D = 64, L = 128, M = 128;
    const auto q = noise<float>(L * D, 1), k = noise<float>(M * D, 2);
    const auto a = scores(q, k, 1, L, M, D, 1), b = scores(q, k, 1, L, M, D, 16);
    const close_report plain(a, b);
    CHECK(plain.mismatches > 0);
    CHECK(plain.mismatches < plain.total / 50);
}

TEST_CASE_TEMPLATE("every fault larger than the bound is caught, at every place, and none smaller", T, float, double) {
    const std::ptrdiff_t B = 2, H = 2, L = 7, M = 37, D = 19;
    const double u = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
    const auto q = noise<T>(B * H * L * D, 21), k = noise<T>(B * H * M * D, 22);
    const std::vector<T> expected(static_cast<std::size_t>(B * H * L * M), T{0});
    const auto rule = tolerance::dot(dense(q, {B, H, L, D}), dense(k, {B, H, M, D}));
    auto actual = expected;
    for (std::ptrdiff_t i = 0; i < B * H * L * M; ++i) {
        const std::ptrdiff_t m = i % M, l = i / M % L, head = i / M / L;
        const double bound = bound_by_the_book(q.data() + (head * L + l) * D, k.data() + (head * M + m) * D, D, u);
        T& place = actual[static_cast<std::size_t>(i)];
        place = static_cast<T>(bound * 1.00001);
        CHECK_FALSE(allclose(dense(actual, {B, H, L, M}), dense(expected, {B, H, L, M}), rule));
        place = static_cast<T>(-bound * (1 - 1e-9));
        CHECK(allclose(dense(actual, {B, H, L, M}), dense(expected, {B, H, L, M}), rule));
        place = 0;
    }
}

TEST_CASE("at_least: the wider of the two, place by place") {
    const std::vector<float> q(8, 1.0f), k(8, 1.0f);  // |q| |k| = 8
    const auto Q = dense(q, {1, 1, 1, 8}), K = dense(k, {1, 1, 1, 8});
    const double bound = 2 * 8 * 0x1p-24 * 8;
    const std::vector<float> expected{1};
    const auto near = [&](double distance, const tolerance& rule) {
        const std::vector<float> actual{static_cast<float>(1 + distance)};
        return allclose(dense(actual, {1, 1, 1, 1}), dense(expected, {1, 1, 1, 1}), rule);
    };
    const auto rule = tolerance::dot(Q, K);
    CHECK(near(bound, rule));
    CHECK_FALSE(near(bound * 1.1, rule));
    CHECK(near(bound, rule.at_least({.rtol = 0, .atol = bound / 2})));
    CHECK_FALSE(near(bound * 1.1, rule.at_least({.rtol = 0, .atol = bound / 2})));
    CHECK(near(bound * 2, rule.at_least({.rtol = 0, .atol = bound * 2.1})));
    CHECK(near(bound * 2, rule.at_least({.rtol = bound * 2.1, .atol = 0})));
    CHECK_THROWS_AS((void)rule.at_least({.rtol = -1}), std::invalid_argument);
}

TEST_CASE("the ratio to u |q| |k| is the greatest of all pairs, also of those that a plain tolerance lets pass") {
    const std::ptrdiff_t L = 30, M = 40, D = 16;
    const auto q = noise<float>(L * D, 41), k = noise<float>(M * D, 42);
    const auto a = scores(q, k, 1, L, M, D, 1), b = scores(q, k, 1, L, M, D, 4);
    double greatest = 0;
    for (std::ptrdiff_t l = 0; l < L; ++l)
        for (std::ptrdiff_t m = 0; m < M; ++m) {
            const double bound = bound_by_the_book(q.data() + l * D, k.data() + m * D, D, 0x1p-24);
            const double error = std::abs(static_cast<double>(a[static_cast<std::size_t>(l * M + m)]) -
                                          static_cast<double>(b[static_cast<std::size_t>(l * M + m)]));
            greatest = std::max(greatest, error / bound * 2 * static_cast<double>(D));
        }
    const auto rule = tolerance::dot(dense(q, {1, 1, L, D}), dense(k, {1, 1, M, D}));
    for (const auto& r : {rule, rule.at_least({.rtol = 0.1, .atol = 0.1})}) {
        const close_report report(dense(a, {1, 1, L, M}), dense(b, {1, 1, L, M}), r);
        CHECK(*report.dot_ratio == doctest::Approx(greatest).epsilon(1e-4));
    }
}

TEST_CASE("a scale widens the bound with it; grouped key heads and any strides are understood") {
    const std::ptrdiff_t B = 2, H = 4, KV = 2, L = 5, M = 9, D = 33;
    const auto q = noise<float>(B * H * L * D, 31);
    auto k = noise<float>(B * KV * M * D, 32);
    for (std::ptrdiff_t i = 0; i < M * D; ++i) k[static_cast<std::size_t>(i)] *= 1000;  // head 0 of batch 0
    const auto K = dense(k, {B, KV, M, D});
    const auto rule = tolerance::dot(dense(q, {B, H, L, D}), K, 0.25);
    std::vector<float> a, b;
    for (std::ptrdiff_t batch = 0; batch < B; ++batch)
        for (std::ptrdiff_t h = 0; h < H; ++h) {
            const std::vector<float> qh(q.begin() + (batch * H + h) * L * D, q.begin() + (batch * H + h + 1) * L * D);
            const std::ptrdiff_t kv = batch * KV + h / 2;
            const std::vector<float> kh(k.begin() + kv * M * D, k.begin() + (kv + 1) * M * D);
            for (const float x : scores(qh, kh, 1, L, M, D, 1)) a.push_back(x * 0.25f);
            for (const float x : scores(qh, kh, 1, L, M, D, 5)) b.push_back(x * 0.25f);
        }
    CHECK(allclose(dense(a, {B, H, L, M}), dense(b, {B, H, L, M}), rule));
    // A fault that head 0 would forgive is seen in head 2, whose keys are a thousand times smaller.
    const std::size_t place = static_cast<std::size_t>(2 * L * M + 3);
    b[place] += 0.01f;
    CHECK_FALSE(allclose(dense(a, {B, H, L, M}), dense(b, {B, H, L, M}), rule));

    // The same q, laid out (d, l, h, b) and walked backwards along d.
    std::vector<float> turned(q.size());
    for (std::ptrdiff_t i = 0; i < B * H * L * D; ++i) {
        const std::ptrdiff_t d = i % D, l = i / D % L, h = i / D / L % H, batch = i / D / L / H;
        turned[static_cast<std::size_t>((((D - 1 - d) * L + l) * H + h) * B + batch)] = q[static_cast<std::size_t>(i)];
    }
    const strided<float> Q{turned.data() + (D - 1) * L * H * B, {B, H, L, D}, {1, B, H * B, -L * H * B}};
    const auto same = tolerance::dot(Q, K, 0.25);
    for (std::size_t i = 0; i < same.bound()->row.size(); ++i)
        CHECK(same.bound()->row[i] == doctest::Approx(rule.bound()->row[i]).epsilon(1e-12));
}

TEST_CASE("norms that overflow or vanish when squared are still norms") {
    for (const double size : {1e-300, 1e-160, 1e160, 1e300}) {
        const std::vector<double> q(4, size), k(4, 1.0);
        const auto rule = tolerance::dot(dense(q, {1, 1, 1, 4}), dense(k, {1, 1, 1, 4}));
        CHECK(rule.bound()->row[0] * rule.bound()->column[0] == doctest::Approx(2 * 4 * 0x1p-53 * 2 * size * 2));
    }
    // Below all that, the floor: products that underflow are lost one by one.
    const std::vector<float> tiny(4, 1e-23f), zero{0.0f}, lost{1e-45f};
    const auto rule = tolerance::dot(dense(tiny, {1, 1, 1, 4}), dense(tiny, {1, 1, 1, 4}));
    CHECK(allclose(dense(lost, {1, 1, 1, 1}), dense(zero, {1, 1, 1, 1}), rule));
}

TEST_CASE("norms beyond the greatest float allow no more than they must, and a row of zeros nothing") {
    std::vector<float> q(2 * 8), k(3 * 8, 1.0f);  // q: rows of 1e-30 and of 0; k: of 3e38 (two) and of 1
    std::fill_n(q.begin(), 8, 1e-30f);
    for (std::size_t i = 0; i < 16; ++i) k[i] = i % 2 ? 3e38f : -3e38f;
    const auto rule = tolerance::dot(dense(q, {1, 1, 2, 8}), dense(k, {1, 1, 3, 8}));
    const std::vector<float> right(6, 0.0f);
    const auto accepts = [&](std::size_t place, float error) {
        std::vector<float> a = right;
        a[place] = error;
        return allclose(dense(a, {1, 1, 2, 3}), dense(right, {1, 1, 2, 3}), rule);
    };
    const float bound = 2 * 8 * 0x1p-24f * 8 * 3e8f;  // of the first two
    CHECK(accepts(0, bound * 0.99f));
    CHECK_FALSE(accepts(0, bound * 1.01f));
    CHECK_FALSE(accepts(2, 1e-30f));
    for (const std::size_t place : {3u, 4u, 5u}) CHECK_FALSE(accepts(place, 1e-30f));

    // Products beyond the greatest float in one head: it does not allow everything else, and other heads are free.
    std::vector<float> large(2 * 8, 1e38f), keys(2 * 2 * 8, 1.0f);
    std::fill_n(keys.begin(), 8, 1e38f);
    const auto mixed = tolerance::dot(dense(large, {1, 2, 1, 8}), dense(keys, {1, 2, 2, 8}));
    const std::vector<float> four{0, 0, 0, 0};
    const auto error_at = [&](std::size_t place, float error) {
        std::vector<float> a = four;
        a[place] = error;
        return allclose(dense(a, {1, 2, 1, 2}), dense(four, {1, 2, 1, 2}), mixed);
    };
    const float second = 2 * 8 * 0x1p-24f * 8 * 1e38f;
    CHECK_FALSE(error_at(1, second * 1.01f));
    CHECK(error_at(3, second * 0.99f));
    CHECK_FALSE(error_at(3, second * 1.01f));

    const std::vector<double> most(8, 1e308), one(8, 1.0);  // in double the norm itself is beyond
    const auto wide = tolerance::dot(dense(most, {1, 1, 1, 8}), dense(one, {1, 1, 1, 8}), 1e-300);
    CHECK(wide.bound()->row[0] * wide.bound()->column[0] < 1e-4);
}

TEST_CASE("an empty output needs no norms, however many rows there are") {
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    const strided<float> q{nullptr, {1, 1, huge, 0}, {0, 0, 0, 1}}, k{nullptr, {1, 1, 0, 0}, {0, 0, 0, 1}};
    CHECK(tolerance::dot(q, k).bound()->row.empty());
}

TEST_CASE("a scale that is no number gives no bound: it would allow everything") {
    const std::vector<float> x(8, 1.0f);
    for (const double scale : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
        CHECK_THROWS_WITH_AS((void)tolerance::dot(dense(x, {1, 1, 1, 8}), dense(x, {1, 1, 1, 8}), scale),
                             "tolerance::dot: the scale must be finite", std::invalid_argument);
}

TEST_CASE("NaN and infinity in q or k give no allowance, and are not spread to other rows") {
    std::vector<float> q(2 * 4, 1.0f), k(3 * 4, 1.0f);
    q[5] = std::numeric_limits<float>::quiet_NaN();
    k[1] = std::numeric_limits<float>::infinity();
    const auto rule = tolerance::dot(dense(q, {1, 1, 2, 4}), dense(k, {1, 1, 3, 4}));
    CHECK(rule.bound()->row[0] > 0);
    CHECK(rule.bound()->row[1] == 0);
    CHECK(rule.bound()->column[0] == 0);
    CHECK(rule.bound()->column[1] > 0);
    std::vector<float> a(6, 4.0f), b = a;
    a[1] += 0x1p-20f;
    CHECK(allclose(dense(a, {1, 1, 2, 3}), dense(b, {1, 1, 2, 3}), rule));
    a = b, a[3] += 0x1p-20f;
    CHECK_FALSE(allclose(dense(a, {1, 1, 2, 3}), dense(b, {1, 1, 2, 3}), rule));
}

TEST_CASE("shapes that do not fit are refused, with both") {
    const std::vector<float> x(120);
    const auto message = [&](auto&& f) -> std::string {
        try {
            f();
        } catch (const std::invalid_argument& e) {
            return e.what();
        }
        return "";
    };
    const std::string inner = message([&] { (void)tolerance::dot(dense(x, {1, 2, 3, 4}), dense(x, {1, 2, 3, 5})); });
    CHECK(inner.find("q is (1, 2, 3, 4), k is (1, 2, 3, 5)") != std::string::npos);
    const auto rule = tolerance::dot(dense(x, {1, 2, 3, 4}), dense(x, {1, 2, 5, 4}));
    const std::string outer = message([&] { (void)allclose(dense(x, {1, 2, 5, 3}), dense(x, {1, 2, 5, 3}), rule); });
    CHECK(outer.find("(1, 2, 3, 5), the arrays are (1, 2, 5, 3)") != std::string::npos);
    CHECK(message([&] { (void)allclose(x, x, rule); }) != "");
    const auto empty = tolerance::dot(dense(x, {1, 2, 3, 0}), dense(x, {1, 2, 5, 0}));
    CHECK(allclose(dense(x, {1, 2, 3, 5}), dense(x, {1, 2, 3, 5}), empty));
}
