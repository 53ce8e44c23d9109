// NaN, infinities, subnormals and signed zeros, at every kind of place, in every implementation: the result is what the
// sum of products says, in its row and its column, and everything else keeps its bits.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "layouts.hpp"
#include "operations.hpp"
#include "reference.hpp"
#include "special_values.hpp"

using namespace headwise;
using test::planted, test::same_bits, test::sort, test::sort_of, test::special_values;

namespace {

/// The ways through the kernels: few rows, tiles, the columns beyond a whole vector, several heads, heads that share k.
struct path {
    std::string name;
    std::ptrdiff_t H, L, M, D, group = 1;

    [[nodiscard]] shape4 q() const { return {1, H, L, D}; }
    [[nodiscard]] shape4 k() const { return {1, H / group, M, D}; }
    [[nodiscard]] shape4 out() const { return {1, H, L, M}; }
};
const path paths[] = {{"few rows", 1, 5, 21, 19}, {"tiles", 1, 30, 70, 20},    {"odd columns", 1, 17, 49, 32},
                      {"heads", 2, 3, 5, 4},      {"a group", 4, 2, 9, 17, 2}, {"a group's tiles", 6, 7, 33, 8, 3}};

/// How many outputs are of another sort than the reference's, or, where a value in row `row` of the last head of q and
/// one in row `column` of the last head of k do not reach, have changed.
template <class Scalar>
std::ptrdiff_t wrong(const test::scores_implementation& how, const tensor<Scalar>& q, const tensor<Scalar>& k,
                     const tensor<Scalar>& out, const tensor<Scalar>& clean, std::ptrdiff_t row,
                     std::ptrdiff_t column) {
    const auto [B, H, L, M] = out.shape();
    const std::ptrdiff_t heads = k.shape()[1], group = H / heads;
    std::ptrdiff_t bad = 0;
    for (std::ptrdiff_t h = 0; h < H; ++h)
        for (std::ptrdiff_t l = 0; l < L; ++l)
            for (std::ptrdiff_t m = 0; m < M; ++m) {
                const Scalar is = out(0, h, l, m);
                if (!(h == H - 1 && l == row) && !(h / group == heads - 1 && m == column)) {
                    bad += !same_bits(is, clean(0, h, l, m));
                    continue;
                }
                Scalar chain = 0;
                for (std::ptrdiff_t d = 0; d < q.shape()[3]; ++d)
                    chain = std::fma(q(0, h, l, d), k(0, h / group, m, d), chain);
                if (sort_of(is) != sort_of(chain)) ++bad;
                else if (how.is_chain() && sort_of(is) != sort::nan) bad += !same_bits(is, chain);
            }
    return bad;
}

template <class Scalar>
void try_everywhere(const test::scores_implementation& how, const path& p) {
    auto q = randn<Scalar>(p.q(), 1), k = randn<Scalar>(p.k(), 2);
    tensor<Scalar> clean(p.out()), out(clean.shape());
    how(q, k, clean);
    std::ptrdiff_t bad = 0;
    for (const Scalar in_q : special_values<Scalar>())
        for (const Scalar in_k : special_values<Scalar>())
            for (const std::ptrdiff_t l : {std::ptrdiff_t{0}, p.L / 2, p.L - 1})
                for (const std::ptrdiff_t m : {std::ptrdiff_t{0}, p.M / 2, p.M - 1})
                    for (const std::ptrdiff_t d : {std::ptrdiff_t{0}, p.D / 2, p.D - 1}) {
                        if (test::how_thorough() == test::thoroughness::sampled && (l + m + d) % 3 != 0) continue;
                        const planted a(q(0, p.H - 1, l, d), in_q), b(k(0, p.k()[1] - 1, m, d), in_k);
                        std::fill_n(out.data(), out.size(), std::numeric_limits<Scalar>::quiet_NaN());
                        how(q, k, out);
                        bad += wrong(how, q, k, out, clean, l, m);
                    }
    CHECK(bad == 0);
}

template <class Scalar, class Body>
void on_all(const Body& body) {
    for (const test::scores_implementation& how : test::scores_implementations()) {
        CAPTURE(how.name);
        body(how);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("special values of q and of k, met or alone, at every kind of place", Scalar, float, double) {
    on_all<Scalar>([](const test::scores_implementation& how) {
        for (const path& p : paths) {
            CAPTURE(p.name);
            try_everywhere<Scalar>(how, p);
        }
    });
}

TEST_CASE_TEMPLATE("inputs all subnormal, or products that are: as exact as any others", Scalar, float, double) {
    using is = std::numeric_limits<Scalar>;
    on_all<Scalar>([](const test::scores_implementation& how) {
        for (const path& p : paths)
            for (const auto& [of_q, of_k] : {std::array<Scalar, 2>{is::denorm_min() * 5000, 1},
                                             {std::sqrt(is::min()) / 8, std::sqrt(is::min()) / 8},
                                             {is::min() / 3, is::min() / 3}}) {
                CAPTURE(p.name);
                auto q = randn<Scalar>(p.q(), 1), k = randn<Scalar>(p.k(), 2);
                for (std::ptrdiff_t i = 0; i < q.size(); ++i) q.data()[i] *= of_q;
                for (std::ptrdiff_t i = 0; i < k.size(); ++i) k.data()[i] *= of_k;
                tensor<Scalar> out(p.out());
                how(q, k, out);
                CHECK(wrong(how, q, k, out, out, 0, 0) == 0);
                if (p.group == 1) CHECK(test::mismatch(out, q, k) == "");
            }
    });
}

TEST_CASE_TEMPLATE("sums of negative zeros are positive, as a sum that begins with zero is", Scalar, float, double) {
    on_all<Scalar>([](const test::scores_implementation& how) {
        if (!how.fused) return;  // Eigen's small products begin with the first product
        for (const path& p : paths) {
            tensor<Scalar> q(p.q()), k(p.k()), out(p.out());
            std::fill_n(q.data(), q.size(), -Scalar(0));
            std::fill_n(k.data(), k.size(), Scalar(7));
            std::fill_n(out.data(), out.size(), Scalar(-1));
            how(q, k, out);
            CHECK(same_bits(out, tensor<Scalar>(out.shape())));
        }
    });
}

TEST_CASE_TEMPLATE("NaN beside the operands, and in the old output, is not seen", Scalar, float, double) {
    on_all<Scalar>([](const test::scores_implementation& how) {
        for (const path& p : paths)
            for (const std::ptrdiff_t gap : {1, 3, 16}) {
                CAPTURE(p.name);
                CAPTURE(gap);
                const auto q = randn<Scalar>(p.q(), 1), k = randn<Scalar>(p.k(), 2);
                tensor<Scalar> dense(p.out());
                how(q, k, dense);
                const test::layout gaps{.name = "rows with a gap", .gap = gap};  // of NaN; so is the old output
                const test::laid_out<Scalar> q_at(q, gaps), k_at(k, gaps), out(dense.shape(), gaps);
                how(q_at.view(), k_at.view(), out.view());
                CHECK(out.written() == dense.size());
                std::ptrdiff_t different = 0;
                for (std::ptrdiff_t h = 0; h < p.H; ++h)
                    for (std::ptrdiff_t l = 0; l < p.L; ++l)
                        for (std::ptrdiff_t m = 0; m < p.M; ++m)
                            different += !(std::abs(out.view()(0, h, l, m) - dense(0, h, l, m)) <=
                                           (how.fused ? Scalar(0) : Scalar(1e-4)));
                CHECK(different == 0);
            }
    });
}

TEST_CASE_TEMPLATE("the same call again, and again elsewhere in memory, gives the same bits", Scalar, float, double) {
    on_all<Scalar>([](const test::scores_implementation& how) {
        for (const path& p : paths) {
            const auto q = randn<Scalar>(p.q(), 1), k = randn<Scalar>(p.k(), 2);
            tensor<Scalar> first(p.out());
            how(q, k, first);
            for (int time = 0; time < 3; ++time) {
                const tensor<Scalar> q_copy = q, k_copy = k;
                tensor<Scalar> again(first.shape());
                how(q_copy, k_copy, again);
                CHECK(same_bits(again, first));
            }
        }
    });
}
