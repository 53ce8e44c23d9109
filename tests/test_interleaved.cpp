// Operands and results side by side in the rows of one buffer: apart, though their ranges meet. Every operation takes
// them, however it goes on to view them; and gives what it gives of dense tensors.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>
#include <headwise/backward.hpp>
#include <headwise/einsum.hpp>

#include "bits.hpp"

using namespace headwise;

namespace {

constexpr std::ptrdiff_t B = 2, H = 3, N = 5, D = 4, width = 5 * D;

/// Rows of five pieces of D elements; heads a row further apart than they need be.
struct rows_of_five {
    std::vector<float> memory = std::vector<float>(B * H * (N + 1) * width, 42.0f);

    [[nodiscard]] tensor_view<float> piece(std::ptrdiff_t which) {
        constexpr std::ptrdiff_t head = (N + 1) * width;
        return {memory.data() + which * D, {B, H, N, D}, {H * head, head, width, 1}};
    }
    [[nodiscard]] tensor_view<float> filled(std::ptrdiff_t which, unsigned seed) {
        const tensor_view<float> view = piece(which);
        const auto values = randn<float>(view.shape(), seed);
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h) view.head(b, h) = values.head(b, h);
        return view;
    }
    /// How many elements are as they were made.
    [[nodiscard]] std::ptrdiff_t untouched() const { return std::count(memory.begin(), memory.end(), 42.0f); }
};

tensor<float> dense(const tensor_view<float>& view) {
    tensor<float> copy(view.shape());
    for (std::ptrdiff_t b = 0; b < view.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < view.shape()[1]; ++h) copy.head(b, h) = view.head(b, h);
    return copy;
}

constexpr std::ptrdiff_t piece_size = B * H * N * D, all = B * H * (N + 1) * width;

}  // namespace

TEST_CASE("attention beside q, k and v") {
    rows_of_five rows;
    const auto q = rows.filled(0, 1), k = rows.filled(1, 2), v = rows.filled(2, 3), out = rows.piece(3);
    attention(q, k, v, out);
    CHECK(test::same_bits(dense(out), attention(dense(q), dense(k), dense(v))));
    CHECK(rows.untouched() == all - 4 * piece_size);
}

TEST_CASE("both gradients beside q and k, whose columns become rows") {
    rows_of_five rows;
    const auto q = rows.filled(0, 1), k = rows.filled(1, 2), dq = rows.piece(2), dk = rows.piece(3);
    const auto dout = randn<float>({B, H, N, N}, 3);
    const auto expected = batched_scores_backward(dense(q), dense(k), dout);
    std::vector<std::byte> workspace(scores_backward_workspace_bytes(q, k, dout, dq, dk));
    batched_scores_backward(q, k, dout, dq, dk, {.workspace = workspace});
    CHECK(test::same_bits(dense(dq), expected.dq));
    CHECK(test::same_bits(dense(dk), expected.dk));
    CHECK(rows.untouched() == all - 4 * piece_size);
}

TEST_CASE("one gradient beside the other's operand: neither is refused when the other has been written") {
    rows_of_five rows;
    const auto q = rows.filled(0, 1), dk = rows.piece(1);
    const auto k = randn<float>({B, H, N, D}, 2), dout = randn<float>({B, H, N, N}, 3);
    const auto expected = batched_scores_backward(dense(q), k, dout);
    tensor<float> dq(q.shape());
    batched_scores_backward(q, k, dout, dq, dk);
    CHECK(test::same_bits(dq, expected.dq));
    CHECK(test::same_bits(dense(dk), expected.dk));
}

TEST_CASE("einsum beside its operands: a product of elements is a loop over calls") {
    struct {
        const char* text;
        std::array<unsigned char, 4> order;
    } const formulas[]{
        {"bhld,bhld->bhld", {0, 1, 2, 3}}, {"bhld,bhld->bldh", {0, 2, 3, 1}}, {"bhld,bhld->dlbh", {3, 2, 0, 1}}};
    for (const auto& [text, order] : formulas) {
        CAPTURE(text);
        const einsum_formula formula = runtime_formula(text);
        rows_of_five rows;
        const auto a = rows.filled(0, 1), b = rows.filled(1, 2), out = rows.piece(2);
        einsum(formula, a, b, out.permuted(order));
        CHECK(test::same_bits(dense(out.permuted(order)), einsum(formula, dense(a), dense(b))));
        CHECK(rows.untouched() == all - 3 * piece_size);
    }
}
