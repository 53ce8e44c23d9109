#include <headwise/contract.hpp>

#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace headwise;

namespace {

std::vector<std::ptrdiff_t> offsets_of(const shape4& shape, const strides4& strides, std::ptrdiff_t base) {
    std::vector<std::ptrdiff_t> offsets;
    for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
        for (std::ptrdiff_t h = 0; h < shape[1]; ++h)
            for (std::ptrdiff_t l = 0; l < shape[2]; ++l)
                for (std::ptrdiff_t d = 0; d < shape[3]; ++d)
                    offsets.push_back(base + b * strides[0] + h * strides[1] + l * strides[2] + d * strides[3]);
    return offsets;
}

/// A small shape with small strides of either sign, somewhere in the middle of a buffer.
struct arrangement {
    shape4 shape;
    strides4 strides;
    std::ptrdiff_t base;

    explicit arrangement(detail::splitmix64& random) {
        const auto between = [&random](std::ptrdiff_t low, std::ptrdiff_t high) {
            return low + static_cast<std::ptrdiff_t>(random() % static_cast<std::uint64_t>(high - low + 1));
        };
        for (std::ptrdiff_t& extent : shape) extent = between(1, 3);
        for (std::ptrdiff_t& stride : strides) stride = between(-2, 12);
        base = between(100, 160);
    }
    [[nodiscard]] std::vector<std::ptrdiff_t> offsets() const { return offsets_of(shape, strides, base); }
    [[nodiscard]] tensor_view<float> in(std::vector<float>& buffer) const {
        return {buffer.data() + base, shape, strides};
    }
};

}  // namespace

TEST_CASE("distinct elements and disjoint views are never claimed of views that share one") {
    std::vector<float> buffer(400);
    detail::splitmix64 random(1);
    int distinct = 0, disjoint = 0, disjoint_by_columns = 0;
    for (int i = 0; i < 100000; ++i) {
        const arrangement a(random), b(random);
        const auto of_a = a.offsets(), of_b = b.offsets();
        const std::set<std::ptrdiff_t> elements(of_a.begin(), of_a.end());
        const tensor_view<float> view_a = a.in(buffer), view_b = b.in(buffer);
        if (detail::elements_are_distinct(view_a)) {
            ++distinct;
            REQUIRE(elements.size() == of_a.size());
        }
        const bool overlap = detail::overlap(view_a, view_b);
        REQUIRE(overlap == detail::overlap(view_b, view_a));
        if (!overlap) {
            ++disjoint;
            disjoint_by_columns += detail::memory_of(view_a).meets(detail::memory_of(view_b));
            for (const std::ptrdiff_t offset : of_b) REQUIRE(elements.count(offset) == 0);
        }
    }
    CHECK(distinct > 1000);
    CHECK(disjoint > 1000);
    CHECK(disjoint_by_columns > 10);
}

TEST_CASE("nested strides are distinct: permuted, padded, reversed; interlocking ones are taken for overlapping") {
    std::vector<float> buffer(1000);
    const auto distinct = [&](const shape4& shape, const strides4& strides) {
        return detail::elements_are_distinct(tensor_view(buffer.data() + 500, shape, strides));
    };
    CHECK(distinct({2, 3, 4, 5}, {60, 20, 5, 1}));
    CHECK(distinct({2, 3, 4, 5}, {60, 5, 15, 1}));
    CHECK(distinct({2, 3, 4, 5}, {1, 2, 6, 24}));
    CHECK(distinct({2, 3, 4, 5}, {-90, 30, -7, 1}));
    CHECK(distinct({2, 3, 4, 5}, {120, 40, 10, -2}));
    CHECK(distinct({1, 1, 4, 1}, {0, 0, 1, 0}));
    CHECK(distinct({0, 3, 4, 5}, {0, 0, 0, 0}));
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    CHECK(distinct({0, huge, huge, 1}, {huge, huge, huge, 1}));
    CHECK(distinct({1, 2, 1, 1}, {-huge - 1, 1, -huge - 1, huge}));
    CHECK_FALSE(distinct({2, 3, 4, 5}, {60, 20, 5, 0}));
    CHECK_FALSE(distinct({2, 3, 4, 5}, {60, 20, 4, 1}));
    CHECK_FALSE(distinct({2, 3, 4, 5}, {59, 20, 5, 1}));
    CHECK_FALSE(distinct({1, 1, 2, 3}, {0, 0, 3, 2}));  // offsets 0 2 4 3 5 7: distinct in truth, refused by the rule
}

TEST_CASE("the memory of a view reaches from its lowest to past its highest element") {
    std::vector<double> buffer(100);
    const auto at = [&](std::ptrdiff_t i) { return reinterpret_cast<std::uintptr_t>(buffer.data() + i); };
    const auto memory = detail::memory_of(tensor_view(buffer.data() + 50, {2, 1, 3, 4}, {20, 7, -10, -1}));
    CHECK(memory.first == at(50 - 20 - 3));
    CHECK(memory.last == at(50 + 20 + 1));
}

TEST_CASE("neighbours do not overlap, empty views overlap nothing, columns of common rows are apart") {
    std::vector<float> buffer(100);
    const auto at = [&](std::ptrdiff_t offset, const shape4& shape, const strides4& strides) {
        return tensor_view(buffer.data() + offset, shape, strides);
    };
    const auto dense = [&](std::ptrdiff_t offset, const shape4& shape) {
        return tensor_view(buffer.data() + offset, shape);
    };
    CHECK_FALSE(detail::overlap(dense(0, {1, 1, 2, 5}), dense(10, {1, 1, 2, 5})));
    CHECK(detail::overlap(dense(0, {1, 1, 2, 5}), dense(9, {1, 1, 2, 5})));
    CHECK_FALSE(detail::overlap(dense(0, {1, 1, 2, 5}), dense(3, {1, 0, 2, 5})));
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    CHECK_FALSE(detail::overlap(dense(0, {1, 1, 2, 5}), at(3, {huge, huge, 0, 1}, {huge, -huge, 1, 1})));
    const auto left = at(0, {1, 1, 9, 5}, {1, 1, 10, 1});
    CHECK_FALSE(detail::overlap(left, at(5, {1, 1, 9, 5}, {1, 1, 10, 1})));
    CHECK(detail::overlap(left, at(4, {1, 1, 9, 5}, {1, 1, 10, 1})));
    CHECK(detail::overlap(left, at(5, {1, 1, 9, 6}, {1, 1, 10, 1})));
    CHECK(detail::overlap(left, at(25, {1, 1, 5, 5}, {1, 1, 11, 1})));

    // The same bytes as another type.
    const tensor_view<const double> doubles(reinterpret_cast<const double*>(buffer.data()), {1, 1, 1, 0});
    CHECK_FALSE(detail::overlap(left, doubles));
}

TEST_CASE("the shape of the scores is (B, H, L, M)") {
    static_assert(detail::scores_shape({2, 3, 4, 5}, {2, 3, 6, 5}) == shape4{2, 3, 4, 6});
    CHECK_NOTHROW(detail::check_scores_inputs({2, 3, 4, 5}, {2, 3, 6, 5}));
    CHECK_NOTHROW(detail::check_scores_inputs({2, 3, 0, 5}, {2, 3, 6, 5}));
}
