// How far apart two right answers may be.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/elements.hpp>
#include <headwise/harness/isclose.hpp>

namespace headwise {

namespace detail {

/// The rounding-error bound of out[b,h,l,m] = scale * sum_d q[b,h,l,d] k[b,h,m,d], kept as an outer product: row *
/// column. Columns are at most 1, rows at most the greatest number of the type: the product is never NaN or infinite.
struct dot_bound {
    index4 shape;                 ///< of the output
    std::ptrdiff_t depth, group;  ///< D; query heads per key head
    double unit, factor;          ///< unit roundoff u; row = factor * |q|
    double scale;
    std::vector<double> row, column;  ///< (b,h,l) and (b,kv,m), rounded up
    std::vector<float> column_float;
    std::vector<double> last_q, last_k;  ///< the products of the last d, to recognise a loop that stops one short

    std::size_t row_index(const index4& i) const noexcept {
        return static_cast<std::size_t>((i[0] * shape[1] + i[1]) * shape[2] + i[2]);
    }
    std::size_t column_index(const index4& i) const noexcept {
        return static_cast<std::size_t>((i[0] * (shape[1] / group) + i[1] / group) * shape[3] + i[3]);
    }
    template <class Number>
    const Number* columns(const index4& i) const noexcept {
        const index4 start{i[0], i[1], 0, 0};
        if constexpr (std::same_as<Number, float>) return column_float.data() + column_index(start);
        else return column.data() + column_index(start);
    }
    double last_product(const index4& i) const noexcept {
        return scale * last_q[row_index(i)] * last_k[column_index(i)];
    }
};

/// The smallest Number that is not below x, for x >= 0; the greatest one for all beyond it.
template <class Number>
Number rounded_up(double x) noexcept {
    constexpr Number most = std::numeric_limits<Number>::max();
    if (!(x < static_cast<double>(most))) return most;
    const Number y = static_cast<Number>(x);
    return static_cast<double>(y) < x ? std::nextafter(y, std::numeric_limits<Number>::infinity()) : y;
}

/// |x| of n strided elements, not below the true norm. Rescaled, so that squares neither overflow nor vanish. Rows that
/// hold NaN or infinity have no bound: 0.
template <class T>
double norm_up(const T* x, std::ptrdiff_t n, std::ptrdiff_t stride) noexcept {
    double largest = 0, sum = 0;
    for (std::ptrdiff_t i = 0; i < n; ++i) {
        const auto bits = load<double>(x[i * stride]);
        if (!is_finite<double>(bits)) return 0;
        largest = std::max(largest, finite_number<double>(magnitude<double>(bits)));
    }
    if (largest < std::numeric_limits<double>::min()) return static_cast<double>(n) * largest;
    for (std::ptrdiff_t i = 0; i < n; ++i) {
        const double y = finite_number<double>(load<double>(x[i * stride])) / largest;
        sum += y * y;
    }
    const double relative = std::sqrt(sum) * (1 + static_cast<double>(n + 8) * std::numeric_limits<double>::epsilon());
    constexpr double most = std::numeric_limits<double>::max();
    return largest < most / relative ? relative * largest : most;
}

}  // namespace detail

/// A rule of agreement, made by one of the named functions below. A cheap value: copies share the norms of `dot`.
class tolerance {
public:
    enum class rule { plain, dot, ulps, bitwise };

    /// |a - b| <= atol + |rtol * b|, as allclose has it.
    [[nodiscard]] static tolerance within(const allclose_options& options) {
        detail::check_options(options);
        tolerance result(rule::plain);
        result.options_ = options;
        return result;
    }

    /// At most `steps` apart in ULP; see `ulp_distance`. Both operands must have one type.
    [[nodiscard]] static tolerance ulps(std::uint64_t steps) {
        tolerance result(rule::ulps);
        result.ulps_ = steps;
        return result;
    }

    /// The same bits: +0 is not -0, and a NaN is itself. For checks of determinism. Both operands must have one type.
    [[nodiscard]] static tolerance bitwise() { return tolerance(rule::bitwise); }

    /// How far two correct evaluations of scale * q.k can be apart, in whatever order each adds and with or without
    /// FMA: 2 g |q_l| |k_m| per output, g = n u / (1 - n u), n = D (one more when scaled), by Cauchy-Schwarz (Higham,
    /// Accuracy and Stability of Numerical Algorithms, 3.1). u is half an ULP of 1: 2^-24 for float, 2^-53 for double;
    /// half and bfloat16 are taken to be accumulated in float and rounded once. q is (b,h,l,d), k is (b,kv,m,d), h a
    /// multiple of kv; the output is (b,h,l,m). Rows with NaN or infinity get no allowance. Reads q and k once, keeps
    /// the norms, not the arrays. Refuses shapes that do not fit, a depth of 1/(2u) and more, and a scale that is not
    /// finite.
    template <strided_array Q, strided_array K>
    [[nodiscard]] static tolerance dot(const Q& q, const K& k, double scale = 1.0);

    /// This tolerance, or that of allclose where it is wider: max(atol + |rtol * b|, bound). `equal_nan` is taken over.
    [[nodiscard]] tolerance at_least(const allclose_options& options) const {
        detail::check_options(options);
        tolerance result = *this;
        result.options_ = {options.rtol, std::max(options.atol, options_.atol), options.equal_nan};
        return result;
    }

    /// The defaults of torch.testing.assert_close: float 1.3e-6/1e-5, double 1e-7/1e-7, half 1e-3/1e-5, bfloat16
    /// 1.6e-2/1e-5 (told apart by std::numeric_limits), integers exact.
    template <element T>
    [[nodiscard]] static constexpr allclose_options standard() noexcept {
        constexpr int digits = std::numeric_limits<T>::digits;
        if constexpr (std::numeric_limits<T>::is_integer) return {.rtol = 0, .atol = 0};
        else if constexpr (std::same_as<T, double>) return {.rtol = 1e-7, .atol = 1e-7};
        else if constexpr (std::same_as<T, float>) return {.rtol = 1.3e-6, .atol = 1e-5};
        else if constexpr (digits == 11) return {.rtol = 1e-3, .atol = 1e-5};
        else {
            static_assert(digits == 8, "the type is none that torch.testing has defaults for");
            return {.rtol = 1.6e-2, .atol = 1e-5};
        }
    }

    [[nodiscard]] rule kind() const noexcept { return rule_; }
    [[nodiscard]] bool arithmetic() const noexcept { return rule_ == rule::plain || rule_ == rule::dot; }
    [[nodiscard]] const allclose_options& options() const noexcept { return options_; }
    [[nodiscard]] std::uint64_t steps() const noexcept { return ulps_; }
    [[nodiscard]] const detail::dot_bound* bound() const noexcept { return dot_.get(); }

private:
    explicit tolerance(rule r) : rule_(r) {}

    rule rule_;
    allclose_options options_{.rtol = 0, .atol = 0};
    std::uint64_t ulps_ = 0;
    std::shared_ptr<const detail::dot_bound> dot_;
};

namespace detail {

/// g of one result. Products that underflow, or are flushed to zero, are the business of `underflow_floor`.
template <class T>
double dot_gamma(std::ptrdiff_t roundings) {
    const double u = std::same_as<T, double> ? 0x1p-53 : 0x1p-24;
    const double nu = static_cast<double>(roundings) * u;
    if (nu >= 0.5)
        refuse(std::string("tolerance::dot: D = ") + std::to_string(roundings) + " is too large for the bound to hold");
    const double gamma = nu / (1 - nu);
    if constexpr (!small_float<T>) return gamma;
    else return gamma + (1 + gamma) * to_double(std::numeric_limits<T>::epsilon()) / 2;
}

template <class T>
double underflow_floor(std::ptrdiff_t depth) noexcept {
    constexpr double smallest = std::same_as<T, double> ? std::numeric_limits<double>::min() : 0x1p-126;
    return 4 * static_cast<double>(depth + 1) * smallest;
}

/// The norms of all rows (b, h, l) of x, times `factor`, and the last element of each row.
template <class T>
void row_norms(const elements<T>& x, double factor, std::vector<double>& norms, std::vector<double>& last) {
    const auto& shape = x.at.shape;
    norms.reserve(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
    last.reserve(norms.capacity());
    for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
        for (std::ptrdiff_t h = 0; h < shape[1]; ++h)
            for (std::ptrdiff_t l = 0; l < shape[2]; ++l) {
                norms.push_back(factor * norm_up(shape[3] ? &x[{b, h, l, 0}] : nullptr, shape[3], x.at.strides[3]));
                last.push_back(shape[3] ? finite_number<double>(load<double>(x[{b, h, l, shape[3] - 1}])) : 0.0);
            }
}

/// For each key head: divides the columns by a power of two that makes them at most 1, multiplies the rows by it. That
/// is exact, and no product then overflows in a head whose outputs do not.
inline void make_columns_fractions(dot_bound& bound) {
    const auto heads = static_cast<std::size_t>(bound.shape[0] * (bound.shape[1] / bound.group));
    const std::size_t rows = bound.row.size() / heads, columns = bound.column.size() / heads;
    for (std::size_t head = 0; head < heads; ++head) {
        double *const row = bound.row.data() + head * rows, *const column = bound.column.data() + head * columns;
        int exponent = 0;
        std::frexp(*std::max_element(column, column + columns), &exponent);
        for (std::size_t i = 0; i < rows; ++i) row[i] = rounded_up<double>(std::ldexp(row[i], exponent));
        for (std::size_t i = 0; i < columns; ++i) column[i] = std::ldexp(column[i], -exponent);
    }
    bound.column_float.reserve(bound.column.size());
    for (const double norm : bound.column) bound.column_float.push_back(rounded_up<float>(norm));
}

}  // namespace detail

template <strided_array Q, strided_array K>
tolerance tolerance::dot(const Q& q_array, const K& k_array, double scale) {
    const auto q = detail::elements_of(q_array);
    const auto k = detail::elements_of(k_array);
    using T = std::remove_cvref_t<decltype(*q.data)>;
    static_assert(std::same_as<T, std::remove_cvref_t<decltype(*k.data)>> && !std::is_integral_v<T>,
                  "q and k must have one floating-point type");
    const auto &qs = q.at.shape, &ks = k.at.shape;
    const bool heads_match = qs[1] == ks[1] || (ks[1] > 0 && qs[1] % ks[1] == 0);
    if (q.at.rank != 4 || k.at.rank != 4 || qs[0] != ks[0] || !heads_match || qs[3] != ks[3])
        detail::refuse(std::string("tolerance::dot: q is ") + q.at.text() + ", k is " + k.at.text() +
                       "; they must be (b, h, l, d) and (b, kv, m, d), h a multiple of kv");

    if (!detail::is_finite<double>(detail::to_bits(scale))) detail::refuse("tolerance::dot: the scale must be finite");

    const detail::exact_subnormals guard;
    auto bound = std::make_shared<detail::dot_bound>();
    bound->shape = {qs[0], qs[1], qs[2], ks[2]};
    bound->depth = qs[3];
    bound->group = qs[1] == ks[1] ? 1 : qs[1] / ks[1];
    bound->unit = detail::small_float<T> ? detail::to_double(std::numeric_limits<T>::epsilon()) / 2
                                         : (std::same_as<T, double> ? 0x1p-53 : 0x1p-24);
    bound->scale = scale;
    // The products row * column are rounded to the type again: 1 + 2^-22 outweighs what that can lose.
    bound->factor = 2 * detail::dot_gamma<T>(qs[3] + (scale == 1.0 ? 0 : 1)) * std::abs(scale) * (1 + 0x1p-22);
    const bool empty = qs[0] == 0 || qs[1] == 0 || qs[2] == 0 || ks[2] == 0;  // then D may be 0, and L anything
    if (!empty) {
        detail::row_norms(q, bound->factor, bound->row, bound->last_q);
        detail::row_norms(k, 1.0, bound->column, bound->last_k);
        detail::make_columns_fractions(*bound);
    }

    tolerance result(rule::dot);
    result.options_.atol = detail::underflow_floor<T>(qs[3]);
    result.dot_ = std::move(bound);
    return result;
}

}  // namespace headwise
