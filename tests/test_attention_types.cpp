// Attention to sixteen-bit tensors: on every target the bits of attention to the same values as floats, rounded once.
#include <headwise/attention.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>

#include "attention_reference.hpp"
#include "bits.hpp"
#include "guarded.hpp"
#include "layouts.hpp"

using namespace headwise;
using test::extents, test::same_or_nan, test::widened;

namespace {

using Eigen::bfloat16, Eigen::half;

template <class Body>
void for_both(const Body& body) {
    body(bfloat16{});
    body(half{});
}
template <class Body>
void on_every_target(const Body& body) {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        for_both([&](auto scalar) { body(name, scalar); });
    }
}

/// How many elements of `is` are not those of `must`, rounded by Eigen to their type; -1 for another shape.
template <class Is>
std::ptrdiff_t wrong(const Is& is_like, const tensor<float>& must) {
    const auto is = as_view(is_like);
    using Scalar = scalar_of<Is>;
    if (is.shape() != must.shape()) return -1;
    const auto [B, H, L, M] = must.shape();
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    count += !same_or_nan<Scalar>(is(b, h, l, m), static_cast<Scalar>(must(b, h, l, m)));
    return count;
}

/// Attention, weights and logits of sixteen bits, to both types of result, against those of the same values as floats.
template <class Scalar>
void check_all(const tensor<Scalar>& q, const tensor<Scalar>& k, const tensor<Scalar>& v,
               attention_options<float> options) {
    const tensor<float> wide_q = widened(q), wide_k = widened(k), wide_v = widened(v);
    const shape4 rows{q.shape()[0], q.shape()[1], q.shape()[2], 1};
    tensor<float> lse(rows), same_lse(rows);
    options.lse = lse;
    const tensor<float> must = attention(wide_q, wide_k, wide_v, options);
    tensor<float> exact(must.shape());
    options.lse = same_lse;
    CHECK(wrong(attention(q, k, v, options), must) == 0);
    CHECK(wrong(same_lse, lse) == 0);
    same_lse = tensor<float>(rows);
    options.lse = same_lse;
    attention(q, k, v, exact, options);
    CHECK(wrong(exact, must) == 0);
    CHECK(wrong(same_lse, lse) == 0);

    options.lse = lse;
    const tensor<float> weights = attention_weights(wide_q, wide_k, options),
                        logits = attention_logits(wide_q, wide_k, options);
    options.lse = same_lse;
    tensor<float> exact_weights(weights.shape());
    CHECK(wrong(attention_weights(q, k, options), weights) == 0);
    attention_weights(q, k, exact_weights, options);
    CHECK(wrong(exact_weights, weights) == 0);
    CHECK(wrong(same_lse, lse) == 0);
    CHECK(wrong(attention_logits(q, k, options), logits) == 0);
}

/// Sixteen-bit elements laid out as floats are, in memory whose other elements are NaN.
template <class Scalar>
class laid_out {
public:
    laid_out(const shape4& shape, const test::layout& how) {
        const strides4 strides = test::laid_out<float>(shape, how).view().strides();
        std::ptrdiff_t before = how.offset, after = 16;
        for (std::size_t axis = 0; axis < 4; ++axis)
            (strides[axis] < 0 ? before : after) += std::abs(strides[axis]) * (shape[axis] - 1);
        memory_.assign(static_cast<std::size_t>(before + after), std::numeric_limits<Scalar>::quiet_NaN());
        view_ = tensor_view<Scalar>(memory_.data() + before, shape, strides);
    }
    laid_out(const tensor<Scalar>& values, const test::layout& how) : laid_out(values.shape(), how) {
        const auto [B, H, L, D] = values.shape();
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t d = 0; d < D; ++d) view_(b, h, l, d) = values(b, h, l, d);
    }
    laid_out(const laid_out&) = delete;
    laid_out& operator=(const laid_out&) = delete;

    [[nodiscard]] tensor_view<Scalar> view() const { return view_; }
    [[nodiscard]] std::ptrdiff_t written() const {
        return std::count_if(memory_.begin(), memory_.end(), [](Scalar x) { return x == x; });
    }

private:
    std::vector<Scalar> memory_;
    tensor_view<Scalar> view_;
};

/// Few rows and many, whole vectors and parts, one block of columns and several, groups; nothing to see, or to sum.
const std::vector<extents> shapes{
    {1, 1, 1, 1, 1, 1, 1},     {2, 6, 2, 1, 1300, 64, 64}, {1, 4, 1, 3, 700, 33, 50},   {1, 2, 2, 5, 7, 8, 9},
    {2, 2, 1, 20, 50, 64, 64}, {1, 3, 3, 49, 49, 32, 32},  {1, 2, 1, 30, 1100, 40, 72}, {1, 6, 2, 33, 77, 80, 80},
    {1, 1, 1, 15, 600, 16, 7}, {1, 2, 1, 4, 513, 130, 3},  {1, 1, 1, 29, 33, 1024, 20}, {1, 2, 1, 3, 0, 5, 6},
    {1, 1, 1, 20, 0, 5, 6},    {1, 2, 1, 9, 30, 0, 16},    {1, 2, 1, 9, 30, 5, 0},      {1, 2, 1, 2, 30, 5, 0},
};

template <class Q, class Out>
concept attends = requires(const Q& q, Out& out) {
    attention(q, q, q, out);
};
template <class Q, class Out>
concept weighs = requires(const Q& q, Out& out) {
    attention_weights(q, q, out);
};
template <class Q, class Out>
concept loops = requires(const Q& q, Out& out) {
    attention_loop(q, q, q, out);
};
template <class In, class Out>
constexpr int takers =
    attends<tensor<In>, tensor<Out>> + weighs<tensor<In>, tensor<Out>> + loops<tensor<In>, tensor<Out>>;

static_assert(takers<bfloat16, bfloat16> == 3 && takers<bfloat16, float> == 3);
static_assert(takers<half, half> == 3 && takers<half, float> == 3);
static_assert(takers<bfloat16, half> == 0 && takers<half, double> == 0);
static_assert(takers<float, half> == 0 && takers<float, double> == 0);
static_assert(std::is_same_v<attention_options_for<tensor<half>>, attention_options<float>>);
static_assert(std::is_same_v<attention_options_for<tensor<double>>, attention_options<double>>);

}  // namespace

TEST_CASE("the bits of attention to the same values as floats, rounded once: every target, shape and option") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const extents& n : shapes) {
            CAPTURE(n.text());
            const auto q = randn<Scalar>({n.B, n.H, n.L, n.D}, 1), k = randn<Scalar>({n.B, n.Hkv, n.M, n.D}, 2),
                       v = randn<Scalar>({n.B, n.Hkv, n.M, n.Dv}, 3);
            for (const auto& how : test::usual_cases(n)) {
                CAPTURE(how.name);
                how.with_options(name, [&](const attention_options<float>& options) { check_all(q, k, v, options); });
            }
        }
    });
}

TEST_CASE("what is masked does not count, whatever it holds; what is seen makes its rows, and no others, NaN") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {2, 20})
            for (const std::ptrdiff_t Dv : {32, 9}) {
                CAPTURE(L);
                CAPTURE(Dv);
                auto q = randn<Scalar>({1, 2, L, 24}, 1), k = randn<Scalar>({1, 1, 90, 24}, 2),
                     v = randn<Scalar>({1, 1, 90, Dv}, 3);
                tensor<bool> mask({1, 1, L, 90});
                for (std::ptrdiff_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 90 != 7;
                mask(0, 0, 1, 8) = mask(0, 0, 1, 9) = false;
                for (std::ptrdiff_t d = 0; d < Dv; ++d) {
                    v(0, 0, 7, d) = std::numeric_limits<Scalar>::quiet_NaN();
                    v(0, 0, 8, d) = -std::numeric_limits<Scalar>::infinity();
                }
                k(0, 0, 9, 3) = std::numeric_limits<Scalar>::quiet_NaN();
                const attention_options<float> options{.mask = mask, .isa = name};
                check_all(q, k, v, options);
                const test::layout apart{.step = 2};
                const laid_out<Scalar> v_apart(v, apart);
                const test::laid_out<float> wide_apart(widened(v), apart);
                const tensor<Scalar> of_apart = attention(q, k, v_apart.view(), options);
                CHECK(wrong(of_apart, attention(widened(q), widened(k), wide_apart.view(), options)) == 0);
                const tensor<Scalar> out = attention(q, k, v, options);
                for (std::ptrdiff_t d = 0; d < Dv; ++d) {
                    CHECK(std::isnan(static_cast<float>(out(0, 0, 0, d))));
                    CHECK(std::isfinite(static_cast<float>(out(0, 0, 1, d))));
                    CHECK(std::isfinite(static_cast<float>(of_apart(0, 0, 1, d))));
                }
            }
    });
}

TEST_CASE("every value there is comes through a weight of one") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        tensor<Scalar> v({1, 1, 1, 65536});
        for (std::ptrdiff_t i = 0; i < 65536; ++i) v.data()[i] = std::bit_cast<Scalar>(static_cast<std::uint16_t>(i));
        for (const std::ptrdiff_t L : {1, 6}) {
            const auto q = randn<Scalar>({1, 1, L, 8}, 1), k = randn<Scalar>({1, 1, 1, 8}, 2);
            const tensor<Scalar> out = attention(q, k, v, {.isa = name});
            std::ptrdiff_t count = 0;
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t i = 0; i < 65536; ++i) {
                    const float is = static_cast<float>(out(0, 0, l, i)), must = static_cast<float>(v.data()[i]);
                    count += !(is == must || (is != is && must != must));
                }
            CHECK(count == 0);
        }
    });
}

TEST_CASE("any strides, gaps and alignment: the float bits of that layout, and nothing beside it is written") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        auto layouts = test::layouts();
        layouts.push_back({.name = "rows 4096 bytes apart", .gap = 2048 - 21});
        for (const std::ptrdiff_t L : {3, 30}) {
            const auto q = randn<Scalar>({2, 2, L, 21}, 1), k = randn<Scalar>({2, 1, 37, 21}, 2),
                       v = randn<Scalar>({2, 1, 37, 24}, 3);
            const tensor<float> wide_q = widened(q), wide_k = widened(k), wide_v = widened(v);
            const tensor<float> weights = attention_weights(wide_q, wide_k, {.causal = true, .isa = name});
            for (const test::layout& how : layouts) {
                CAPTURE(L);
                CAPTURE(how.name);
                const test::laid_out<float> q_wide(wide_q, how), k_wide(wide_k, how), v_wide(wide_v, how);
                const attention_options<float> options{.causal = true, .isa = name};
                const auto must = attention(q_wide.view(), k_wide.view(), v_wide.view(), options);
                const laid_out<Scalar> q_at(q, how), k_at(k, how), v_at(v, how), out(must.shape(), how),
                    weights_at(weights.shape(), how);
                const test::laid_out<float> exact(must.shape(), how);
                attention(q_at.view(), k_at.view(), v_at.view(), out.view(), options);
                attention(q_at.view(), k_at.view(), v_at.view(), exact.view(), options);
                attention_weights(q_at.view(), k_at.view(), weights_at.view(), options);
                CHECK(wrong(out.view(), must) == 0);
                CHECK(wrong(exact.view(), must) == 0);
                CHECK(wrong(weights_at.view(), weights) == 0);
                CHECK(out.written() == must.size());
                CHECK(exact.written() == must.size());
                CHECK(weights_at.written() == weights.size());
            }
        }
    });
}

TEST_CASE("operands that end, or begin, at a protected page") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const test::guarded<Scalar> q_memory(4000), k_memory(20000), v_memory(20000), out_memory(4000);
        for (const std::ptrdiff_t L : {1, 4, 17})
            for (const std::ptrdiff_t M : {1, 5, 33, 300})
                for (const std::ptrdiff_t D : {1, 7, 16, 33})
                    for (const bool end : {true, false}) {
                        CAPTURE(detail::text_of({L, M, D, end}));
                        const auto place = [&](const test::guarded<Scalar>& memory, const tensor<Scalar>& values) {
                            Scalar* const at = memory.place(values.size(), end);
                            std::copy_n(values.data(), values.size(), at);
                            return tensor_view<Scalar>(at, values.shape());
                        };
                        const std::ptrdiff_t Dv = D == 33 ? 31 : D;
                        const auto q = randn<Scalar>({1, 1, L, D}, 1), k = randn<Scalar>({1, 1, M, D}, 2),
                                   v = randn<Scalar>({1, 1, M, Dv}, 3);
                        const tensor_view<Scalar> out(out_memory.place(L * Dv, end), {1, 1, L, Dv});
                        attention(place(q_memory, q), place(k_memory, k), place(v_memory, v), out, {.isa = name});
                        CHECK(wrong(out, attention(widened(q), widened(k), widened(v), {.isa = name})) == 0);
                    }
    });
}

TEST_CASE("weights larger than the caches, written around them") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const auto q = randn<Scalar>({1, 2, 1100, 8}, 1), k = randn<Scalar>({1, 1, 2048, 8}, 2);
        CHECK(wrong(attention_weights(q, k, {.isa = name}), attention_weights(widened(q), widened(k), {.isa = name})) ==
              0);
    });
}

TEST_CASE("threads change no bit; the workspace that is asked for is enough, and less is refused") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {2, 70}) {
            const auto q = randn<Scalar>({1, 6, L, 40}, 1), k = randn<Scalar>({1, 2, 1300, 40}, 2),
                       v = randn<Scalar>({1, 2, 1300, 72}, 3);
            const tensor<float> must = attention(widened(q), widened(k), widened(v), {.isa = name});
            for (const int threads : {1, 2, 3}) {
                attention_options<float> options{.threads = threads, .isa = name};
                CHECK(wrong(attention(q, k, v, options), must) == 0);
                tensor<Scalar> out(must.shape());
                const std::size_t bytes = attention_workspace_bytes(q, k, v, out, options);
                const test::guarded<std::byte> memory(static_cast<std::ptrdiff_t>(bytes));
                for (const bool end : {true, false}) {
                    options.workspace = {memory.place(static_cast<std::ptrdiff_t>(bytes), end), bytes};
                    attention(q, k, v, out, options);
                    CHECK(wrong(out, must) == 0);
                }
                options.workspace = options.workspace.first(bytes - 1);
                CHECK_THROWS_WITH_AS(attention(q, k, v, out, options), doctest::Contains("options.workspace has"),
                                     std::invalid_argument);
            }
        }
    });
}

TEST_CASE("the loops: within float's bound of the definition, rounded once") {
    for_both([]<class Scalar>(Scalar) {
        for (const extents& n : {extents{2, 4, 2, 5, 7, 8, 9}, extents{1, 2, 1, 20, 50, 33, 24}}) {
            const auto q = randn<Scalar>({n.B, n.H, n.L, n.D}, 1), k = randn<Scalar>({n.B, n.Hkv, n.M, n.D}, 2),
                       v = randn<Scalar>({n.B, n.Hkv, n.M, n.Dv}, 3);
            for (const auto& how : test::usual_cases(n)) {
                CAPTURE(how.name);
                const auto e = test::expect_attention(widened(q), widened(k), widened(v), how);
                how.with_options(isa::automatic, [&](attention_options<float> options) {
                    tensor<float> lse(e.lse.shape()), out(e.out.shape()), weights(e.weights.shape()),
                        logits(e.logits.shape());
                    options.lse = lse;
                    attention_loop(q, k, v, out, options);
                    attention_weights_loop(q, k, weights, options);
                    attention_logits_loop(q, k, logits, options);
                    CHECK(test::beyond(out, e.out, e.out_bound) == "");
                    CHECK(test::beyond(weights, e.weights, e.weights_bound) == "");
                    CHECK(test::beyond(logits, e.logits, e.logits_bound) == "");
                    CHECK(test::beyond(lse, e.lse, e.lse_bound) == "");
                    CHECK(wrong(attention_loop(q, k, v, options), out) == 0);
                    CHECK(wrong(attention_weights_loop(q, k, options), weights) == 0);
                    CHECK(wrong(attention_logits_loop(q, k, options), logits) == 0);
                });
            }
        }
    });
}

TEST_CASE("what is refused is refused before anything is written") {
    for_both([]<class Scalar>(Scalar) {
        tensor<Scalar> q({1, 2, 8, 8}), k({1, 1, 8, 8}), v({1, 1, 8, 8}), out({1, 2, 8, 8}), small({1, 2, 8, 7});
        tensor<float> lse({1, 2, 8, 1}), bias({1, 3, 8, 8});
        std::fill_n(lse.data(), lse.size(), 42.0f);
        std::fill_n(out.data(), out.size(), Scalar(42));
        const auto refuses = [](const std::string& what, const auto& call) {
            CAPTURE(what);
            CHECK_THROWS_WITH_AS(call(), doctest::Contains(what.c_str()), std::invalid_argument);
        };
        const auto all = [&](const std::string& what, auto& to, const attention_options<float>& options) {
            refuses(what, [&] { attention(q, k, v, to, options); });
            refuses(what, [&] { attention_loop(q, k, v, to, options); });
            refuses(what, [&] { attention_weights(q, k, to, options); });
            refuses(what, [&] { attention_weights_loop(q, k, to, options); });
            refuses(what, [&] { attention_logits_loop(q, k, to, options); });
        };
        all("overlaps the memory of q", q, {.lse = lse});
        all("must have the shape of the result, (1, 2, 8, 8)", small, {.lse = lse});
        all("options.bias (1, 3, 8, 8) must have the shape", out, {.bias = bias, .lse = lse});
        // Floats in the memory of sixteen-bit elements.
        const tensor_view<float> within(reinterpret_cast<float*>(out.data() + 64), {1, 2, 8, 1});
        all("out (1, 2, 8, 8) overlaps the memory of options.lse", out, {.lse = within});
        for (std::ptrdiff_t i = 0; i < lse.size(); ++i) CHECK(lse.data()[i] == 42.0f);
        for (std::ptrdiff_t i = 0; i < out.size(); ++i) CHECK(static_cast<float>(out.data()[i]) == 42.0f);
    });
}
