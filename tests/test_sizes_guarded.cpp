// Rows with gaps between them, and every operand against a protected page: the last row ends, or the first begins,
// where the page does. What lies in the gaps is neither read (NaN, in the inputs) nor written (a canary, in the
// output).
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "guarded.hpp"
#include "operations.hpp"

using namespace headwise;

namespace {

constexpr std::ptrdiff_t most = 70;

/// Operands of small whole numbers, so that a sum is the same in any order, and their products' sums at every depth.
template <class Scalar>
struct whole_numbers {
    tensor<Scalar> q{shape4{1, 1, most, most}}, k{shape4{1, 1, most, most}};
    tensor<Scalar> sums{shape4{1, most + 1, most, most}};  // (depth, l, m)

    whole_numbers() {
        detail::splitmix64 random(1);
        const auto small = [&random] { return static_cast<Scalar>(static_cast<int>(random() % 17) - 8); };
        std::generate_n(q.data(), q.size(), small);
        std::generate_n(k.data(), k.size(), small);
        for (std::ptrdiff_t d = 0; d < most; ++d)
            for (std::ptrdiff_t l = 0; l < most; ++l)
                for (std::ptrdiff_t m = 0; m < most; ++m)
                    sums(0, d + 1, l, m) = sums(0, d, l, m) + q(0, 0, l, d) * k(0, 0, m, d);
    }
};

/// 70 rows of any length up to 70, `gap` elements apart, against one end of guarded memory.
template <class Scalar>
class spaced_rows {
public:
    spaced_rows(std::ptrdiff_t gap, Scalar between) : gap_(gap), between_(between) {}

    /// Rows of this length, at one end or the other; their values are not set.
    void place(std::ptrdiff_t length, bool end) {
        length_ = length, end_ = end;
        first_ = memory_.place(most * step() - gap_, end);
        for (std::ptrdiff_t row = 0; row + 1 < most; ++row) std::fill_n(first_ + row * step() + length, gap_, between_);
    }
    void take(const tensor<Scalar>& values) {
        for (std::ptrdiff_t row = 0; row < most; ++row) std::copy_n(&values(0, 0, row, 0), length_, at(row));
    }
    /// The last `rows` before the page, or the first behind it.
    [[nodiscard]] tensor_view<Scalar> view(std::ptrdiff_t rows) const {
        return {at(first_row(rows)), {1, 1, rows, length_}, {0, 0, step(), 1}};
    }
    [[nodiscard]] std::ptrdiff_t first_row(std::ptrdiff_t rows) const { return end_ ? most - rows : 0; }
    [[nodiscard]] Scalar* at(std::ptrdiff_t row) const { return first_ + row * step(); }
    [[nodiscard]] bool gaps_untouched(std::ptrdiff_t rows) const {
        for (std::ptrdiff_t row = first_row(rows), last = row + rows - 1; row < last; ++row)
            for (std::ptrdiff_t i = 0; i < gap_; ++i)
                if (std::memcmp(at(row) + length_ + i, &between_, sizeof between_) != 0) return false;
        return true;
    }

private:
    [[nodiscard]] std::ptrdiff_t step() const { return length_ + gap_; }
    test::guarded<Scalar> memory_{most * (most + 16)};
    std::ptrdiff_t gap_;
    Scalar between_;
    std::ptrdiff_t length_ = 0;
    bool end_ = false;
    Scalar* first_ = nullptr;
};

/// The extents tried: all, or those around multiples of the lanes and of the tiles' rows.
std::vector<std::ptrdiff_t> extents() {
    std::vector<std::ptrdiff_t> some{1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 16, 17, 29, 31, 32, 33, 47, 49, 64, 65, 70};
    if (test::how_thorough() == test::thoroughness::sampled) return {1, 3, 4, 5, 8, 9, 15, 17, 33, 49, 65};
    if (test::how_thorough() == test::thoroughness::usual) return some;
    some.clear();
    for (std::ptrdiff_t extent = 1; extent <= most; ++extent) some.push_back(extent);
    return some;
}

template <class Scalar>
void sweep(const test::scores_implementation& how, std::ptrdiff_t gap) {
    static const whole_numbers<Scalar> numbers;
    constexpr Scalar nan = std::numeric_limits<Scalar>::quiet_NaN(), canary = Scalar(-12345);
    spaced_rows<Scalar> q(gap, nan), k(gap, nan), out(gap, canary);
    std::ptrdiff_t wrong = 0, touched = 0;
    for (const std::ptrdiff_t D : extents())
        for (const bool end : {true, false}) {
            q.place(D, end), q.take(numbers.q);
            k.place(D, end), k.take(numbers.k);
            for (const std::ptrdiff_t M : extents()) {
                out.place(M, end);
                for (const std::ptrdiff_t L : extents()) {
                    if (((L + M + D) % 2 == 0) != end) continue;
                    for (std::ptrdiff_t l = 0; l < L; ++l) std::fill_n(out.at(out.first_row(L) + l), M, nan);
                    how(q.view(L), k.view(M), out.view(L));
                    for (std::ptrdiff_t l = 0; l < L; ++l) {
                        const Scalar* const must = &numbers.sums(0, D, q.first_row(L) + l, k.first_row(M));
                        const Scalar* const is = out.at(out.first_row(L) + l);
                        for (std::ptrdiff_t m = 0; m < M; ++m) wrong += !(is[m] == must[m]);
                    }
                    touched += !out.gaps_untouched(L);
                }
            }
        }
    CHECK(wrong == 0);
    CHECK(touched == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("L, M, D from 1 to 70, rows with gaps, against protected pages", Scalar, float, double) {
    for (const test::scores_implementation& how : test::scores_implementations())
        for (const std::ptrdiff_t gap : {1, 16}) {
            CAPTURE(how.name);
            CAPTURE(gap);
            sweep<Scalar>(how, gap);
        }
}

TEST_CASE("heads that do not divide among the threads' pieces: none beyond the last is read or written") {
    constexpr std::ptrdiff_t heads = 17, L = 64, M = 128, D = 128;
    const test::guarded<float> q_memory(heads * L * D), k_memory(heads * M * D), out_memory(heads * L * M);
    const auto q = randn<float>({1, heads, L, D}, 1), k = randn<float>({1, heads, M, D}, 2);
    const auto place = [](const test::guarded<float>& memory, const tensor<float>& values) {
        float* const at = memory.at_end(values.size());
        std::copy_n(values.data(), values.size(), at);
        return tensor_view<float>(at, values.shape());
    };
    const tensor_view<float> q_at = place(q_memory, q), k_at = place(k_memory, k),
                             out = place(out_memory, tensor<float>({1, heads, L, M}));
    const tensor<float> expected = batched_scores_vectorized(q, k);
    batched_scores_vectorized(q_at, k_at, out, {.threads = 2});  // two heads a piece
    CHECK(std::memcmp(out.data(), expected.data(), static_cast<std::size_t>(out.size()) * sizeof(float)) == 0);
}
