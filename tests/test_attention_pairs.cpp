// Attention with AVX-512 BF16's products of pairs: how far from the definition, and the rules that hold all the same.
#include <headwise/attention.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention_weights.hpp>

#include "attention_reference.hpp"
#include "guarded.hpp"

using namespace headwise;
using Eigen::bfloat16;
using test::extents;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

/// What automatic is where the machine has it, and HEADWISE_ISA does not say otherwise.
const bool has_pairs = supports(isa::avx512_bf16);

tensor<float> widened(const tensor<bfloat16>& t) {
    tensor<float> result(t.shape());
    std::transform(t.data(), t.data() + t.size(), result.data(), [](bfloat16 x) { return static_cast<float>(x); });
    return result;
}

/// How many elements are not the same bits (or NaN in both).
template <class A, class B>
std::ptrdiff_t different(const A& a_like, const B& b_like) {
    const auto a = as_view(a_like);
    const auto b = as_view(b_like);
    if (a.shape() != b.shape()) return -1;
    const auto [B_, H, L, D] = a.shape();
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < B_; ++i)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t d = 0; d < D; ++d) {
                    const float x = static_cast<float>(a(i, h, l, d)), y = static_cast<float>(b(i, h, l, d));
                    count += std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(y) && (x == x || y == y);
                }
    return count;
}

/// Attention in pairs, with float results.
tensor<float> in_pairs(const auto& q, const auto& k, const auto& v, attention_options<float> options = {}) {
    options.isa = isa::avx512_bf16;
    tensor<float> out(detail::attention_shape(q.shape(), v.shape()));
    attention(q, k, v, out, options);
    return out;
}

/// More than four rows a head, for fewer are computed as floats. One block of columns and several, odd and even D and
/// M, Dv of whole vectors and not, groups.
const std::vector<extents> shapes{{2, 2, 1, 20, 50, 64, 64},  {1, 3, 3, 49, 49, 32, 32}, {1, 2, 1, 30, 1100, 40, 72},
                                  {1, 6, 2, 33, 77, 81, 80},  {1, 1, 1, 15, 600, 17, 7}, {1, 2, 1, 5, 257, 130, 3},
                                  {1, 1, 1, 29, 33, 1024, 5}, {1, 1, 1, 6, 1, 1, 1},     {1, 2, 1, 9, 31, 0, 16},
                                  {1, 2, 1, 9, 31, 5, 0},     {1, 1, 1, 14, 0, 5, 6},    {1, 1, 1, 14, 1600, 2, 33}};

}  // namespace

TEST_CASE("within the stated bound of the definition, for every shape and option; lse within that of floats") {
    if (!has_pairs) return;
    for (const extents& n : shapes) {
        CAPTURE(n.text());
        const auto q = randn<bfloat16>({n.B, n.H, n.L, n.D}, 1), k = randn<bfloat16>({n.B, n.Hkv, n.M, n.D}, 2);
        auto v = randn<bfloat16>({n.B, n.Hkv, n.M, n.Dv}, 3);
        for (std::ptrdiff_t i = 0; i < v.size(); ++i) v.data()[i] += bfloat16(4);  // a mean, which must not lose digits
        for (const auto& how : test::usual_cases(n)) {
            CAPTURE(how.name);
            auto e = test::expect_attention(widened(q), widened(k), widened(v), how);
            test::add_rounding_of_weights(e, widened(v));
            how.with_options(isa::avx512_bf16, [&](attention_options<float> options) {
                tensor<float> lse(e.lse.shape()), weights(e.weights.shape()), logits(e.logits.shape());
                options.lse = lse;
                const tensor<float> out = in_pairs(q, k, v, options);
                CHECK(test::beyond(out, e.out, e.out_bound) == "");
                CHECK(test::beyond(lse, e.lse, e.lse_bound) == "");
                tensor<bfloat16> rounded(out.shape());
                attention(q, k, v, rounded, options);
                tensor<float> must(out.shape());
                std::transform(out.data(), out.data() + out.size(), must.data(),
                               [](float x) { return static_cast<float>(static_cast<bfloat16>(x)); });
                CHECK(different(rounded, must) == 0);
                attention_weights(q, k, weights, options);
                attention_logits(q, k, logits, options);
                CHECK(test::beyond(weights, e.weights, e.weights_bound) == "");
                CHECK(test::beyond(lse, e.lse, e.lse_bound) == "");
                CHECK(test::beyond(logits, e.logits, e.logits_bound) == "");
            });
        }
    }
}

TEST_CASE("a mean of equal values is that value, whatever the weights were rounded to") {
    if (!has_pairs) return;
    tensor<bfloat16> v({1, 1, 1000, 48});
    std::fill_n(v.data(), v.size(), bfloat16(3));
    const auto q = randn<bfloat16>({1, 1, 30, 64}, 1), k = randn<bfloat16>({1, 1, 1000, 64}, 2);
    const tensor<float> out = in_pairs(q, k, v);
    // Numerator and denominator are 500 sums of pairs each; they differ by these roundings and the division's.
    for (std::ptrdiff_t i = 0; i < out.size(); ++i) CHECK(std::abs(out.data()[i] - 3) <= 3 * 1010 * 0x1p-24f);
}

TEST_CASE("every value comes through a weight of one; denormals are zero") {
    if (!has_pairs) return;
    tensor<bfloat16> v({1, 1, 1, 65536});
    for (std::ptrdiff_t i = 0; i < 65536; ++i) v.data()[i] = std::bit_cast<bfloat16>(static_cast<std::uint16_t>(i));
    const auto q = randn<bfloat16>({1, 1, 6, 8}, 1), k = randn<bfloat16>({1, 1, 1, 8}, 2);
    const tensor<bfloat16> out = attention(q, k, v, {.isa = isa::avx512_bf16});
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t l = 0; l < 6; ++l)
        for (std::ptrdiff_t i = 0; i < 65536; ++i) {
            const float is = static_cast<float>(out(0, 0, l, i)), value = static_cast<float>(v.data()[i]);
            const float must = std::abs(value) < 0x1p-126f ? 0 : value;
            count += !(is == must || (is != is && must != must));
        }
    CHECK(count == 0);
}

TEST_CASE("what is masked does not count, whatever it holds; what is seen makes its rows, and no others, NaN") {
    if (!has_pairs) return;
    for (const std::ptrdiff_t M : {90, 91})
        for (const bool apart : {false, true}) {
            CAPTURE(M);
            CAPTURE(apart);
            auto q = randn<bfloat16>({1, 2, 20, 24}, 1), k = randn<bfloat16>({1, 1, M, 24}, 2),
                 wide_v = randn<bfloat16>({1, 1, M, 66}, 3);
            const tensor_view<bfloat16> v = apart ? tensor_view<bfloat16>(wide_v.data(), {1, 1, M, 33}, {0, 0, 66, 2})
                                                  : tensor_view<bfloat16>(wide_v.data(), {1, 1, M, 33}, {0, 0, 66, 1});
            tensor<bool> mask({1, 1, 20, M});
            for (std::ptrdiff_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % M != 7;
            mask(0, 0, 1, 8) = mask(0, 0, 1, 9) = mask(0, 0, 1, M - 1) = mask(0, 0, 3, 8) = mask(0, 0, 3, 9) = false;
            const attention_options<float> options{.mask = mask};
            tensor<bfloat16> clean_v({1, 1, M, 33});
            for (std::ptrdiff_t m = 0; m < M; ++m)
                for (std::ptrdiff_t d = 0; d < 33; ++d) clean_v(0, 0, m, d) = v(0, 0, m, d);
            const tensor<float> clean = in_pairs(q, k, clean_v, options);
            for (std::ptrdiff_t d = 0; d < 33; ++d) {
                v(0, 0, 7, d) = bfloat16(not_a_number);
                v(0, 0, 8, d) = bfloat16(-infinity);
                v(0, 0, M - 1, d) = bfloat16(infinity);
            }
            k(0, 0, 9, 3) = bfloat16(not_a_number);
            const tensor<float> out = in_pairs(q, k, v, options);
            for (std::ptrdiff_t d = 0; d < 33; ++d)
                for (std::ptrdiff_t h = 0; h < 2; ++h) {
                    CHECK(std::isnan(out(0, h, 0, d)));
                    CHECK(out(0, h, 1, d) == clean(0, h, 1, d));
                    CHECK(out(0, h, 3, d) == infinity);
                }
        }
}

TEST_CASE(
    "a row that sees nothing is zeros; a NaN of q stays in its row; a seen infinity whose weight is zero is NaN") {
    if (!has_pairs) return;
    auto q = randn<bfloat16>({1, 1, 9, 16}, 1), k = randn<bfloat16>({1, 1, 40, 16}, 2),
         v = randn<bfloat16>({1, 1, 40, 20}, 3);
    tensor<bool> mask({1, 1, 9, 40});
    for (std::ptrdiff_t i = 0; i < mask.size(); ++i) mask.data()[i] = i / 40 != 4;
    q(0, 0, 6, 1) = bfloat16(not_a_number);
    tensor<float> lse({1, 1, 9, 1});
    const tensor<float> out = in_pairs(q, k, v, {.mask = mask, .lse = lse});
    for (std::ptrdiff_t l = 0; l < 9; ++l)
        for (std::ptrdiff_t d = 0; d < 20; ++d)
            CHECK((l == 4 ? out(0, 0, l, d) == 0 : std::isnan(out(0, 0, l, d)) == (l == 6)));
    CHECK(lse(0, 0, 4, 0) == -infinity);

    std::fill_n(q.data(), q.size(), bfloat16(1));
    std::fill_n(k.data(), k.size(), bfloat16(1));
    std::fill_n(&k(0, 0, 5, 0), 16, bfloat16(-100));
    v(0, 0, 5, 0) = bfloat16(infinity);
    const tensor<float> beside = in_pairs(q, k, v);
    CHECK(std::isnan(beside(0, 0, 0, 0)));
    CHECK(std::isfinite(beside(0, 0, 0, 1)));
}

TEST_CASE("strides, groups, batch, threads and alignment change no bit") {
    if (!has_pairs) return;
    constexpr std::ptrdiff_t L = 70, M = 701, D = 37, Dv = 43;
    const auto q = randn<bfloat16>({2, 4, L, D}, 1), k = randn<bfloat16>({2, 2, M, D}, 2),
               v = randn<bfloat16>({2, 2, M, Dv}, 3);
    const tensor<float> must = in_pairs(q, k, v);
    for (const int threads : {2, 3}) CHECK(different(in_pairs(q, k, v, {.threads = threads}), must) == 0);
    // Each axis innermost once, with a gap.
    for (const std::array<std::size_t, 4>& order : {std::array<std::size_t, 4>{0, 1, 3, 2}, {3, 2, 1, 0}, {0, 1, 2, 3}})
        for (const std::ptrdiff_t gap : {1, 3}) {
            CAPTURE(gap);
            const auto laid_out = [&](const tensor<bfloat16>& t, std::vector<bfloat16>& memory) {
                strides4 strides{};
                std::ptrdiff_t run = gap;
                for (std::size_t i = 4; i-- > 0; run *= t.shape()[order[i]]) strides[order[i]] = run;
                memory.assign(static_cast<std::size_t>(run) + 1, bfloat16(not_a_number));
                const tensor_view<bfloat16> view(memory.data() + 1, t.shape(), strides);
                for (std::ptrdiff_t b = 0; b < t.shape()[0]; ++b)
                    for (std::ptrdiff_t h = 0; h < t.shape()[1]; ++h)
                        for (std::ptrdiff_t l = 0; l < t.shape()[2]; ++l)
                            for (std::ptrdiff_t d = 0; d < t.shape()[3]; ++d) view(b, h, l, d) = t(b, h, l, d);
                return view;
            };
            std::vector<bfloat16> a, b, c;
            CHECK(different(in_pairs(laid_out(q, a), laid_out(k, b), laid_out(v, c)), must) == 0);
        }
    for (std::ptrdiff_t b = 0; b < 2; ++b)
        for (std::ptrdiff_t h = 0; h < 4; ++h) {
            const tensor_view<const bfloat16> one_q(&q(b, h, 0, 0), {1, 1, L, D}),
                one_k(&k(b, h / 2, 0, 0), {1, 1, M, D}), one_v(&v(b, h / 2, 0, 0), {1, 1, M, Dv});
            CHECK(different(in_pairs(one_q, one_k, one_v),
                            tensor_view<const float>(&must(b, h, 0, 0), {1, 1, L, Dv})) == 0);
        }
}

TEST_CASE("up to four rows, and every other target, have the bits of floats; automatic is pairs") {
    if (!has_pairs) return;
    for (const std::ptrdiff_t L : {4, 5}) {
        const auto q = randn<bfloat16>({1, 2, L, 40}, 1), k = randn<bfloat16>({1, 1, 300, 40}, 2),
                   v = randn<bfloat16>({1, 1, 300, 40}, 3);
        const tensor<float> floats = attention(widened(q), widened(k), widened(v));
        tensor<float> plain(q.shape()), automatic(q.shape());
        attention(q, k, v, plain, {.isa = isa::avx512});
        attention(q, k, v, automatic);
        CHECK(different(plain, floats) == 0);
        if (std::getenv("HEADWISE_ISA") == nullptr) CHECK(different(automatic, in_pairs(q, k, v)) == 0);
        CHECK((different(in_pairs(q, k, v), floats) == 0) == (L == 4));
    }
}

TEST_CASE("operands that end, or begin, at a protected page; a workspace of just the size") {
    if (!has_pairs) return;
    const test::guarded<bfloat16> q_memory(4000), k_memory(20000), v_memory(20000), out_memory(4000);
    for (const std::ptrdiff_t L : {5, 17})
        for (const std::ptrdiff_t M : {1, 5, 32, 33, 300})
            for (const std::ptrdiff_t D : {1, 7, 16, 33, 64})
                for (const bool end : {true, false}) {
                    CAPTURE(detail::text_of({L, M, D, end}));
                    const auto place = [&](const test::guarded<bfloat16>& memory, const tensor<bfloat16>& values) {
                        bfloat16* const at = memory.place(values.size(), end);
                        std::copy_n(values.data(), values.size(), at);
                        return tensor_view<bfloat16>(at, values.shape());
                    };
                    const std::ptrdiff_t Dv = D == 33 ? 31 : D;
                    const auto q = randn<bfloat16>({1, 1, L, D}, 1), k = randn<bfloat16>({1, 1, M, D}, 2),
                               v = randn<bfloat16>({1, 1, M, Dv}, 3);
                    const tensor_view<bfloat16> out(out_memory.place(L * Dv, end), {1, 1, L, Dv});
                    attention_options<float> options{.isa = isa::avx512_bf16};
                    const std::size_t bytes = attention_workspace_bytes(q, k, v, out, options);
                    const test::guarded<std::byte> memory(static_cast<std::ptrdiff_t>(bytes));
                    options.workspace = {memory.place(static_cast<std::ptrdiff_t>(bytes), end), bytes};
                    attention(place(q_memory, q), place(k_memory, k), place(v_memory, v), out, options);
                    CHECK(different(out, attention(q, k, v, {.isa = isa::avx512_bf16})) == 0);
                }
}
