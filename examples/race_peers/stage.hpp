// The buffers that all contenders share, and the check that each must pass before it is timed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <headwise/tensor.hpp>

#include "contender.hpp"
#include "grid.hpp"
#include "limit.hpp"

namespace race {

template <class Scalar>
class stage {
public:
    stage(const shape& s, int threads, bool huge_pages)
        : shape_(s),
          q_(s.views ? blhd(s, s.rows) : bhld(s, s.rows), headwise::uninitialized),
          k_(s.views ? blhd(s, s.columns) : bhld(s, s.columns), headwise::uninitialized),
          out_({s.batches, s.heads, s.rows, s.columns}, headwise::uninitialized),
          threads_(threads) {
        if (huge_pages) advise(q_), advise(k_), advise(out_);
        fill(q_, 1);
        fill(k_, 2);
        poison();
    }

    [[nodiscard]] problem<Scalar> get() {
        const shape& s = shape_;
        const auto input = [&s](std::ptrdiff_t rows) {
            return s.views ? steps{rows * s.heads * s.depth, s.depth, s.heads * s.depth}
                           : steps{s.heads * rows * s.depth, rows * s.depth, s.depth};
        };
        return {q_.data(),
                k_.data(),
                out_.data(),
                s.batches,
                s.heads,
                s.rows,
                s.columns,
                s.depth,
                input(s.rows),
                input(s.columns),
                {s.heads * s.rows * s.columns, s.rows * s.columns, s.columns},
                threads_};
    }
    void poison() { std::fill_n(out_.data(), out_.size(), std::numeric_limits<Scalar>::quiet_NaN()); }
    [[nodiscard]] const headwise::tensor<Scalar>& out() const { return out_; }
    [[nodiscard]] std::vector<std::span<float>> inputs() { return {memory_of(q_), memory_of(k_)}; }
    [[nodiscard]] std::vector<std::span<float>> outputs() { return {memory_of(out_)}; }

private:
    using shape4 = headwise::shape4;
    static shape4 bhld(const shape& s, std::ptrdiff_t rows) { return {s.batches, s.heads, rows, s.depth}; }
    static shape4 blhd(const shape& s, std::ptrdiff_t rows) { return {s.batches, rows, s.heads, s.depth}; }

    /// In [-1, 1), in place: a normal distribution of so many values would take longer than the race.
    static void fill(headwise::tensor<Scalar>& x, std::uint64_t seed) {
        headwise::detail::splitmix64 random(seed);
        std::generate_n(x.data(), x.size(), [&] { return static_cast<Scalar>(2 * random.uniform() - 1); });
    }
    static void advise([[maybe_unused]] headwise::tensor<Scalar>& x) {
#if defined(MADV_HUGEPAGE)
        constexpr std::uintptr_t page = 4096;
        const auto first = (reinterpret_cast<std::uintptr_t>(x.data()) + page - 1) / page * page;
        const auto last = reinterpret_cast<std::uintptr_t>(x.data() + x.size()) / page * page;
        if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
    }

    shape shape_;
    headwise::tensor<Scalar> q_, k_, out_;
    int threads_;
};

/// The definition, in double, by plain loops, with the bound on what a result in `Scalar` may differ from it:
/// gamma_D * sum |q||k| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), for any order of summation.
///
/// Up to half a gigaflop all rows are computed. Beyond, so many rows of every head, its first and last among them; all
/// other results are held against those of the first contender that passed, within twice the bound that
/// |q| |k| (Cauchy and Schwarz) gives. No result goes unlooked at.
template <class Scalar>
class reference {
public:
    explicit reference(const problem<Scalar>& p) : p_(p) {
        constexpr double most_flops = 5e8;
        const auto row_flops = 4.0 * static_cast<double>(p.columns * p.depth);
        const auto affordable =
            static_cast<std::ptrdiff_t>(most_flops / row_flops / static_cast<double>(p.all_heads()));
        const std::ptrdiff_t rows = std::clamp<std::ptrdiff_t>(affordable, std::min<std::ptrdiff_t>(2, p.rows), p.rows);
        std::vector<double> transposed(static_cast<std::size_t>(p.columns * p.depth));
        for (std::ptrdiff_t head = 0; head < p.all_heads(); ++head) {
            for (std::ptrdiff_t m = 0; m < p.columns; ++m)
                for (std::ptrdiff_t d = 0; d < p.depth; ++d)
                    transposed[index(d * p.columns + m)] = static_cast<double>(p.k_head(head)[m * p.k_steps.row + d]);
            for (std::ptrdiff_t i = 0; i < rows; ++i)
                rows_.push_back(compute(head, rows == 1 ? 0 : i * (p.rows - 1) / (rows - 1), transposed));
        }
    }

    /// Are all results in `out` as they should be?
    [[nodiscard]] bool agrees(const headwise::tensor<Scalar>& out) {
        for (const row& r : rows_) {
            const Scalar* found = out.data() + (r.head * p_.rows + r.l) * p_.columns;
            for (std::ptrdiff_t m = 0; m < p_.columns; ++m)
                if (!(std::abs(static_cast<double>(found[m]) - r.value[index(m)]) <= r.bound[index(m)])) return false;
        }
        if (index(p_.all_heads() * p_.rows) == rows_.size()) return true;
        if (!witness_) {
            if (std::any_of(out.data(), out.data() + out.size(), [](Scalar x) { return !std::isfinite(x); }))
                return false;
            witness_ = out;
            return true;
        }
        const auto largest = static_cast<Scalar>(2 * gamma() * longest_row(p_.q, p_.q_steps, p_.rows) *
                                                 longest_row(p_.k, p_.k_steps, p_.columns));
        return std::equal(out.data(), out.data() + out.size(), witness_->data(),
                          [largest](Scalar a, Scalar b) { return std::abs(a - b) <= largest; });
    }

private:
    struct row {
        std::ptrdiff_t head, l;
        std::vector<double> value, bound;
    };
    static std::size_t index(std::ptrdiff_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] double gamma() const {
        const double nu =
            static_cast<double>(p_.depth) * static_cast<double>(std::numeric_limits<Scalar>::epsilon()) / 2;
        return nu / (1 - nu);
    }
    /// The greatest Euclidean norm of a row of q or k.
    [[nodiscard]] double longest_row(const Scalar* x, const steps& s, std::ptrdiff_t rows) const {
        double most = 0;
        for (std::ptrdiff_t i = 0; i < p_.all_heads() * rows; ++i) {
            const std::ptrdiff_t head = i / rows;
            const Scalar* r = x + head / p_.heads * s.batch + head % p_.heads * s.head + i % rows * s.row;
            double sum = 0;
            for (std::ptrdiff_t d = 0; d < p_.depth; ++d) sum += static_cast<double>(r[d]) * static_cast<double>(r[d]);
            most = std::max(most, sum);
        }
        return std::sqrt(most);
    }
    row compute(std::ptrdiff_t head, std::ptrdiff_t l, const std::vector<double>& k) const {
        row r{head, l, std::vector<double>(index(p_.columns)), std::vector<double>(index(p_.columns))};
        for (std::ptrdiff_t d = 0; d < p_.depth; ++d) {
            const auto q = static_cast<double>(p_.q_head(head)[l * p_.q_steps.row + d]);
            const double* k_d = k.data() + d * p_.columns;
            for (std::ptrdiff_t m = 0; m < p_.columns; ++m) {
                r.value[index(m)] += q * k_d[m];
                r.bound[index(m)] += std::abs(q * k_d[m]);
            }
        }
        // Double's own roundings count where Scalar is double; what underflows is below the last term.
        const double g = gamma() * (std::is_same_v<Scalar, double> ? 2 : 1.0001);
        for (double& b : r.bound) b = g * b + static_cast<double>(std::numeric_limits<Scalar>::min());
        return r;
    }

    problem<Scalar> p_;
    std::vector<row> rows_;
    std::optional<headwise::tensor<Scalar>> witness_;
};

}  // namespace race
