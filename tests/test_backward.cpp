// The gradients against finite differences, against their definition, and against their readable twin.
#include <headwise/backward.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores_loop.hpp>

#include "bits.hpp"
#include "layouts.hpp"
#include "reference.hpp"
#include "refusal.hpp"

using namespace headwise;
using test::laid_out, test::refusal, test::same_bits;

namespace {

template <class Scalar>
struct problem {
    tensor<Scalar> q, k, dout;
    problem(std::ptrdiff_t B, std::ptrdiff_t H, std::ptrdiff_t L, std::ptrdiff_t M, std::ptrdiff_t D)
        : q(randn<Scalar>({B, H, L, D}, 1)), k(randn<Scalar>({B, H, M, D}, 2)), dout(randn<Scalar>({B, H, L, M}, 3)) {}
};

template <class Scalar>
tensor<Scalar> transposed(const tensor<Scalar>& x) {
    tensor<Scalar> result({x.shape()[0], x.shape()[1], x.shape()[3], x.shape()[2]});
    for (std::ptrdiff_t b = 0; b < x.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < x.shape()[1]; ++h)
            if (x.size() != 0) result.head(b, h) = x.head(b, h).transpose();
    return result;
}

/// Empty, or where dq or dk is further from its definition than rounding explains.
template <class Scalar, class DQ, class DK>
std::string mismatch(const problem<Scalar>& p, const DQ& dq, const DK& dk, double scale = 1) {
    const std::string in_dq = test::mismatch(dq, p.dout, transposed(p.k), scale),
                      in_dk = test::mismatch(dk, transposed(p.dout), transposed(p.q), scale);
    return !in_dq.empty() ? "dq " + in_dq : !in_dk.empty() ? "dk " + in_dk : "";
}

/// A function of the scores whose gradient with respect to them is dout.
double weighted_sum(const tensor<double>& scores, const tensor<double>& dout) {
    double sum = 0;
    for (std::ptrdiff_t i = 0; i < scores.size(); ++i) sum += scores.data()[i] * dout.data()[i];
    return sum;
}

}  // namespace

TEST_CASE("central differences of a function of the scores, at every element of q and k") {
    problem<double> p(2, 2, 5, 7, 3);
    const double scale = 0.7, step = 0.5;  // the scores are linear in each element: any step is exact but for rounding
    const auto [dq, dk] = batched_scores_backward(p.q, p.k, p.dout, {.scale = scale});
    const auto check = [&](tensor<double>& input, const tensor<double>& gradient) {
        REQUIRE(gradient.shape() == input.shape());
        for (std::ptrdiff_t i = 0; i < input.size(); ++i) {
            double& x = input.data()[i];
            const double before = x;
            const auto at = [&](double value) {
                x = value;
                return weighted_sum(batched_scores_vectorized(p.q, p.k, {.scale = scale}), p.dout);
            };
            const double difference = (at(before + step) - at(before - step)) / (2 * step);
            x = before;
            CHECK(std::abs(difference - gradient.data()[i]) < 1e-12);
        }
    };
    check(p.q, dq);
    check(p.k, dk);
}

TEST_CASE("grouped heads: central differences, and the sum over the group in one chain") {
    const auto q = randn<double>({2, 6, 5, 3}, 1), dout = randn<double>({2, 6, 5, 7}, 3);
    auto k = randn<double>({2, 2, 7, 3}, 2);
    const auto [dq, dk] = batched_scores_backward(q, k, dout);
    for (std::ptrdiff_t i = 0; i < k.size(); ++i) {
        const auto at = [&, before = k.data()[i]](double step) {
            k.data()[i] = before + step;
            const double value = weighted_sum(batched_scores_loop(q, k), dout);
            k.data()[i] = before;
            return value;
        };
        CHECK(std::abs(at(0.5) - at(-0.5) - dk.data()[i]) < 1e-12);
    }
    // As stacked heads, it is the ungrouped gradient: bit by bit.
    const tensor_view<const double> stacked_q(q.data(), {2, 2, 15, 3}), stacked_dout(dout.data(), {2, 2, 15, 7});
    const auto stacked = batched_scores_backward(stacked_q, k, stacked_dout);
    CHECK(std::memcmp(stacked.dq.data(), dq.data(), 180 * sizeof(double)) == 0);
    CHECK(same_bits(stacked.dk, dk));
    const auto looped = batched_scores_backward_loop(q, k, dout);
    for (std::ptrdiff_t i = 0; i < dq.size(); ++i) CHECK(std::abs(looped.dq.data()[i] - dq.data()[i]) < 1e-13);
    for (std::ptrdiff_t i = 0; i < dk.size(); ++i) CHECK(std::abs(looped.dk.data()[i] - dk.data()[i]) < 1e-13);
}

TEST_CASE("grouped heads that do not lie one below the other are refused by the fused one, done by the loop") {
    const auto q = randn<double>({2, 4, 5, 3}, 1), k = randn<double>({2, 2, 7, 3}, 2),
               dout = randn<double>({2, 4, 5, 7}, 3);
    const test::layout blhd{.name = "(b,l,h,d)", .order = {0, 2, 1, 3}};
    const laid_out<double> q_there(q, blhd), dout_there(dout, blhd), one_row(randn<double>({2, 4, 1, 3}, 4), blhd);
    tensor<double> dq(q.shape()), dk(k.shape());
    std::fill_n(dq.data(), dq.size(), 42.0);
    CHECK(
        refusal([&] { batched_scores_backward(q_there.view(), k, dout, dq, dk); }) ==
        "q (2, 4, 5, 3) with strides (60, 3, 12, 1): the heads that share a head of k must lie one below the other, L "
        "rows apart; make a dense copy first");
    CHECK(refusal([&] { batched_scores_backward(q, k, dout_there.view(), dq, dk); }) ==
          "dout (2, 4, 5, 7) with strides (140, 7, 28, 1): the heads that share a head of k must lie one below the "
          "other, "
          "L rows apart; make a dense copy first");
    CHECK(std::all_of(dq.data(), dq.data() + dq.size(), [](double x) { return x == 42; }));
    const auto expected = batched_scores_backward(q, k, dout);
    batched_scores_backward_loop(q_there.view(), k, dout_there.view(), dq, dk);
    for (std::ptrdiff_t i = 0; i < dk.size(); ++i) CHECK(std::abs(expected.dk.data()[i] - dk.data()[i]) < 1e-13);

    // One row a head is a stack however the heads lie; k and the gradients may lie anywhere.
    const auto row_dout = randn<double>({2, 4, 1, 7}, 5);
    const laid_out<double> k_there(k, blhd), dq_there(shape4{2, 4, 1, 3}, blhd), dk_there(k.shape(), blhd);
    batched_scores_backward(one_row.view(), k_there.view(), row_dout, dq_there.view(), dk_there.view());
    const auto row = batched_scores_backward_loop(one_row.view(), k, row_dout);
    for (std::ptrdiff_t m = 0; m < 7; ++m) CHECK(std::abs(dk_there.view()(1, 1, m, 2) - row.dk(1, 1, m, 2)) < 1e-13);
    CHECK(std::abs(dq_there.view()(1, 3, 0, 2) - row.dq(1, 3, 0, 2)) < 1e-13);
}

TEST_CASE_TEMPLATE("fused and loop give the gradients at small and edge shapes", Scalar, float, double) {
    for (const std::ptrdiff_t L : {1, 3, 17, 33})
        for (const std::ptrdiff_t M : {1, 2, 16, 49})
            for (const std::ptrdiff_t D : {1, 3, 8, 64}) {
                const problem<Scalar> p(2, 3, L, M, D);
                CAPTURE(detail::text_of(p.q.shape()));
                CAPTURE(M);
                const auto fused = batched_scores_backward(p.q, p.k, p.dout);
                CHECK(mismatch(p, fused.dq, fused.dk) == "");
                const auto looped = batched_scores_backward_loop(p.q, p.k, p.dout);
                CHECK(mismatch(p, looped.dq, looped.dk) == "");
            }
}

TEST_CASE_TEMPLATE("every layout of the five, and nothing else is written", Scalar, float, double) {
    const problem<Scalar> p(2, 3, 9, 21, 12);
    for (const test::layout& how : test::layouts()) {
        CAPTURE(how.name);
        const laid_out<Scalar> q(p.q, how), k(p.k, how), dout(p.dout, how), dq(p.q.shape(), how), dk(p.k.shape(), how),
            loop_dq(p.q.shape(), how), loop_dk(p.k.shape(), how);
        batched_scores_backward(q.view(), k.view(), dout.view(), dq.view(), dk.view(), {.scale = 0.3});
        CHECK(mismatch(p, dq.view(), dk.view(), 0.3) == "");
        batched_scores_backward_loop(q.view(), k.view(), dout.view(), loop_dq.view(), loop_dk.view());
        CHECK(mismatch(p, loop_dq.view(), loop_dk.view()) == "");
        for (const laid_out<Scalar>* out : {&dq, &dk, &loop_dq, &loop_dk}) CHECK(out->written() == out->view().size());
    }
}

TEST_CASE("the same bits on any number of threads; every isa within rounding") {
    const problem<float> p(4, 4, 150, 160, 64);  // enough for a third thread
    for (const isa name : supported_isas()) {
        const auto one = batched_scores_backward(p.q, p.k, p.dout, {.isa = name});
        const auto three = batched_scores_backward(p.q, p.k, p.dout, {.threads = 3, .isa = name});
        CHECK(mismatch(p, one.dq, one.dk) == "");
        CHECK(same_bits(one.dq, three.dq));
        CHECK(same_bits(one.dk, three.dk));
    }
}

TEST_CASE("no rows, no columns, no depth: zeros where nothing is summed, nothing where nothing is") {
    for (const auto& [H, L, M, D] :
         {shape4{3, 0, 4, 5}, {3, 4, 0, 5}, {3, 4, 6, 0}, {3, 0, 0, 5}, {6, 0, 4, 5}, {6, 4, 0, 5}, {0, 4, 6, 5}}) {
        problem<float> p(2, H, L, M, D);
        p.k = tensor<float>({2, 3, M, D});  // for six heads of q, or for none
        tensor<float> dq(p.q.shape()), dk(p.k.shape());
        for (const bool fused : {true, false}) {
            std::fill_n(dq.data(), dq.size(), 42.0f);
            std::fill_n(dk.data(), dk.size(), 42.0f);
            if (fused) batched_scores_backward(p.q, p.k, p.dout, dq, dk);
            else batched_scores_backward_loop(p.q, p.k, p.dout, dq, dk);
            CHECK(std::all_of(dq.data(), dq.data() + dq.size(), [](float x) { return x == 0; }));
            CHECK(std::all_of(dk.data(), dk.data() + dk.size(), [](float x) { return x == 0; }));
        }
    }
}

TEST_CASE("no batches of more rows than can be counted: nothing to write, nothing to refuse") {
    constexpr std::ptrdiff_t rows = std::ptrdiff_t{1} << (std::numeric_limits<std::ptrdiff_t>::digits - 1);
    const tensor<float> q({0, 4, rows, 5}), k({0, 2, 3, 5}), dout({0, 4, rows, 3});
    tensor<float> dq(q.shape()), dk(k.shape());
    CHECK(refusal([&] { batched_scores_backward(q, k, dout, dq, dk); }) == "nothing was refused");
    CHECK(refusal([&] { batched_scores_backward_loop(q, k, dout, dq, dk); }) == "nothing was refused");
}

TEST_CASE("a workspace of the caller's: enough for both products, or refused before the first") {
    const problem<float> p(2, 3, 140, 20, 33);  // the second product needs more than the first
    tensor<float> dq(p.q.shape()), dk(p.k.shape());
    const std::size_t bytes = scores_backward_workspace_bytes(p.q, p.k, p.dout, dq, dk);
    REQUIRE(bytes > 1);
    std::vector<std::byte> memory(bytes);
    batched_scores_backward(p.q, p.k, p.dout, dq, dk, {.workspace = memory});
    CHECK(mismatch(p, dq, dk) == "");
    std::fill_n(dq.data(), dq.size(), 42.0f);
    CHECK(refusal([&] {
              batched_scores_backward(p.q, p.k, p.dout, dq, dk, {.workspace = std::span(memory).first(bytes - 1)});
          }) ==
          "options.workspace has " + std::to_string(bytes - 1) + " bytes; this call needs " + std::to_string(bytes));
    const std::span<std::byte> of_dk =
        std::as_writable_bytes(std::span(dk.data(), static_cast<std::size_t>(dk.size())));
    CHECK(refusal([&] { batched_scores_backward(p.q, p.k, p.dout, dq, dk, {.workspace = of_dk}); }) ==
          "options.workspace overlaps the memory of dk (2, 3, 20, 33); it must be memory of its own");
    CHECK(std::all_of(dq.data(), dq.data() + dq.size(), [](float x) { return x == 42; }));
}

TEST_CASE("refused by name, before dq and dk are touched, by the fused one and the loop alike") {
    const problem<float> p(2, 4, 3, 5, 6);
    auto buffer = randn<float>({1, 1, 1, 4000}, 4);
    const tensor<float> before = buffer;
    const tensor_view<float> dq(buffer.data(), {2, 4, 3, 6}), dk(buffer.data() + 1000, {2, 4, 5, 6});
    const auto refused = [&](const auto& q, const auto& k, const auto& dout, const auto& to_q, const auto& to_k) {
        const std::string fused = refusal([&] { batched_scores_backward(q, k, dout, to_q, to_k); });
        CHECK(refusal([&] { batched_scores_backward_loop(q, k, dout, to_q, to_k); }) == fused);
        return fused;
    };
    const auto view = [&](std::ptrdiff_t offset, const shape4& shape) {
        return tensor_view<const float>(buffer.data() + offset, shape);
    };
    const auto into = [&](std::ptrdiff_t offset, const shape4& shape) {
        return tensor_view<float>(buffer.data() + offset, shape);
    };
    CHECK(refused(p.q, view(3000, {2, 3, 5, 6}), p.dout, dq, dk) ==
          "q (2, 4, 3, 6) and k (2, 3, 5, 6): the number of heads H (axis 1) of q must be a multiple of that of k");
    CHECK(refused(p.q, view(3000, {2, 4, 5, 7}), p.dout, dq, dk) ==
          "q (2, 4, 3, 6) and k (2, 4, 5, 7) must have the same depth D (axis 3)");
    CHECK(refused(p.q, p.k, view(3000, {2, 4, 5, 3}), dq, dk) ==
          "dout (2, 4, 5, 3) must have the shape of the scores, (2, 4, 3, 5)");
    CHECK(refused(p.q, p.k, p.dout, dk, dk) == "dq (2, 4, 5, 6) must have the shape of q, (2, 4, 3, 6)");
    CHECK(refused(p.q, p.k, p.dout, dq, into(1000, {2, 4, 3, 6})) ==
          "dk (2, 4, 3, 6) must have the shape of k, (2, 4, 5, 6)");
    CHECK(refused(p.q, p.k, p.dout, tensor_view(buffer.data(), {2, 4, 3, 6}, {72, 0, 6, 1}), dk) ==
          "dq (2, 4, 3, 6) with strides (72, 0, 6, 1): its elements overlap one another; each must have an address of "
          "its own");
    CHECK(refused(p.q, p.k, p.dout, dq, tensor_view(buffer.data() + 1000, {2, 4, 5, 6}, {0, 30, 6, 1})) ==
          "dk (2, 4, 5, 6) with strides (0, 30, 6, 1): its elements overlap one another; each must have an address of "
          "its own");
    const auto overlap = [](const std::string& gradient, const std::string& name, const char* shape) {
        return gradient + " overlaps the memory of " + name + " " + shape + "; a gradient needs memory of its own";
    };
    CHECK(refused(view(143, {2, 4, 3, 6}), p.k, p.dout, dq, dk) == overlap("dq (2, 4, 3, 6)", "q", "(2, 4, 3, 6)"));
    CHECK(refused(p.q, view(143, {2, 4, 5, 6}), p.dout, dq, dk) == overlap("dq (2, 4, 3, 6)", "k", "(2, 4, 5, 6)"));
    CHECK(refused(p.q, p.k, view(143, {2, 4, 3, 5}), dq, dk) == overlap("dq (2, 4, 3, 6)", "dout", "(2, 4, 3, 5)"));
    CHECK(refused(p.q, p.k, p.dout, dq, into(143, {2, 4, 5, 6})) == overlap("dq (2, 4, 3, 6)", "dk", "(2, 4, 5, 6)"));
    CHECK(refused(view(1239, {2, 4, 3, 6}), p.k, p.dout, dq, dk) == overlap("dk (2, 4, 5, 6)", "q", "(2, 4, 3, 6)"));
    CHECK(refused(p.q, view(1239, {2, 4, 5, 6}), p.dout, dq, dk) == overlap("dk (2, 4, 5, 6)", "k", "(2, 4, 5, 6)"));
    CHECK(refused(p.q, p.k, view(1239, {2, 4, 3, 5}), dq, dk) == overlap("dk (2, 4, 5, 6)", "dout", "(2, 4, 3, 5)"));
    CHECK(refusal([&] { batched_scores_backward(p.q, p.k, p.dout, dq, dk, {.threads = -2}); }) ==
          "options.threads = -2: must be >= 0 (0: all)");
    CHECK(refusal([&] { (void)batched_scores_backward(p.q, p.k, p.q); }) ==
          "dout (2, 4, 3, 6) must have the shape of the scores, (2, 4, 3, 5)");
    CHECK(refusal([&] { (void)batched_scores_backward_loop(p.q, p.k, p.q); }) ==
          "dout (2, 4, 3, 6) must have the shape of the scores, (2, 4, 3, 5)");
    CHECK(same_bits(buffer, before));
}
