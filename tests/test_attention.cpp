// Attention, fused, against the definition; and its loop.
#include <headwise/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>
#include <headwise/npy.hpp>

#include "attention_reference.hpp"
#include "bits.hpp"

using namespace headwise;
using test::extents, test::on_every_target, test::same_bits;

namespace {

template <class Scalar>
bool all_nan(const Scalar* p, std::ptrdiff_t count) {
    return std::all_of(p, p + count, [](Scalar x) { return x != x; });
}
template <class Scalar>
bool all_finite(const tensor<Scalar>& t) {
    return std::all_of(t.data(), t.data() + t.size(), [](Scalar x) { return std::isfinite(x); });
}

const std::vector<extents> shapes{
    {1, 1, 1, 1, 1, 1, 1},     {2, 6, 2, 1, 1300, 64, 64}, {1, 4, 1, 3, 700, 33, 50},   {1, 2, 2, 5, 7, 8, 9},
    {2, 2, 1, 20, 50, 64, 64}, {1, 3, 3, 49, 49, 32, 32},  {1, 2, 1, 30, 1100, 40, 72}, {1, 6, 2, 33, 77, 80, 80},
    {1, 1, 1, 15, 600, 16, 7}, {1, 2, 1, 4, 513, 130, 3},  {1, 1, 1, 29, 33, 5, 200},
};

template <class Scalar>
std::vector<test::attention_case<Scalar>> cases(const extents& n) {
    auto all = test::usual_cases<Scalar>(n);
    all.insert(all.end(), {{.name = "scale", .scale = -0.7},
                           {.name = "causal", .causal = true},
                           {.name = "causal, top left", .causal = true, .top_left = true},
                           {.name = "window", .window = {3, 2}},
                           {.name = "window to the left, causal", .causal = true, .window = {40, -1}},
                           {.name = "window to the right, top left", .top_left = true, .window = {-1, 5}},
                           {.name = "softcap", .softcap = 1.5},
                           {.name = "mask of all", .mask_shape = {n.B, n.H, n.L, n.M}},
                           {.name = "mask of rows", .mask_shape = {1, 1, n.L, 1}},
                           {.name = "bias of rows", .bias_shape = {n.B, 1, n.L, 1}}});
    return all;
}

/// Calls `body(options)` for a case, with its views alive.
template <class Scalar, class Body>
void with_options(const test::attention_case<Scalar>& how, isa name, const Body& body) {
    const tensor<bool> mask = how.mask();
    const tensor<Scalar> bias = how.bias();
    attention_options<Scalar> options = how.options(name);
    if (mask.size() != 0) options.mask = mask;
    if (bias.size() != 0) options.bias = bias;
    body(options);
}

}  // namespace

TEST_CASE(
    "attention, weights, logits and lse agree with the definition: every target, shape and option; and the loops") {
    for (const extents& n : shapes) {
        CAPTURE(n.text());
        const auto check = [&]<class Scalar>(Scalar) {
            const auto q = randn<Scalar>({n.B, n.H, n.L, n.D}, 1), k = randn<Scalar>({n.B, n.Hkv, n.M, n.D}, 2),
                       v = randn<Scalar>({n.B, n.Hkv, n.M, n.Dv}, 3);
            for (const auto& how : cases<Scalar>(n)) {
                CAPTURE(how.name);
                const test::attention_expected expected = test::expect_attention(q, k, v, how);
                tensor<Scalar> lse({n.B, n.H, n.L, 1});
                const auto check_all = [&](const auto& out, const auto& weights, const auto& weights_lse,
                                           const auto& logits) {
                    CHECK(test::beyond(out, expected.out, expected.out_bound) == "");
                    CHECK(test::beyond(weights, expected.weights, expected.weights_bound) == "");
                    CHECK(test::beyond(logits, expected.logits, expected.logits_bound) == "");
                    CHECK(test::beyond(lse, expected.lse, expected.lse_bound) == "");
                    CHECK(test::beyond(weights_lse, expected.lse, expected.lse_bound) == "");
                };
                for (const isa name : supported_isas()) {
                    CAPTURE(to_string(name));
                    with_options(how, name, [&](attention_options<Scalar> options) {
                        tensor<Scalar> of_weights({n.B, n.H, n.L, 1});
                        options.lse = of_weights;
                        const auto weights = attention_weights(q, k, options);
                        options.lse = lse;
                        check_all(attention(q, k, v, options), weights, of_weights, attention_logits(q, k, options));
                    });
                }
                with_options(how, isa::automatic, [&](attention_options<Scalar> options) {
                    CAPTURE("loop");
                    options.lse = lse;
                    const auto out = attention_loop(q, k, v, options);
                    check_all(out, attention_weights_loop(q, k, options), lse, attention_logits_loop(q, k, options));
                });
            }
        };
        check(float{});
        check(double{});
    }
}

TEST_CASE("the attention of a real network: what its own implementation gave") {
    const std::string folder = HEADWISE_TEST_DATA;
    const auto q = load_npy<float>(folder + "/ocr_q.npy"), k = load_npy<float>(folder + "/ocr_k.npy"),
               v = load_npy<float>(folder + "/ocr_v.npy"), expected = load_npy<float>(folder + "/ocr_attention.npy");
    const auto close = [&](const tensor<float>& out) {
        REQUIRE(out.shape() == expected.shape());
        return std::equal(out.data(), out.data() + out.size(), expected.data(),
                          [](float a, float b) { return std::abs(a - b) <= 1e-5f; });
    };
    CHECK(close(attention_loop(q, k, v, {.scale = 1})));  // this network does not scale
    for (const isa name : supported_isas()) CHECK(close(attention(q, k, v, {.scale = 1, .isa = name})));
}

TEST_CASE(
    "rows that see nothing are zero, lse minus infinity: by mask, window, causal, M = 0, a bias of minus infinity") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
        for (const std::ptrdiff_t L : {3, 40}) {
            const auto q = randn<Scalar>({1, 2, L, 16}, 1), k = randn<Scalar>({1, 2, 20, 16}, 2),
                       v = randn<Scalar>({1, 2, 20, 24}, 3);
            tensor<Scalar> lse({1, 2, L, 1});
            const auto blind = [&](std::ptrdiff_t l, const tensor<Scalar>& out, const tensor<Scalar>& weights) {
                CAPTURE(l);
                CHECK(std::all_of(&out(0, 1, l, 0), &out(0, 1, l, 0) + 24, [](Scalar x) { return x == 0; }));
                CHECK(std::all_of(&weights(0, 1, l, 0), &weights(0, 1, l, 0) + 20, [](Scalar x) { return x == 0; }));
                CHECK(lse(0, 1, l, 0) == -infinity);
            };
            tensor<bool> mask({1, 1, L, 1});
            std::fill_n(mask.data(), L, true);
            mask(0, 0, 2, 0) = false;
            attention_options<Scalar> options{.mask = mask, .lse = lse, .isa = name};
            const auto masked = attention(q, k, v, options);
            blind(2, masked, attention_weights(q, k, options));
            blind(2, attention_loop(q, k, v, options), attention_weights_loop(q, k, options));
            CHECK(all_finite(masked));

            tensor<Scalar> bias({1, 1, L, 1});
            bias(0, 0, 1, 0) = -infinity;
            options = {.bias = bias, .lse = lse, .isa = name};
            blind(1, attention(q, k, v, options), attention_weights(q, k, options));

            // Row l stands at l + 20 - L: the first 20 rows of 40 before the first key.
            if (L == 40) {
                options = {.causal = true, .lse = lse, .isa = name};
                const auto causal = attention(q, k, v, options), weights = attention_weights(q, k, options);
                for (const std::ptrdiff_t l : {0, 7, 19}) blind(l, causal, weights);
                CHECK(lse(0, 1, 20, 0) > -infinity);
            }
            tensor<Scalar> out({1, 2, L, 24});
            std::fill_n(out.data(), out.size(), Scalar(7));
            attention(q, tensor<Scalar>({1, 2, 0, 16}), tensor<Scalar>({1, 2, 0, 24}), out, {.lse = lse, .isa = name});
            CHECK(same_bits(out, tensor<Scalar>({1, 2, L, 24})));
            CHECK(std::all_of(lse.data(), lse.data() + lse.size(), [=](Scalar x) { return x == -infinity; }));
            CHECK(same_bits(attention_loop(q, tensor<Scalar>({1, 2, 0, 16}), tensor<Scalar>({1, 2, 0, 24})), out));
        }
    });
}

TEST_CASE("D = 0: the visible keys weigh the same; Dv = 0: only lse; L, B, H = 0: nothing") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {2, 30}) {
            const tensor<Scalar> q({1, 1, L, 0}), k({1, 1, 8, 0});
            const auto v = randn<Scalar>({1, 1, 8, 5}, 1);
            const auto out = attention(q, k, v, {.isa = name}), loop = attention_loop(q, k, v);
            for (std::ptrdiff_t d = 0; d < 5; ++d) {
                Scalar mean = 0;
                for (std::ptrdiff_t m = 0; m < 8; ++m) mean += v(0, 0, m, d) / 8;
                CHECK(out(0, 0, L - 1, d) == doctest::Approx(static_cast<double>(mean)).epsilon(1e-5));
                CHECK(loop(0, 0, 0, d) == doctest::Approx(static_cast<double>(mean)).epsilon(1e-5));
            }
            tensor<Scalar> lse({1, 1, L, 1});
            attention(q, k, tensor<Scalar>({1, 1, 8, 0}), tensor_view<Scalar>(nullptr, {1, 1, L, 0}),
                      {.lse = lse, .isa = name});
            CHECK(lse(0, 0, L - 1, 0) == doctest::Approx(std::log(8.0)));
        }
        for (const auto& [B, H, L] : {std::array<std::ptrdiff_t, 3>{0, 2, 3}, {2, 0, 3}, {2, 2, 0}})
            CHECK(attention(tensor<Scalar>({B, H, L, 4}), tensor<Scalar>({B, H, 5, 4}), tensor<Scalar>({B, H, 5, 6}),
                            {.isa = name})
                      .shape() == shape4{B, H, L, 6});
    });
}

TEST_CASE("NaN: in a query its row, in a key that is seen every row that sees it, in a masked one none") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        constexpr Scalar nan = std::numeric_limits<Scalar>::quiet_NaN(),
                         infinity = std::numeric_limits<Scalar>::infinity();
        for (const std::ptrdiff_t L : {4, 50}) {
            const std::ptrdiff_t M = 600, row = L - 2;
            const auto k = randn<Scalar>({1, 2, M, 16}, 2), v = randn<Scalar>({1, 2, M, 24}, 3);
            auto q = randn<Scalar>({1, 2, L, 16}, 1);
            const auto clean = attention(q, k, v, {.isa = name});
            auto bad_q = q;
            bad_q(0, 1, row, 3) = nan;
            tensor<Scalar> lse({1, 2, L, 1});
            const auto out = attention(bad_q, k, v, {.lse = lse, .isa = name});
            for (std::ptrdiff_t h = 0; h < 2; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l) {
                    const bool here = h == 1 && l == row;
                    CHECK((here ? all_nan(&out(0, h, l, 0), 24)
                                : std::memcmp(&out(0, h, l, 0), &clean(0, h, l, 0), 24 * sizeof(Scalar)) == 0));
                    CHECK((lse(0, h, l, 0) != lse(0, h, l, 0)) == here);
                }
            CHECK(all_nan(&attention_weights(bad_q, k, {.isa = name})(0, 1, row, 0), M));

            for (const std::ptrdiff_t key : {0, 300, 599}) {
                auto bad_k = k, bad_v = v;
                bad_k(0, 0, key, 5) = nan;
                bad_v(0, 0, key, 7) = nan;
                bad_v(0, 0, key, 8) = infinity;
                CHECK(all_nan(&attention(q, bad_k, v, {.isa = name})(0, 0, 0, 0), L * 24));
                const auto seen = attention(q, k, bad_v, {.isa = name});
                CHECK(seen(0, 0, 1, 7) != seen(0, 0, 1, 7));
                CHECK(seen(0, 0, 1, 8) == infinity);
                CHECK(std::isfinite(seen(0, 0, 1, 6)));

                tensor<bool> mask({1, 1, 1, M});
                std::fill_n(mask.data(), M, true);
                mask(0, 0, 0, key) = false;
                CHECK(all_finite(attention(q, bad_k, bad_v, {.mask = mask, .isa = name})));
                CHECK(all_finite(attention_weights(q, bad_k, {.mask = mask, .isa = name})));
                CHECK(all_finite(attention_loop(q, bad_k, bad_v, {.mask = mask})));
                CHECK(same_bits(attention(q, bad_k, bad_v, {.mask = mask, .isa = name}),
                                attention(q, k, v, {.mask = mask, .isa = name})));

                // Causal from the top left: rows before the key are clean, those behind it are not.
                const attention_options<Scalar> causal{
                    .causal = true, .alignment = causal_alignment::top_left, .isa = name};
                const auto half = attention(q, k, bad_v, causal), whole = attention(q, k, v, causal);
                for (std::ptrdiff_t l = 0; l < L; ++l) {
                    CHECK((half(0, 0, l, 7) != half(0, 0, l, 7)) == (l >= key));
                    CHECK(half(0, 0, l, 6) == doctest::Approx(static_cast<double>(whole(0, 0, l, 6))).epsilon(1e-5));
                }
            }
        }
    });
}

TEST_CASE("logits of a million are right; plus infinity makes its row NaN") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
        for (const std::ptrdiff_t L : {2, 20})
            for (const Scalar size : {Scalar(1e6), Scalar(-1e6)})
                for (const std::ptrdiff_t key : {100, 700}) {  // it alone has the largest logit, by |size| / 1000
                    tensor<Scalar> q({1, 1, L, 1}), k({1, 1, 900, 1});
                    std::fill_n(q.data(), L, size);
                    std::fill_n(k.data(), 900, Scalar(1));
                    k(0, 0, key, 0) = size > 0 ? Scalar(1.001) : Scalar(0.999);
                    const auto v = randn<Scalar>({1, 1, 900, 24}, 1);
                    tensor<Scalar> lse({1, 1, L, 1});
                    const auto out = attention(q, k, v, {.scale = 1, .lse = lse, .isa = name});
                    for (std::ptrdiff_t l = 0; l < L; ++l) {
                        CHECK(std::memcmp(&out(0, 0, l, 0), &v(0, 0, key, 0), 24 * sizeof(Scalar)) == 0);
                        CHECK(lse(0, 0, l, 0) == size * k(0, 0, key, 0));
                    }
                    k(0, 0, 30, 0) = size > 0 ? infinity : -infinity;
                    CHECK(all_nan(attention(q, k, v, {.scale = 1, .isa = name}).data(), L * 24));
                    CHECK(all_nan(attention_loop(q, k, v, {.scale = 1}).data(), L * 24));
                }
    });
}
