// Attention with every operand against a protected page: q, k, v, mask, bias and the outputs end where one begins, or
// begin where one ends. What lies between rows is neither read (NaN) nor written (a canary).
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>
#include <headwise/attention_weights.hpp>

#include "attention_reference.hpp"
#include "guarded.hpp"
#include "operations.hpp"

using namespace headwise;

namespace {

constexpr std::ptrdiff_t most = 70;

/// Rows of one head, `gap` elements apart, against one end of guarded memory.
template <class Scalar>
class spaced_rows {
public:
    /// `fill` lies between the rows, and where the view has not been written.
    tensor_view<Scalar> place(std::ptrdiff_t rows, std::ptrdiff_t length, std::ptrdiff_t gap, bool end, Scalar fill) {
        rows_ = rows, length_ = length, step_ = length + gap, fill_ = fill;
        size_ = rows == 0 ? 0 : (rows - 1) * step_ + length;
        first_ = memory_.place(size_, end);
        std::fill_n(first_, size_, fill);
        return {first_, {1, 1, rows, length}, {0, 0, step_, 1}};
    }
    tensor_view<Scalar> place(const tensor<Scalar>& values, std::ptrdiff_t gap, bool end, Scalar fill) {
        const auto view = place(values.shape()[2], values.shape()[3], gap, end, fill);
        for (std::ptrdiff_t row = 0; row < rows_; ++row)
            std::copy_n(values.data() + row * length_, length_, first_ + row * step_);
        return view;
    }
    [[nodiscard]] bool gaps_untouched() const {
        for (std::ptrdiff_t i = 0; i < size_; ++i)
            if (i % step_ >= length_ && std::memcmp(first_ + i, &fill_, sizeof fill_) != 0) return false;
        return true;
    }

private:
    test::guarded<Scalar> memory_{most * (most + 16)};
    std::ptrdiff_t rows_ = 0, length_ = 0, step_ = 1, size_ = 0;
    Scalar fill_{};
    Scalar* first_ = nullptr;
};

/// Extents in 1..70, those around the lanes and the tiles' rows more often than others.
class extents {
public:
    [[nodiscard]] std::ptrdiff_t operator()() {
        constexpr std::array<std::ptrdiff_t, 20> likely{1,  2,  3,  4,  5,  7,  8,  9,  15, 16,
                                                        17, 28, 29, 31, 32, 33, 48, 49, 64, 65};
        const auto chosen = random_();
        return chosen % 2 == 0 ? likely[chosen / 2 % likely.size()]
                               : 1 + static_cast<std::ptrdiff_t>(chosen / 2 % static_cast<std::uint64_t>(most));
    }
    [[nodiscard]] std::ptrdiff_t below(int n) {
        return static_cast<std::ptrdiff_t>(random_() % static_cast<std::uint64_t>(n));
    }

private:
    detail::splitmix64 random_{11};
};

template <class Scalar>
struct operands {
    spaced_rows<Scalar> q, k, v, bias, out, weights, lse;
    spaced_rows<bool> mask;
};

/// Empty, or where a result is further from the definition than its roundings and the definition's own, which are as
/// large for double, may bring it.
template <class Scalar>
std::string beyond(const tensor_view<Scalar>& is, const tensor<double>& must, tensor<double> bound) {
    std::for_each(bound.data(), bound.data() + bound.size(), [](double& x) { x *= 2; });
    return test::beyond(is, must, bound);
}

/// One call of each operation, of random extents and options.
template <class Scalar>
void attempt(operands<Scalar>& at, extents& extent, isa name) {
    constexpr Scalar nan = std::numeric_limits<Scalar>::quiet_NaN(), canary = Scalar(-12345);
    const std::ptrdiff_t L = extent(), M = extent(), D = extent(), Dv = extent();
    const std::ptrdiff_t gap = std::array<std::ptrdiff_t, 4>{0, 1, 7, 16}[static_cast<std::size_t>(extent.below(4))];
    const bool end = extent.below(4) != 0;
    test::attention_case<Scalar> how;
    how.causal = extent.below(2) != 0;
    how.top_left = extent.below(2) != 0;
    if (extent.below(3) == 0) how.window.left = extent();
    if (extent.below(3) == 0) how.softcap = 2;
    if (extent.below(2) != 0) how.mask_shape = {1, 1, extent.below(2) != 0 ? 1 : L, extent.below(4) == 0 ? 1 : M};
    if (extent.below(2) != 0) how.bias_shape = {1, 1, extent.below(2) != 0 ? 1 : L, extent.below(4) == 0 ? 1 : M};
    CAPTURE(detail::text_of({L, M, D, Dv}));
    CAPTURE(gap);
    CAPTURE(end);

    const auto q = randn<Scalar>({1, 1, L, D}, 1), k = randn<Scalar>({1, 1, M, D}, 2),
               v = randn<Scalar>({1, 1, M, Dv}, 3);
    const test::attention_expected expected = test::expect_attention(q, k, v, how);
    attention_options<Scalar> options = how.options(name);
    if (how.mask_shape[2] != 0) options.mask = at.mask.place(how.mask(), gap, end, true);
    if (how.bias_shape[2] != 0) options.bias = at.bias.place(how.bias(), gap, end, nan);
    const auto q_at = at.q.place(q, gap, end, nan), k_at = at.k.place(k, gap, end, nan),
               v_at = at.v.place(v, gap, end, nan);
    const auto out = at.out.place(L, Dv, gap, end, canary), weights = at.weights.place(L, M, gap, end, canary);
    attention_weights(q_at, k_at, weights, options);
    REQUIRE(beyond(weights, expected.weights, expected.weights_bound) == "");
    REQUIRE(at.weights.gaps_untouched());
    attention_logits(q_at, k_at, weights, options);
    REQUIRE(beyond(weights, expected.logits, expected.logits_bound) == "");
    REQUIRE(at.weights.gaps_untouched());
    options.lse = at.lse.place(L, 1, gap, end, canary);
    attention(q_at, k_at, v_at, out, options);
    REQUIRE(beyond(out, expected.out, expected.out_bound) == "");
    REQUIRE(beyond(options.lse, expected.lse, expected.lse_bound) == "");
    REQUIRE(at.out.gaps_untouched());
    REQUIRE(at.lse.gaps_untouched());
}

}  // namespace

TEST_CASE_TEMPLATE("L, M, D, Dv from 1 to 70, rows with gaps, every option, against protected pages", Scalar, float,
                   double) {
    const int times = test::how_thorough() == test::thoroughness::sampled ? 60
                      : test::how_thorough() == test::thoroughness::usual ? 400
                                                                          : 20000;
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        operands<Scalar> at;
        extents extent;
        for (int i = 0; i < times; ++i) {
            CAPTURE(i);
            attempt(at, extent, name);
        }
    }
}
