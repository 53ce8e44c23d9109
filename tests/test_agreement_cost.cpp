// What agreement must not cost: memory when all is well, the caller's control register, a rounding.
#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <headwise/harness/agreement.hpp>

#include "test_agreement.hpp"

namespace {
std::size_t allocations = 0;
}

[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace agreement_test;
using namespace headwise;

TEST_CASE("nothing is allocated while all is well, whatever the strides and the rule") {
    const std::ptrdiff_t L = 40, M = 50, D = 8;
    const auto q = noise<float>(L * D, 1), k = noise<float>(M * D, 2);
    const auto a = scores(q, k, 1, L, M, D, 1), b = scores(q, k, 1, L, M, D, 4);
    const auto rule = tolerance::dot(dense(q, {1, 1, L, D}), dense(k, {1, 1, M, D}));
    const auto A = dense(a, {1, 1, L, M});
    const strided<float> turned{a.data(), {1, 1, M, L}, {0, 0, 1, M}};
    const std::size_t before = allocations;
    const bool close = allclose(a, b, {.rtol = 1e-3, .atol = 1e-3}) && allclose(A, dense(b, {1, 1, L, M}), rule) &&
                       allclose(turned, turned) && compare_ulp(a, a, 0) && bitwise_equal(A, A) &&
                       close_report(a, b, {.rtol = 1e-3, .atol = 1e-3}) &&
                       close_report(A, dense(b, {1, 1, L, M}), rule.at_least({.rtol = 1e-5}));
    const bool mismatch = !allclose(a, b, {.rtol = 0, .atol = 0});
    CHECK(allocations == before);
    CHECK(close);
    CHECK(mismatch);
}

#if defined(__SSE2__)
TEST_CASE("flush-to-zero of the caller neither changes the answer nor is changed") {
    const float tiny = std::numeric_limits<float>::denorm_min();
    const std::vector<float> a(70, tiny), b(70, 0.0f);
    const allclose_options exact{.rtol = 0, .atol = 0}, below{.rtol = 0, .atol = 1e-46},
        enough{.rtol = 0, .atol = 1e-45};
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040u);
    const bool answers[] = {!allclose(a, b, exact),
                            !allclose(a, b, below),
                            allclose(a, b, enough),
                            !isclose(tiny, 0.0f, exact),
                            isclose(tiny, 0.0f, enough),
                            !close_report(a, b, exact).matches,
                            close_report(a, b, enough).matches};
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    for (const bool right : answers) CHECK(right);
    CHECK((after & 0x8040u) == 0x8040u);
    CHECK(!allclose(a, b, exact));
    CHECK((_mm_getcsr() & 0x8040u) == (saved & 0x8040u));
}
#endif
