// Partial results over shards of the keys give the whole.
#include <headwise/merge_attention.hpp>

#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>

#include "refusal.hpp"

using namespace headwise;

namespace {

/// Keys [first, first + count) of k or v.
template <class Scalar>
tensor_view<const Scalar> shard(const tensor<Scalar>& t, std::ptrdiff_t first, std::ptrdiff_t count) {
    return {t.data() + first * t.shape()[3], {t.shape()[0], t.shape()[1], count, t.shape()[3]}, t.strides()};
}

template <class Scalar>
attention_part<Scalar> part(const tensor<Scalar>& q, const tensor_view<const Scalar>& k,
                            const tensor_view<const Scalar>& v) {
    attention_part<Scalar> result{tensor<Scalar>({q.shape()[0], q.shape()[1], q.shape()[2], v.shape()[3]}),
                                  tensor<Scalar>({q.shape()[0], q.shape()[1], q.shape()[2], 1})};
    attention(q, k, v, result.out, {.lse = result.lse});
    return result;
}

template <class Scalar>
double greatest_difference(const tensor<Scalar>& a, const tensor<Scalar>& b) {
    double most = 0;
    for (std::ptrdiff_t i = 0; i < a.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(a.data()[i] - b.data()[i])));
    return most;
}

}  // namespace

TEST_CASE_TEMPLATE("two shards, of any sizes, and three gathered in place, give the attention to all keys", Scalar,
                   float, double) {
    const double close = 20 * static_cast<double>(std::numeric_limits<Scalar>::epsilon());
    for (const std::ptrdiff_t L : {1, 20}) {
        const auto q = randn<Scalar>({2, 4, L, 16}, 1), k = randn<Scalar>({2, 2, 300, 16}, 2),
                   v = randn<Scalar>({2, 2, 300, 24}, 3);
        const auto whole = part<Scalar>(q, k, v);
        for (const std::ptrdiff_t cut : {0, 1, 128, 299, 300}) {
            CAPTURE(cut);
            const auto a = part(q, shard(k, 0, cut), shard(v, 0, cut)),
                       b = part(q, shard(k, cut, 300 - cut), shard(v, cut, 300 - cut));
            const auto merged = merge_attention(a.out, a.lse, b.out, b.lse);
            CHECK(greatest_difference(merged.out, whole.out) < close);
            CHECK(greatest_difference(merged.lse, whole.lse) < close);
        }
        auto gathered = part(q, shard(k, 0, 100), shard(v, 0, 100));
        for (const std::ptrdiff_t first : {100, 200}) {
            const auto next = part(q, shard(k, first, 100), shard(v, first, 100));
            merge_attention(gathered.out, gathered.lse, next.out, next.lse, gathered.out, gathered.lse);
        }
        CHECK(greatest_difference(gathered.out, whole.out) < close);
        CHECK(greatest_difference(gathered.lse, whole.lse) < close);
    }
}

TEST_CASE("in place, with other strides along axes of one element") {
    auto a = randn<float>({1, 2, 1, 4}, 1), lse_a = randn<float>({1, 2, 1, 1}, 2);
    const auto b = randn<float>({1, 2, 1, 4}, 3), lse_b = randn<float>({1, 2, 1, 1}, 4);
    const auto must = merge_attention(a, lse_a, b, lse_b);
    merge_attention(a, lse_a, b, lse_b, tensor_view<float>(a.data(), a.shape(), {1, 4, 77, 1}),
                    tensor_view<float>(lse_a.data(), lse_a.shape(), {0, 1, 9, -3}));
    CHECK(greatest_difference(a, must.out) == 0);
    CHECK(greatest_difference(lse_a, must.lse) == 0);
}

TEST_CASE("a shard in which nothing was seen does not count, whatever it holds; two of them are zero") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    tensor<float> a({1, 1, 1, 2}), b({1, 1, 1, 2}), lse_a({1, 1, 1, 1}), lse_b({1, 1, 1, 1});
    a(0, 0, 0, 0) = 3;
    lse_a(0, 0, 0, 0) = 500;
    b(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    lse_b(0, 0, 0, 0) = -infinity;
    for (const auto& merged : {merge_attention(a, lse_a, b, lse_b), merge_attention(b, lse_b, a, lse_a)}) {
        CHECK(merged.out(0, 0, 0, 0) == 3);
        CHECK(merged.lse(0, 0, 0, 0) == 500);
    }
    const auto none = merge_attention(b, lse_b, b, lse_b);
    CHECK(none.out(0, 0, 0, 0) == 0);
    CHECK(none.lse(0, 0, 0, 0) == -infinity);
    lse_b(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(merge_attention(a, lse_a, b, lse_b).out(0, 0, 0, 0)));
    CHECK(std::isnan(merge_attention(b, lse_b, a, lse_a).out(0, 0, 0, 1)));
}

TEST_CASE_TEMPLATE("sixteen bits: computed in float, rounded once; of float shards too", Scalar, Eigen::bfloat16,
                   Eigen::half) {
    const auto a = randn<Scalar>({2, 3, 7, 20}, 1), b = randn<Scalar>({2, 3, 7, 20}, 2);
    const auto lse_a = randn<float>({2, 3, 7, 1}, 3), lse_b = randn<float>({2, 3, 7, 1}, 4);
    tensor<float> wide_a(a.shape()), wide_b(a.shape()), exact(a.shape()), lse(lse_a.shape());
    for (std::ptrdiff_t i = 0; i < a.size(); ++i) {
        wide_a.data()[i] = static_cast<float>(a.data()[i]);
        wide_b.data()[i] = static_cast<float>(b.data()[i]);
    }
    const auto must = merge_attention(wide_a, lse_a, wide_b, lse_b);
    tensor<Scalar> of_floats(a.shape());
    merge_attention(a, lse_a, b, lse_b, exact, lse);
    merge_attention(wide_a, lse_a, wide_b, lse_b, of_floats, lse);
    auto gathered = merge_attention(a, lse_a, b, lse_b);
    tensor<Scalar> in_place = a;
    tensor<float> lse_in_place = lse_a;
    merge_attention(in_place, lse_in_place, b, lse_b, in_place, lse_in_place);
    CHECK(greatest_difference(exact, must.out) == 0);
    CHECK(greatest_difference(gathered.lse, must.lse) == 0);
    CHECK(greatest_difference(lse_in_place, must.lse) == 0);
    std::ptrdiff_t wrong = 0;
    for (std::ptrdiff_t i = 0; i < a.size(); ++i) {
        const auto rounded = static_cast<float>(static_cast<Scalar>(must.out.data()[i]));
        for (const auto* result : {&gathered.out, &of_floats, &in_place})
            wrong += static_cast<float>(result->data()[i]) != rounded;
    }
    CHECK(wrong == 0);
}

TEST_CASE("what does not fit is refused by name") {
    tensor<float> a({1, 2, 3, 4}), b({1, 2, 3, 4}), lse_a({1, 2, 3, 1}), lse_b({1, 2, 3, 1}), out({1, 2, 3, 4}),
        lse({1, 2, 3, 1});
    const tensor<float> short_b({1, 2, 3, 3});
    tensor<float> wide({1, 2, 3, 2});
    CHECK_THROWS_WITH(static_cast<void>(merge_attention(a, lse_a, short_b, lse_b)),
                      "out_b (1, 2, 3, 3) must have the shape of out_a, (1, 2, 3, 4)");
    CHECK_THROWS_WITH(static_cast<void>(merge_attention(a, wide, b, lse_b)),
                      "lse_a (1, 2, 3, 2) must have the shape (B, H, L, 1) = (1, 2, 3, 1)");
    CHECK_THROWS_WITH(static_cast<void>(merge_attention(a, lse_a, b, wide)),
                      "lse_b (1, 2, 3, 2) must have the shape (B, H, L, 1) = (1, 2, 3, 1)");
    CHECK_THROWS_WITH(merge_attention(a, lse_a, b, lse_b, lse, lse),
                      "out (1, 2, 3, 1) must have the shape of the result, (1, 2, 3, 4)");
    CHECK_THROWS_WITH(merge_attention(a, lse_a, b, lse_b, out, wide),
                      "lse (1, 2, 3, 2) must have the shape of lse_a, (1, 2, 3, 1)");
    const auto overlaps = [](const char* words, const auto& call) {
        const std::string message = test::refusal(call);
        CAPTURE(message);
        CHECK(message.find(words) == 0);
    };
    overlaps("out (1, 2, 3, 4) overlaps the memory of out_b", [&] { merge_attention(a, lse_a, b, lse_b, b, lse); });
    overlaps("lse (1, 2, 3, 1) overlaps the memory of lse_b", [&] { merge_attention(a, lse_a, b, lse_b, out, lse_b); });
    overlaps("out (1, 2, 3, 4) overlaps the memory of out_a", [&] {
        const tensor_view<float> turned(a.data(), {1, 2, 3, 4}, {24, 12, 1, 3});
        merge_attention(a, lse_a, b, lse_b, turned, lse);
    });
    overlaps("lse (1, 2, 3, 1) overlaps the memory of out_a", [&] {
        merge_attention(a, lse_a, b, lse_b, out, tensor_view<float>(a.data(), {1, 2, 3, 1}));
    });
    overlaps("out (1, 2, 3, 4) overlaps the memory of lse_a", [&] {
        const tensor_view<const float> inside(out.data(), {1, 2, 3, 1});
        merge_attention(a, inside, b, lse_b, out, lse);
    });
    overlaps("out (1, 2, 3, 4) overlaps the memory of lse", [&] {
        merge_attention(a, lse_a, b, lse_b, out, tensor_view<float>(out.data(), {1, 2, 3, 1}));
    });
}
