// Do two arrays agree, and if not: what differs, where, by how much, and what does it look like?
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <headwise/harness/elements.hpp>
#include <headwise/harness/isclose.hpp>
#include <headwise/harness/scan.hpp>
#include <headwise/harness/suspicion.hpp>
#include <headwise/harness/tolerance.hpp>
#include <headwise/harness/ulp.hpp>

namespace headwise {

/// `allclose`, explained. Made from two arrays and a tolerance; a value that prints itself.
///
///     close_report report(actual, expected, {.rtol = 1e-5});
///     if (!report) std::cout << report;
///
/// One pass that allocates nothing when all is close; a second over a bounded sample of the mismatches, to say what
/// they look like. Refuses as `allclose` does.
struct close_report {
    /// One pair. Positions are (b, h, l, m); arrays of a lower rank fill them from the right.
    struct difference {
        std::array<std::ptrdiff_t, 4> index{};
        double actual = 0, expected = 0;
        double absolute = 0;                ///< |actual - expected|, as their type computes it
        std::optional<double> relative;     ///< absolute / |expected|; none where expected is zero
        double allowed = 0;                 ///< the tolerance at this place
        std::optional<std::uint64_t> ulps;  ///< none for integers and mixed types
        /// |actual| and |expected| of integers, in full: a double holds 53 bits of them.
        std::optional<std::uint64_t> actual_integer, expected_integer;
    };

    close_report() = default;

    template <comparable_array Actual, comparable_array Expected>
    close_report(const Actual& actual, const Expected& expected, const allclose_options& options = {})
        : close_report(actual, expected, tolerance::within(options)) {}

    template <comparable_array Actual, comparable_array Expected>
    close_report(const Actual& actual, const Expected& expected, const tolerance& rule);

    [[nodiscard]] explicit operator bool() const noexcept { return matches; }
    [[nodiscard]] std::string text() const;
    friend std::ostream& operator<<(std::ostream& out, const close_report& report);

    bool matches = true;
    std::ptrdiff_t total = 0, mismatches = 0;
    /// The mismatches, split: both finite; NaN on one side; NaN on both (without equal_nan); an infinity on either
    /// side.
    std::ptrdiff_t finite = 0, nan_one_side = 0, nan_both = 0, infinite = 0;

    /// Among the finite mismatches; of arrays that match, among all pairs. Empty if there is no such pair.
    std::optional<difference> greatest_absolute;
    std::optional<difference> greatest_relative;  ///< among the finite mismatches whose expected value is not zero
    std::optional<difference> worst;              ///< the greatest absolute / allowed
    double worst_ratio = 0;  ///< its ratio: above 1 is a mismatch; the greatest double where nothing is allowed

    /// tolerance::dot only: max |a - b| / (u |q| |k|) over all finite pairs, the residual as LAPACK's tests scale it.
    /// Of the order of 1; D is suspicious, 2D is out of bounds.
    std::optional<double> dot_ratio;

    /// The smallest tolerance that would pass if the other stayed as it is. Empty where none would (NaN, infinities, a
    /// difference that overflows, an expected zero), and when all is close.
    std::optional<double> passing_rtol, passing_atol;

    std::array<difference, 10> first{};   ///< the first mismatches in row-major order, min(10, mismatches) of them
    std::vector<std::string> suspicions;  ///< what the mismatches look like, most telling first

    bool single = false;  ///< printed with the digits of a float
    int rank = 1;
    std::array<std::ptrdiff_t, 4> shape{};
    tolerance rule = tolerance::within({});
};

namespace detail {

/// Fills a report while the scanner walks.
template <class A, class B>
class report_builder {
    using pair = pair_of<A, B>;
    using num = typename pair::num;

public:
    report_builder(close_report& report, const elements<A>& a, const elements<B>& b)
        : report_(report), layout_(a.at), scan_(a, b, report.rule), suspects_(a, b, report.rule) {}

    void run() {
        report_.total = layout_.size(), report_.rank = layout_.rank, report_.shape = layout_.shape;
        report_.single = std::is_same_v<num, float>;
        scan_.template walk<true>(
            order::row_major, [this](std::ptrdiff_t i, const A& a, const B& b, const judged<num>& j, const num& bound) {
                const bool measurable = j.kind == kind::finite && is_finite<num>(j.error);
                if (measurable && bound > 0)
                    raise(scan_.block.bound_record, finite_number<num>(j.error) / bound * num{1 + hair});
                if (!j.close) mismatch(i, a, b, j);
                else if (measurable && report_.mismatches == 0) record(i, a, b, j);
                return true;
            });
        report_.matches = report_.mismatches == 0;
        if (const dot_bound* dot = report_.rule.bound())
            report_.dot_ratio = static_cast<double>(scan_.block.bound_record) * dot->factor / dot->unit;
        if (report_.matches) return;
        if (!tolerance_can_pass_) report_.passing_atol.reset(), report_.passing_rtol.reset();
        suspects_.name_them(report_.suspicions);
    }

private:
    exact_subnormals guard_;  // before anything is converted
    close_report& report_;
    layout layout_;
    scanner<A, B> scan_;
    suspects<A, B> suspects_;
    index4 index_{};
    std::ptrdiff_t flat_ = 0;
    bool tolerance_can_pass_ = true, rtol_can_pass_ = true;
    num needed_rtol_ = 0, needed_atol_ = 0;  // of the mismatches so far

    static void raise(num& record, num value) noexcept {
        if (value > record) record = value;
    }

    /// x / y for x, y >= 0, where 0 / 0 is no difference at all.
    template <class Number>
    static Number ratio(Number x, Number y) noexcept {
        if (y > 0) return x / y;
        return x > 0 ? std::numeric_limits<Number>::max() : 0;
    }

    /// The index of element i; cheap when i has moved on a little.
    const index4& index_of(std::ptrdiff_t i) noexcept {
        const std::ptrdiff_t m = index_[3] + (i - flat_);
        if (m >= 0 && m < layout_.shape[3]) index_[3] = m;
        else index_ = layout_.index(i);
        flat_ = i;
        return index_;
    }

    close_report::difference describe(std::ptrdiff_t i, const A& a, const B& b, const judged<num>& j) {
        close_report::difference d;
        d.index = index_of(i);
        put(d.actual, load<double>(a)), put(d.expected, load<double>(b));
        put(d.absolute, widened<num>(j.error)), put(d.allowed, widened<num>(j.allowed));
        if (j.kind == kind::finite && d.expected != 0) d.relative = d.absolute / std::abs(d.expected);
        if constexpr (std::is_same_v<A, B> && !std::is_integral_v<A>) d.ulps = ulp_distance(a, b);
        if constexpr (std::is_integral_v<A>) d.actual_integer = size_of(a);
        if constexpr (std::is_integral_v<B>) d.expected_integer = size_of(b);
        return d;
    }

    template <class Integer>
    static std::uint64_t size_of(Integer x) noexcept {
        const auto bits = static_cast<std::uint64_t>(+x);  // the promotion lets bool and char in
        return +x < 0 ? 0 - bits : bits;
    }

    /// Keeps a finite pair wherever it is the greatest so far, and tells the scanner what there is to beat: a record
    /// is beaten by more than a rounding, or a constant difference would stop it at every pair.
    void record(std::ptrdiff_t i, const A& a, const B& b, const judged<num>& j) {
        double e, t, y;
        put(e, widened<num>(j.error)), put(t, widened<num>(j.allowed)), put(y, load<double>(b));
        y = std::abs(y);
        auto &absolute = report_.greatest_absolute, &relative = report_.greatest_relative, &worst = report_.worst;
        if (!absolute || e > absolute->absolute) absolute = describe(i, a, b, j);
        if (y > 0 && (!relative || e > *relative->relative * y)) relative = describe(i, a, b, j);
        const bool nothing_allowed = worst && !(t > 0) && !(worst->allowed > 0);
        if (!worst || (nothing_allowed ? e > worst->absolute : e > report_.worst_ratio * t)) {
            worst = describe(i, a, b, j);
            report_.worst_ratio = ratio(e, t);
        }
        scan_.block.error_record = static_cast<num>(absolute->absolute);
        scan_.block.ratio_record = static_cast<num>(report_.worst_ratio * (1 + hair));
    }
    static constexpr double hair = 8 * static_cast<double>(std::numeric_limits<num>::epsilon());

    void mismatch(std::ptrdiff_t i, const A& a, const B& b, const judged<num>& j) {
        if (report_.mismatches == 0) {  // from here on only mismatches count
            report_.greatest_absolute.reset(), report_.greatest_relative.reset(), report_.worst.reset();
            report_.worst_ratio = 0;
        }
        if (report_.mismatches < std::ssize(report_.first))
            report_.first[static_cast<std::size_t>(report_.mismatches)] = describe(i, a, b, j);
        ++report_.mismatches;
        ++(j.kind == kind::finite         ? report_.finite
           : j.kind == kind::infinite     ? report_.infinite
           : j.kind == kind::nan_one_side ? report_.nan_one_side
                                          : report_.nan_both);
        suspects_.add(index_of(i), a, j.kind);
        if (j.kind != kind::finite || !is_finite<num>(j.error)) tolerance_can_pass_ = false;
        if (j.kind != kind::finite) return;
        record(i, a, b, j);
        scan_.block.error_record = scan_.block.ratio_record = std::numeric_limits<num>::max();
        if (report_.rule.arithmetic() && tolerance_can_pass_) passing(b, j);
    }

    /// What each tolerance would have to be for this pair, and so for all so far.
    void passing(const B& b, const judged<num>& j) {
        const auto allows = [&](num rtol, num atol) {
            limits<num> limit = scan_.limit;
            limit.rtol = rtol, limit.atol = atol;
            return is_finite<num>(j.error) && j.error <= pair::allowed(b, limit, num{});
        };
        const num rtol = scan_.limit.rtol, atol = scan_.limit.atol;
        const num e = finite_number<num>(j.error), y = std::abs(finite_number<num>(load<num>(b)));
        if (!allows(rtol, needed_atol_)) {
            needed_atol_ = smallest(e - std::min(e, rtol * y), [&](num t) { return allows(rtol, t); });
            report_.passing_atol = static_cast<double>(needed_atol_);
        }
        if (!rtol_can_pass_ || allows(needed_rtol_, atol)) return;
        rtol_can_pass_ = allows(std::numeric_limits<num>::max(), atol);
        if (rtol_can_pass_) {
            needed_rtol_ = smallest((e - std::min(e, atol)) / y, [&](num t) { return allows(t, atol); });
            report_.passing_rtol = static_cast<double>(needed_rtol_);
        } else {
            report_.passing_rtol.reset();
        }
    }

    /// The smallest number that is enough, from a guess that is right up to a few roundings.
    template <class Enough>
    static num smallest(num guess, Enough&& enough) {
        for (int i = 0; i < 4; ++i) guess = std::nextafter(guess, num{0});
        for (int i = 0; i < 8 && !enough(guess); ++i) guess = std::nextafter(guess, std::numeric_limits<num>::max());
        return guess;
    }
};

}  // namespace detail

template <comparable_array Actual, comparable_array Expected>
close_report::close_report(const Actual& actual, const Expected& expected, const tolerance& with) : rule(with) {
    const auto a = detail::elements_of(actual);
    const auto b = detail::elements_of(expected);
    detail::report_builder(*this, a, b).run();
}

}  // namespace headwise

#include <headwise/harness/close_text.hpp>
