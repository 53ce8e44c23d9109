// Grouped heads: Hq heads of q share Hkv heads of k. Every head of the result has the bits that it has alone.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>

#include "bits.hpp"
#include "layouts.hpp"

using namespace headwise;
using test::elements_equal, test::laid_out, test::on_every_target, test::same_bits;

namespace {

template <class Scalar>
tensor_view<const Scalar> head_of(const tensor<Scalar>& t, std::ptrdiff_t b, std::ptrdiff_t h) {
    return {&t(b, h, 0, 0), {1, 1, t.shape()[2], t.shape()[3]}};
}

/// Head after head, each with its head of k alone.
template <class Scalar, class Scores>
tensor<Scalar> head_by_head(const tensor<Scalar>& q, const tensor<Scalar>& k, const Scores& scores) {
    const auto [B, H, L, D] = q.shape();
    tensor<Scalar> out({B, H, L, k.shape()[2]});
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            scores(head_of(q, b, h), head_of(k, b, h / (H / k.shape()[1])),
                   tensor_view<Scalar>(&out(b, h, 0, 0), {1, 1, L, k.shape()[2]}));
    return out;
}

struct grouped_case {
    std::ptrdiff_t B, kv_heads, group, L, M, D;
};

std::string text_of(const grouped_case& c) {
    return detail::text_of({c.B, c.kv_heads, c.group, c.L}) + ", M = " + std::to_string(c.M);
}

/// Few rows and many, alone and together; the odd columns; several blocks of columns.
const std::vector<grouped_case> cases{{2, 3, 2, 1, 37, 21},  {1, 1, 8, 1, 100, 64},   {2, 1, 12, 1, 33, 16},
                                      {2, 2, 2, 2, 300, 33}, {2, 2, 4, 2, 65, 64},    {1, 2, 3, 9, 49, 32},
                                      {2, 2, 3, 30, 37, 21}, {1, 2, 2, 20, 700, 257}, {1, 3, 2, 5, 1, 7}};

}  // namespace

TEST_CASE_TEMPLATE("the loop: every head of a group has the bits that it has alone, with no copy of k", Scalar, float,
                   double) {
    for (const auto& [B, kv_heads, group, L, M, D] : cases) {
        const auto q = randn<Scalar>({B, kv_heads * group, L, D}, 1), k = randn<Scalar>({B, kv_heads, M, D}, 2);
        const auto alone =
            head_by_head(q, k, [](const auto& a, const auto& b, const auto& out) { batched_scores_loop(a, b, out); });
        CHECK(same_bits(batched_scores_loop(q, k), alone));
    }
}

TEST_CASE("every head of a group has the bits that it has alone, wherever its rows lie") {
    auto layouts = test::layouts();
    layouts.resize(13);
    layouts.push_back({.name = "l outermost, h innermost", .order = {0, 2, 3, 1}});
    layouts.push_back({.name = "(l,b,h,d)", .order = {2, 0, 1, 3}});
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const grouped_case& c : cases) {
            CAPTURE(text_of(c));
            const auto q = randn<Scalar>({c.B, c.kv_heads * c.group, c.L, c.D}, 1);
            const auto k = randn<Scalar>({c.B, c.kv_heads, c.M, c.D}, 2);
            const scores_options options{.scale = 0.5, .isa = name};
            const auto alone = head_by_head(q, k, [&](const auto& a, const auto& b, const auto& out) {
                batched_scores_vectorized(a, b, out, options);
            });
            REQUIRE(same_bits(batched_scores_vectorized(q, k, options), alone));
            for (const auto& q_as : layouts)
                for (const auto& out_as : {layouts[0], layouts[1], layouts[4], q_as}) {
                    CAPTURE(q_as.name);
                    CAPTURE(out_as.name);
                    const laid_out<Scalar> q_at(q, q_as), k_at(k, q_as), out(alone.shape(), out_as);
                    batched_scores_vectorized(q_at.view(), k_at.view(), out.view(), options);
                    REQUIRE(elements_equal(out.view(), alone));
                    REQUIRE(out.written() == alone.size());
                }
        }
    });
}

TEST_CASE("threads cut a group by its members, rows or columns, and change no bit") {
    const test::layout dense{.name = "dense"}, blhd{.name = "(b,l,h,d)", .order = {0, 2, 1, 3}};
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const auto& [B, kv_heads, group, L, M, D] : std::vector<grouped_case>{{1, 1, 7, 20, 2000, 64},
                                                                                   {1, 1, 3, 300, 500, 40},
                                                                                   {1, 2, 8, 1, 20000, 64},
                                                                                   {1, 1, 4, 2, 30000, 64},
                                                                                   {2, 8, 2, 33, 192, 40},
                                                                                   {1, 1, 16, 2, 9000, 64},
                                                                                   {1, 2, 7, 20, 2000, 64}}) {
            const auto q = randn<Scalar>({B, kv_heads * group, L, D}, 1), k = randn<Scalar>({B, kv_heads, M, D}, 2);
            const auto alone = head_by_head(q, k, [&](const auto& a, const auto& b, const auto& out) {
                batched_scores_vectorized(a, b, out, {.isa = name});
            });
            for (const auto& out_as : {dense, blhd})
                for (const int threads : {1, 2, 3, 8}) {
                    CAPTURE(threads);
                    const std::ptrdiff_t rows = L;  // Clang 14's lambdas capture no structured bindings
                    CAPTURE(rows);
                    const laid_out<Scalar> q_at(q, blhd), out(alone.shape(), out_as);
                    batched_scores_vectorized(q_at.view(), k, out.view(), {.threads = threads, .isa = name});
                    REQUIRE(elements_equal(out.view(), alone));
                    REQUIRE(out.written() == alone.size());
                }
        }
    });
}

TEST_CASE("what the group's rows need of the workspace is one packed k, and no more") {
    const auto k = randn<float>({2, 2, 500, 64}, 2);
    const auto one = randn<float>({2, 2, 30, 64}, 1), six = randn<float>({2, 12, 30, 64}, 1);
    tensor<float> one_out({2, 2, 30, 500}), six_out({2, 12, 30, 500});
    CHECK(scores_workspace_bytes(one, k, one_out) == scores_workspace_bytes(six, k, six_out));
    const test::layout blhd{.name = "(b,l,h,d)", .order = {0, 2, 1, 3}};
    CHECK(scores_workspace_bytes(one, k, one_out) ==
          scores_workspace_bytes(laid_out<float>(six, blhd).view(), k, six_out));
}

TEST_CASE("numbers of heads that do not divide are refused, by both, with both shapes") {
    const tensor<float> q({2, 6, 3, 5}), k({2, 4, 7, 5}), none({2, 0, 7, 5});
    const std::string rule = ": the number of heads H (axis 1) of q must be a multiple of that of k";
    const auto refuses = [&](const auto& a, const auto& b) {
        const std::string why = "q " + detail::text_of(a.shape()) + " and k " + detail::text_of(b.shape()) + rule;
        CHECK_THROWS_WITH_AS(static_cast<void>(batched_scores_vectorized(a, b)), why.c_str(), std::invalid_argument);
        CHECK_THROWS_WITH_AS(static_cast<void>(batched_scores_loop(a, b)), why.c_str(), std::invalid_argument);
    };
    refuses(q, k);
    refuses(k, q);
    refuses(q, none);
    CHECK_THROWS_WITH(static_cast<void>(batched_scores_loop(q, tensor<float>({1, 4, 7, 5}))),
                      "q (2, 6, 3, 5) and k (1, 4, 7, 5) must have the same batch size B (axis 0)");
    CHECK(batched_scores_vectorized(none, k).shape() == shape4{2, 0, 7, 7});
    CHECK(batched_scores_loop(none, k).size() == 0);
    CHECK(batched_scores_vectorized(none, none).size() == 0);
}

TEST_CASE("D = 0 gives a group zeros") {
    tensor<float> out({2, 6, 3, 4}, uninitialized);
    std::fill_n(out.data(), out.size(), 7.0f);
    batched_scores_vectorized(tensor<float>({2, 6, 3, 0}), tensor<float>({2, 2, 4, 0}), out);
    CHECK(same_bits(out, tensor<float>({2, 6, 3, 4})));
}

TEST_CASE("the strides of axes of one element do not matter") {
    const auto spoiled = []<class Scalar>(const tensor_view<Scalar>& view) {
        strides4 strides = view.strides();
        for (std::size_t axis = 0; axis < 4; ++axis)
            if (view.shape()[axis] == 1) strides[axis] = std::numeric_limits<std::ptrdiff_t>::min();
        return tensor_view<Scalar>(view.data(), view.shape(), strides);
    };
    on_every_target([&]<class Scalar>(isa name, Scalar) {
        for (const auto& [L, M, D] :
             std::vector<std::array<std::ptrdiff_t, 3>>{{1, 40, 9}, {40, 1, 9}, {40, 33, 1}, {1, 1, 1}, {20, 1, 1}})
            for (const std::ptrdiff_t group : {1, 2}) {
                const auto q = randn<Scalar>({1, 2 * group, L, D}, 3), k = randn<Scalar>({1, 2, M, D}, 4);
                const auto expected = batched_scores_vectorized(q, k, {.isa = name});
                tensor<Scalar> out(expected.shape());
                batched_scores_vectorized(spoiled(q.view()), spoiled(k.view()), spoiled(out.view()), {.isa = name});
                CHECK(same_bits(out, expected));
            }
    });
}
