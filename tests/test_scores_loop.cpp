#include <headwise/scores_loop.hpp>

#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/npy.hpp>

#include "layouts.hpp"
#include "reference.hpp"

using namespace headwise;
using test::laid_out, test::layouts, test::mismatch;

namespace {

constexpr float nan_f = std::numeric_limits<float>::quiet_NaN();

template <class Scalar>
tensor<Scalar> filled(const shape4& shape, Scalar value) {
    tensor<Scalar> result(shape);
    std::fill_n(result.data(), result.size(), value);
    return result;
}

}  // namespace

TEST_CASE_TEMPLATE("the loop computes einsum(bhld,bhmd->bhlm) at every small and edge shape", Scalar, float, double) {
    for (const std::ptrdiff_t L : {1, 2, 3, 8, 17, 33})
        for (const std::ptrdiff_t M : {1, 2, 5, 16, 31})
            for (const std::ptrdiff_t D : {0, 1, 2, 3, 8, 15, 64, 67}) {
                const auto q = randn<Scalar>({2, 3, L, D}, 1);
                const auto k = randn<Scalar>({2, 3, M, D}, 2);
                CAPTURE(detail::text_of(q.shape()));
                CAPTURE(detail::text_of(k.shape()));
                CHECK(mismatch(batched_scores_loop(q, k), q, k) == "");
            }
}

TEST_CASE("two by two, by hand") {
    tensor<double> q({1, 1, 2, 2}), k({1, 1, 2, 2});
    std::copy_n(std::initializer_list<double>{1, 2, 3, 4}.begin(), 4, q.data());
    std::copy_n(std::initializer_list<double>{5, 6, 7, 8}.begin(), 4, k.data());
    const tensor<double> out = batched_scores_loop(q, k);
    CHECK(std::vector<double>(out.data(), out.data() + 4) == std::vector<double>{17, 23, 39, 53});
}

TEST_CASE_TEMPLATE("every layout of q, k and out gives the result of dense data and reads and writes nothing else",
                   Scalar, float, double) {
    const auto q = randn<Scalar>({2, 3, 9, 12}, 3);
    const auto k = randn<Scalar>({2, 3, 21, 12}, 4);
    const shape4 result = {2, 3, 9, 21};
    for (const auto& how : layouts()) {
        CAPTURE(how.name);
        const laid_out<Scalar> q_there(q, how), k_there(k, how), out(result, how), out_of_both(result, how);
        CHECK(mismatch(batched_scores_loop(q_there.view(), k), q, k) == "");
        CHECK(mismatch(batched_scores_loop(q, k_there.view()), q, k) == "");
        batched_scores_loop(q, k, out.view());
        CHECK(mismatch(out.view(), q, k) == "");
        CHECK(out.written() == out.view().size());
        batched_scores_loop(q_there.view(), k_there.view(), out_of_both.view());
        CHECK(mismatch(out_of_both.view(), q, k) == "");
        CHECK(out_of_both.written() == out.view().size());
    }
}

TEST_CASE("zero strides broadcast: one head of k for all, one row of q for all, one value of all") {
    const auto q = randn<float>({2, 3, 4, 8}, 5);
    const auto k = randn<float>({1, 1, 6, 8}, 6);
    const tensor_view<const float> every_head(k.data(), {2, 3, 6, 8}, {0, 0, 8, 1});
    const tensor_view<const float> every_row(q.data(), {2, 3, 4, 8}, {96, 32, 0, 1});
    const tensor_view<const float> one_value(q.data(), {2, 3, 4, 8}, {0, 0, 0, 0});
    CHECK(mismatch(batched_scores_loop(q, every_head), q, every_head) == "");
    CHECK(mismatch(batched_scores_loop(every_row, every_head), every_row, every_head) == "");
    CHECK(mismatch(batched_scores_loop(one_value, every_head), one_value, every_head) == "");
}

TEST_CASE("the strides of axes of one element do not matter") {
    const std::ptrdiff_t junk = std::numeric_limits<std::ptrdiff_t>::min();
    const auto q = randn<float>({1, 1, 1, 5}, 7);
    const auto k = randn<float>({1, 1, 3, 5}, 8);
    tensor<float> out({1, 1, 1, 3});
    batched_scores_loop(tensor_view(q.data(), q.shape(), {junk, ~junk, junk, 1}), k,
                        tensor_view(out.data(), out.shape(), {junk, junk, junk, 1}));
    CHECK(mismatch(out, q, k) == "");

    const tensor_view column(q.data(), {1, 1, 5, 1}, {junk, junk, 1, junk});
    CHECK(mismatch(batched_scores_loop(column, column), column, column) == "");
}

TEST_CASE("depth 0 gives exact zeros over an old output, from any pointer, null or into out") {
    auto out = filled<float>({2, 3, 4, 5}, nan_f);
    batched_scores_loop(tensor<float>({2, 3, 4, 0}), tensor<float>({2, 3, 5, 0}), out);
    CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 0 && !std::signbit(x); }));

    out = filled<float>({2, 3, 4, 5}, nan_f);
    const tensor_view<const float> q(nullptr, {2, 3, 4, 0}, {999, -99, 9, 1}), k(out.data(), {2, 3, 5, 0});
    batched_scores_loop(q, k, out);
    CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 0 && !std::signbit(x); }));
}

TEST_CASE("an empty batch, head, row or column count writes nothing") {
    for (const auto& [q, k] : std::initializer_list<std::pair<shape4, shape4>>{{{0, 3, 4, 5}, {0, 3, 6, 5}},
                                                                               {{2, 0, 4, 5}, {2, 0, 6, 5}},
                                                                               {{2, 3, 0, 5}, {2, 3, 6, 5}},
                                                                               {{2, 3, 4, 5}, {2, 3, 0, 5}}}) {
        float untouched = 42;
        const shape4 result = detail::scores_shape(q, k);
        batched_scores_loop(randn<float>(q, 1), randn<float>(k, 2), tensor_view(&untouched, result));
        CHECK(untouched == 42);
        CHECK(batched_scores_loop(randn<float>(q, 1), randn<float>(k, 2)).shape() == result);
    }
}

TEST_CASE("NaN and infinity of the inputs show where they belong and nowhere else; those of an old output never do") {
    auto q = randn<float>({1, 2, 5, 9}, 9);
    const auto k = randn<float>({1, 2, 7, 9}, 10);
    q(0, 1, 2, 3) = nan_f;
    q(0, 0, 4, 8) = std::numeric_limits<float>::infinity();
    auto out = filled<float>({1, 2, 5, 7}, nan_f);
    batched_scores_loop(q, k, out);
    CHECK(mismatch(out, q, k) == "");
    CHECK(std::count_if(out.data(), out.data() + out.size(), [](float x) { return std::isnan(x); }) == 7);
    CHECK(std::count_if(out.data(), out.data() + out.size(), [](float x) { return std::isinf(x); }) == 7);
}

TEST_CASE("q and k may be the same tensor, and out may lie between their elements") {
    const auto q = randn<float>({2, 2, 6, 4}, 11);
    CHECK(mismatch(batched_scores_loop(q, q), q, q) == "");

    auto buffer = randn<float>({1, 1, 6, 16}, 12);  // each row: 4 of q, 4 of k, 6 of out, 2 of nobody
    const tensor<float> before = buffer;
    const strides4 strides = {96, 96, 16, 1};
    const tensor_view<const float> left(buffer.data(), {1, 1, 6, 4}, strides),
        right(buffer.data() + 4, {1, 1, 6, 4}, strides);
    const tensor_view<float> out(buffer.data() + 8, {1, 1, 6, 6}, strides);
    batched_scores_loop(left, right, out);
    CHECK(mismatch(out, left, right) == "");
    for (std::ptrdiff_t l = 0; l < 6; ++l)
        for (const std::ptrdiff_t d : {0, 1, 2, 3, 4, 5, 6, 7, 14, 15}) CHECK(buffer(0, 0, l, d) == before(0, 0, l, d));
}

TEST_CASE("the reference gives the scores that PyTorch gave") {
    for (const std::string name : {"seed", "ocr"}) {
        const auto from = [&name](const char* what) {
            return load_npy<float>(std::string(HEADWISE_TEST_DATA "/") + name + what);
        };
        CHECK(mismatch(from("_scores.npy"), from("_q.npy"), from("_k.npy")) == "");
    }
}

TEST_CASE("the reference finds one wrong element") {
    const auto q = randn<float>({2, 2, 5, 64}, 13), k = randn<float>({2, 2, 6, 64}, 14);
    tensor<float> out = batched_scores_loop(q, k);
    const tensor<double> allowed = test::bound(q, k);
    CHECK(allowed(1, 1, 4, 5) < 1e-3);
    out(1, 1, 4, 5) += 2 * static_cast<float>(allowed(1, 1, 4, 5));
    CHECK(mismatch(out, q, k).starts_with("at (1, 1, 4, 5) is "));
    out(1, 1, 4, 5) = nan_f;
    CHECK(mismatch(out, q, k).starts_with("at (1, 1, 4, 5) is nan"));
}
