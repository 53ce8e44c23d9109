// The fused kernels against the definition. A target with a fused multiply-add must give the very bits of the chain
// fma(q[d], k[d], sum), d ascending from 0; the baseline, whose rounding depends on the flags, stays within gamma_D.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>

#include "bits.hpp"
#include "guarded.hpp"
#include "layouts.hpp"
#include "reference.hpp"

using namespace headwise;
using test::elements_equal, test::on_every_target, test::same_bits;

namespace {

template <class Scalar>
Scalar chain(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k, std::ptrdiff_t b, std::ptrdiff_t h,
             std::ptrdiff_t l, std::ptrdiff_t m) {
    Scalar sum = 0;
    for (std::ptrdiff_t d = 0; d < q.shape()[3]; ++d) sum = std::fma(q(b, h, l, d), k(b, h, m, d), sum);
    return sum;
}

/// Empty, or the first element of `out` that is not what the isa must give.
template <class Scalar>
std::string difference(isa name, const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k,
                       const tensor_view<const Scalar>& out) {
    if (name == isa::baseline) return test::mismatch(out, q, k);
    for (std::ptrdiff_t b = 0; b < out.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < out.shape()[1]; ++h)
            for (std::ptrdiff_t l = 0; l < out.shape()[2]; ++l)
                for (std::ptrdiff_t m = 0; m < out.shape()[3]; ++m) {
                    const Scalar is = out(b, h, l, m), must = chain(q, k, b, h, l, m);
                    if (!same_bits(is, must))
                        return "at " + detail::text_of({b, h, l, m}) + " is " + std::to_string(is) + ", must be " +
                               std::to_string(must);
                }
    return {};
}

/// Results of every depth at once: values(0, d, l, m) is the chain of the first d products, bounds(0, d, l, m) how far
/// from it a sum that is rounded otherwise may lie.
template <class Scalar>
struct chains_by_depth {
    static constexpr std::ptrdiff_t most = 70;
    tensor<Scalar> q = randn<Scalar>({1, 1, most, most}, 11), k = randn<Scalar>({1, 1, most, most}, 12);
    tensor<Scalar> values{shape4{1, most + 1, most, most}};
    tensor<double> bounds{shape4{1, most + 1, most, most}};

    chains_by_depth() {
        for (std::ptrdiff_t l = 0; l < most; ++l)
            for (std::ptrdiff_t m = 0; m < most; ++m) {
                double magnitude = 0;
                for (std::ptrdiff_t d = 0; d < most; ++d) {
                    const Scalar a = q(0, 0, l, d), b = k(0, 0, m, d);
                    values(0, d + 1, l, m) = std::fma(a, b, values(0, d, l, m));
                    magnitude += std::abs(static_cast<double>(a)) * std::abs(static_cast<double>(b));
                    bounds(0, d + 1, l, m) = 2 * test::gamma<Scalar>(d + 1) * magnitude;
                }
            }
    }

    /// How many of `count` results from (l, m) on, along m, are not what the isa must give.
    [[nodiscard]] std::ptrdiff_t wrong(isa name, const Scalar* row, std::ptrdiff_t d, std::ptrdiff_t l,
                                       std::ptrdiff_t m, std::ptrdiff_t count) const {
        const Scalar* const must = &values(0, d, l, m);
        if (name != isa::baseline) return std::memcmp(row, must, static_cast<std::size_t>(count) * sizeof(Scalar)) != 0;
        const double* const bound = &bounds(0, d, l, m);
        std::ptrdiff_t bad = 0;
        for (std::ptrdiff_t i = 0; i < count; ++i)
            bad += !(std::abs(static_cast<double>(row[i]) - static_cast<double>(must[i])) <= bound[i]);
        return bad;
    }
};

/// Every L, M, D of `extents`, dense, each operand against a protected page, behind it or before.
template <class Scalar>
void sweep(isa name, const std::vector<std::ptrdiff_t>& extents) {
    static const chains_by_depth<Scalar> expected;
    constexpr std::ptrdiff_t most = chains_by_depth<Scalar>::most;
    constexpr Scalar canary = Scalar(-12345);
    const test::guarded<Scalar> q_memory(most * most), k_memory(most * most), out_memory(most * most + 64);
    std::ptrdiff_t wrong = 0, touched = 0;
    for (const std::ptrdiff_t D : extents)
        for (const bool end : {false, true}) {
            // All rows at this depth; a call gets the last ones before the page, or the first ones behind it.
            Scalar* const all_q = q_memory.place(most * D, end);
            Scalar* const all_k = k_memory.place(most * D, end);
            for (std::ptrdiff_t row = 0; row < most; ++row) {
                std::copy_n(&expected.q(0, 0, row, 0), D, all_q + row * D);
                std::copy_n(&expected.k(0, 0, row, 0), D, all_k + row * D);
            }
            for (const std::ptrdiff_t L : extents)
                for (const std::ptrdiff_t M : extents) {
                    if (((L + M + D) % 2 == 0) != end) continue;
                    const std::ptrdiff_t l0 = end ? most - L : 0, m0 = end ? most - M : 0;
                    Scalar* const out = out_memory.place(L * M, end);
                    Scalar* const beside = end ? out - 64 : out + L * M;
                    std::fill_n(out, L * M, std::numeric_limits<Scalar>::quiet_NaN());
                    std::fill_n(beside, 64, canary);
                    batched_scores_vectorized(tensor_view<const Scalar>(all_q + l0 * D, {1, 1, L, D}),
                                              tensor_view<const Scalar>(all_k + m0 * D, {1, 1, M, D}),
                                              tensor_view<Scalar>(out, {1, 1, L, M}), {.isa = name});
                    for (std::ptrdiff_t l = 0; l < L; ++l) wrong += expected.wrong(name, out + l * M, D, l0 + l, m0, M);
                    touched += std::any_of(beside, beside + 64, [=](Scalar x) { return !same_bits(x, canary); });
                }
        }
    CHECK(wrong == 0);
    CHECK(touched == 0);
}

/// Where everything takes ten or a hundred times as long, HEADWISE_TEST_DENSE=1 asks for what is usual elsewhere; and
/// HEADWISE_TEST_DENSE=0, for an emulator, asks for the reverse.
bool dense() {
    if (const char* const text = std::getenv("HEADWISE_TEST_DENSE"); text != nullptr) return *text != '0';
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || (defined(__GNUC__) && !defined(__OPTIMIZE__))
    return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return false;
#endif
#endif
    return true;
}

}  // namespace

TEST_CASE("every L, M, D from 1 to 70, against protected pages") {
    // Where that takes too long: around every multiple of the lanes and the tiles' rows.
    std::vector<std::ptrdiff_t> extents{1,  2,  3,  4,  5,  6,  7,  8,  9,  13, 14, 15,
                                        16, 17, 28, 29, 31, 32, 33, 48, 49, 64, 65};
    if (dense()) {
        extents.resize(chains_by_depth<float>::most);
        std::iota(extents.begin(), extents.end(), std::ptrdiff_t{1});
    }
    on_every_target([&]<class Scalar>(isa name, Scalar) { sweep<Scalar>(name, extents); });
}

TEST_CASE("shapes of several heads, tiles and blocks of columns") {
    const std::vector<std::array<std::ptrdiff_t, 5>> shapes{
        {2, 3, 8, 8, 16},     {2, 3, 7, 5, 13},     {3, 5, 31, 57, 61},   {1, 2, 197, 197, 64}, {1, 1, 29, 4100, 40},
        {1, 1, 3, 1500, 130}, {2, 1, 20, 700, 257}, {1, 1, 15, 33, 5000}, {1, 2, 1, 513, 128},  {1, 1, 1024, 3, 7}};
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const auto& [B, H, L, M, D] : shapes) {
            const std::string shape = detail::text_of({B, H, L, M}) + ", D = " + std::to_string(D);
            CAPTURE(shape);
            const auto q = randn<Scalar>({B, H, L, D}, 1), k = randn<Scalar>({B, H, M, D}, 2);
            const auto out = batched_scores_vectorized(q, k, {.isa = name});
            CHECK(difference<Scalar>(name, q, k, out) == "");
        }
    });
}

TEST_CASE("empty extents: D = 0 gives exact zeros, any other writes nothing") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {1, 20}) {
            tensor<Scalar> out({2, 3, L, 37}, uninitialized);
            std::fill_n(out.data(), out.size(), std::numeric_limits<Scalar>::quiet_NaN());
            batched_scores_vectorized(tensor<Scalar>({2, 3, L, 0}), tensor<Scalar>({2, 3, 37, 0}), out, {.isa = name});
            CHECK(same_bits(out, tensor<Scalar>({2, 3, L, 37})));
        }
        for (const auto& [B, H, L, M] : {shape4{0, 2, 3, 4}, {2, 0, 3, 4}, {2, 3, 0, 4}, {2, 3, 4, 0}}) {
            const auto out =
                batched_scores_vectorized(tensor<Scalar>({B, H, L, 5}), tensor<Scalar>({B, H, M, 5}), {.isa = name});
            CHECK(out.shape() == shape4{B, H, L, M});
        }
    });
}

TEST_CASE("any strides, gaps and alignment give the bits of dense data, and nothing beside them is read or written") {
    auto layouts = test::layouts();
    layouts.push_back({.name = "rows 4096 bytes apart", .gap = 4096});  // less the row's length, set below
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {5, 30}) {
            const std::ptrdiff_t B = 2, H = 3, M = 37, D = 21;
            layouts.back().gap = 4096 / std::ptrdiff_t{sizeof(Scalar)} - D;
            const auto q = randn<Scalar>({B, H, L, D}, 3), k = randn<Scalar>({B, H, M, D}, 4);
            const auto dense = batched_scores_vectorized(q, k, {.isa = name});
            REQUIRE(difference<Scalar>(name, q, k, dense) == "");
            for (std::size_t i = 0; i < layouts.size(); ++i)
                for (const std::size_t j : {std::size_t{0}, i}) {  // each against dense partners, and against itself
                    const test::layout &first = layouts[i], &second = layouts[j];
                    CAPTURE(L);
                    CAPTURE(first.name);
                    CAPTURE(second.name);
                    const auto check = [&](const auto& q_as, const auto& k_as, const auto& out_as) {
                        const test::laid_out<Scalar> q_at(q, q_as), k_at(k, k_as), out(dense.shape(), out_as);
                        batched_scores_vectorized(q_at.view(), k_at.view(), out.view(), {.isa = name});
                        REQUIRE(elements_equal(out.view(), dense));
                        REQUIRE(out.written() == dense.size());
                    };
                    check(first, second, second);
                    check(second, first, second);
                    check(second, second, first);
                }
        }
    });
}

TEST_CASE("transposed operands and outputs, of several heads and blocks of columns, and rows a page apart") {
    const auto transposed = [](const auto& t) {  // the same elements, each head's rows and columns exchanged in memory
        return test::laid_out<scalar_of<decltype(t)>>(t, {.name = "head transposed", .order = {0, 1, 3, 2}});
    };
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const auto& [B, H, L, M, D] : std::vector<std::array<std::ptrdiff_t, 5>>{{1, 2, 20, 700, 257},
                                                                                      {2, 2, 700, 20, 257},
                                                                                      {1, 1, 33, 49, 1024},
                                                                                      {1, 2, 197, 65, 64},
                                                                                      {1, 1, 1, 9, 1024}}) {
            const auto q = randn<Scalar>({B, H, L, D}, 1), k = randn<Scalar>({B, H, M, D}, 2);
            const auto q_t = transposed(q), k_t = transposed(k);
            tensor<Scalar> out({B, H, L, M});
            batched_scores_vectorized(q, k, out, {.isa = name});
            CHECK(difference<Scalar>(name, q, k, out) == "");
            const auto check = [&](const auto& a, const auto& b) {
                CHECK(same_bits(batched_scores_vectorized(a, b, {.isa = name}), out));
                const test::laid_out<Scalar> result(out.shape(), {.name = "head transposed", .order = {0, 1, 3, 2}});
                batched_scores_vectorized(a, b, result.view(), {.isa = name});
                CHECK(elements_equal(result.view(), out));
                CHECK(result.written() == out.size());
            };
            check(q, k_t.view());
            check(q_t.view(), k);
            check(q_t.view(), k_t.view());
            check(q, k);
        }
    });
}

TEST_CASE("strided operands whose last element ends at a protected page") {
    constexpr std::ptrdiff_t most = 40;
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const test::guarded<Scalar> q_memory(2 * most * most), k_memory(2 * most * most), out_memory(2 * most * most);
        for (const std::ptrdiff_t L : {3, 17, 30})
            for (const std::ptrdiff_t M : {1, 5, 17, 33})
                for (const std::ptrdiff_t D : {1, 7, 16, 33})
                    for (const bool transposed : {true, false})  // within a head, or every second element
                        for (const bool end : {true, false}) {
                            const std::string shape = detail::text_of({transposed, L, M, D});
                            CAPTURE(shape);
                            const auto strided = [&](const test::guarded<Scalar>& memory, std::ptrdiff_t rows,
                                                     std::ptrdiff_t columns) {
                                const std::ptrdiff_t step = transposed ? 1 : 2, row = transposed ? 1 : 2 * columns;
                                return tensor_view<Scalar>(memory.place(step * rows * columns - step + 1, end),
                                                           {1, 1, rows, columns}, {0, 0, row, transposed ? rows : 2});
                            };
                            const auto q = randn<Scalar>({1, 1, L, D}, 1), k = randn<Scalar>({1, 1, M, D}, 2);
                            const auto q_at = strided(q_memory, L, D), k_at = strided(k_memory, M, D),
                                       out_at = strided(out_memory, L, M);
                            q_at.head(0, 0) = q.head(0, 0);
                            k_at.head(0, 0) = k.head(0, 0);
                            batched_scores_vectorized(q_at, k_at, out_at, {.isa = name});
                            REQUIRE(elements_equal(out_at, batched_scores_vectorized(q, k, {.isa = name})));
                            tensor<Scalar> dense({1, 1, L, M});
                            batched_scores_vectorized(q_at, k_at, dense, {.isa = name});
                            REQUIRE(elements_equal(out_at, dense));
                        }
    });
}

TEST_CASE("streaming, asked for, is done only where whole lines can be, and changes no bit") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const std::ptrdiff_t L = 30, M = 96, D = 20;
        const auto q = randn<Scalar>({1, 2, L, D}, 1), k = randn<Scalar>({1, 2, M, D}, 2);
        const auto expected = batched_scores_vectorized(q, k, {.isa = name, .stores = stores::cached});
        for (const std::ptrdiff_t gap : {0, 1, 4, 8, 16})  // between rows
            for (std::ptrdiff_t offset = 0; offset <= 16; ++offset) {
                CAPTURE(gap);
                CAPTURE(offset);
                const test::laid_out<Scalar> out(expected.shape(),
                                                 {.name = "lines or not", .gap = gap, .offset = offset});
                batched_scores_vectorized(q, k, out.view(), {.isa = name, .stores = stores::streaming});
                CHECK(elements_equal(out.view(), expected));
                CHECK(out.written() == expected.size());
            }
    });
}

TEST_CASE("a stride of zero broadcasts: one key tensor for every head") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const auto q = randn<Scalar>({2, 3, 20, 16}, 5), one = randn<Scalar>({1, 1, 33, 16}, 6);
        const tensor_view<const Scalar> k(one.data(), {2, 3, 33, 16}, {0, 0, 16, 1});
        const auto out = batched_scores_vectorized(q, k, {.isa = name});
        CHECK(difference<Scalar>(name, q, k, out) == "");
    });
}

TEST_CASE("NaN and infinities in q and k reach the rows and columns that they belong to, and no others") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {6, 30})
            for (const Scalar bad :
                 {std::numeric_limits<Scalar>::quiet_NaN(), std::numeric_limits<Scalar>::infinity()}) {
                auto q = randn<Scalar>({1, 2, L, 19}, 9), k = randn<Scalar>({1, 2, 45, 19}, 10);
                const auto clean = batched_scores_vectorized(q, k, {.isa = name});
                q(0, 1, 3, 18) = bad;
                k(0, 0, 44, 0) = bad;
                tensor<Scalar> out(clean.shape());
                std::fill_n(out.data(), out.size(), std::numeric_limits<Scalar>::quiet_NaN());
                batched_scores_vectorized(q, k, out, {.isa = name});
                std::ptrdiff_t wrong = 0;
                for (std::ptrdiff_t h = 0; h < 2; ++h)
                    for (std::ptrdiff_t l = 0; l < L; ++l)
                        for (std::ptrdiff_t m = 0; m < 45; ++m) {
                            const bool spoiled = h == 1 ? l == 3 : m == 44;
                            wrong += spoiled ? std::isfinite(out(0, h, l, m))
                                             : !same_bits(out(0, h, l, m), clean(0, h, l, m));
                        }
                CHECK(wrong == 0);
            }
    });
}

TEST_CASE("scale is one rounding after the sum") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {4, 30}) {
            const auto q = randn<Scalar>({1, 2, L, 33}, 1), k = randn<Scalar>({1, 2, 21, 33}, 2);
            const auto plain = batched_scores_vectorized(q, k, {.isa = name});
            const auto scaled = batched_scores_vectorized(q, k, {.scale = 0.3, .isa = name});
            std::ptrdiff_t wrong = 0;
            for (std::ptrdiff_t i = 0; i < plain.size(); ++i)
                wrong += !same_bits(scaled.data()[i], static_cast<Scalar>(plain.data()[i] * Scalar(0.3)));
            CHECK(wrong == 0);
        }
    });
}

TEST_CASE("threads, stores and the batch change no bit") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const auto& [B, H, L, M, D] : std::vector<std::array<std::ptrdiff_t, 5>>{
                 {2, 16, 64, 192, 40}, {1, 1, 700, 512, 33}, {1, 2, 2, 30000, 64}, {1, 1, 45, 20000, 16}}) {
            const std::string shape = detail::text_of({B, H, L, M});
            CAPTURE(shape);
            const auto q = randn<Scalar>({B, H, L, D}, 1), k = randn<Scalar>({B, H, M, D}, 2);
            const auto one = batched_scores_vectorized(q, k, {.isa = name, .stores = stores::cached});
            for (const int threads : {0, 2, 3, 8})
                CHECK(same_bits(one, batched_scores_vectorized(q, k, {.threads = threads, .isa = name})));
            CHECK(same_bits(one, batched_scores_vectorized(q, k, {.isa = name, .stores = stores::streaming})));

            const tensor_view<const Scalar> last_q(&q(B - 1, H - 1, 0, 0), {1, 1, L, D});
            const tensor_view<const Scalar> last_k(&k(B - 1, H - 1, 0, 0), {1, 1, M, D});
            const auto alone = batched_scores_vectorized(last_q, last_k, {.isa = name});
            CHECK(std::memcmp(alone.data(), &one(B - 1, H - 1, 0, 0),
                              static_cast<std::size_t>(L * M) * sizeof(Scalar)) == 0);
        }
    });
}

TEST_CASE("a row's bits do not depend on how many rows there are, nor on the instruction set's width") {
    const auto q = randn<float>({1, 1, 50, 64}, 1), k = randn<float>({1, 1, 70, 64}, 2);
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const auto all = batched_scores_vectorized(q, k, {.isa = name});
        for (const std::ptrdiff_t L : {1, 2, 8, 9, 14, 50}) {
            const auto some =
                batched_scores_vectorized(tensor_view<const float>(q.data(), {1, 1, L, 64}), k, {.isa = name});
            CHECK(std::memcmp(some.data(), all.data(), static_cast<std::size_t>(some.size()) * sizeof(float)) == 0);
        }
        if (name != isa::baseline) CHECK(same_bits(all, batched_scores_vectorized(q, k)));
    }
}
