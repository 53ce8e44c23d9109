// What do the mismatches look like? The mistakes that people make, recognised from a bounded sample.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/elements.hpp>
#include <headwise/harness/isclose.hpp>
#include <headwise/harness/number_text.hpp>
#include <headwise/harness/tolerance.hpp>

namespace headwise::detail {

/// Collects mismatches in fixed memory: where they lie, and an even sample of them. Then asks of each usual mistake
/// whether it would explain the sample. Only finite mismatches are sampled.
template <class A, class B>
class suspects {
public:
    suspects(const elements<A>& actual, const elements<B>& expected, const tolerance& rule)
        : actual_(actual), expected_(expected), rule_(rule) {}

    void add(const index4& at, const A& a, kind what) {
        for (std::size_t d = 0; d < 4; ++d) low_[d] = std::min(low_[d], at[d]), high_[d] = std::max(high_[d], at[d]);
        const std::ptrdiff_t diagonal = at[3] - at[2];
        low_diagonal_ = std::min(low_diagonal_, diagonal), high_diagonal_ = std::max(high_diagonal_, diagonal);
        ++mismatches_;
        if (what != kind::finite) return;
        zeros_ += magnitude<double>(load<double>(a)) == 0;
        if (finite_++ != next_) return;
        if (sampled_ == sample_.size()) thin();
        sample_[sampled_++] = at;
        next_ += step_;
    }

    void name_them(std::vector<std::string>& names) const {
        if (zeros_ > 1 && zeros_ * 10 >= mismatches_ * 9)
            names.push_back(std::string("actual is zero at ") + std::to_string(zeros_) +
                            " of the mismatches: not written?");
        else if (sampled_ > 0) name_values(names);
        name_place(names);
    }

private:
    elements<A> actual_;
    elements<B> expected_;
    const tolerance& rule_;
    index4 low_{huge, huge, huge, huge}, high_{-1, -1, -1, -1};
    std::ptrdiff_t low_diagonal_ = huge, high_diagonal_ = -huge;
    std::ptrdiff_t mismatches_ = 0, finite_ = 0, zeros_ = 0, next_ = 0, step_ = 1;
    std::array<index4, 256> sample_;
    std::size_t sampled_ = 0;
    static constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();

    /// Keeps every other one, and takes half as many from here on.
    void thin() {
        for (std::size_t i = 0; i < sample_.size() / 2; ++i) sample_[i] = sample_[2 * i];
        sampled_ = sample_.size() / 2, step_ *= 2;
    }

    double actual(const index4& i) const { return as_double(actual_[i]); }
    double expected(const index4& i) const { return as_double(expected_[i]); }
    template <class T>
    static double as_double(const T& x) {
        double y;
        put(y, load<double>(x));
        return y;
    }

    /// Would x have been accepted where y is expected? (A hair more generously: y was computed here, in double.)
    bool near(double x, double y, const index4& at) const {
        double allowed = rule_.options().atol + (rule_.options().rtol + 4 * epsilon()) * std::abs(y);
        if (const dot_bound* dot = rule_.bound())
            allowed = std::max(allowed, dot->row[dot->row_index(at)] * dot->column[dot->column_index(at)]);
        return std::abs(x - y) <= allowed;
    }
    static constexpr double epsilon() {
        if constexpr (std::numeric_limits<A>::is_integer) return 0;
        else return to_double(std::numeric_limits<A>::epsilon());
    }

    /// Is what stands at (nearly) every sampled place what `predict(place)` says? No prediction, no explanation.
    template <class Predict>
    bool explained_by(Predict&& predict) const {
        std::size_t right = 0;
        for (std::size_t i = 0; i < sampled_; ++i) {
            const std::optional<double> y = predict(sample_[i]);
            right += y && near(actual(sample_[i]), *y, sample_[i]);
        }
        return sampled_ > 1 && right * 20 >= sampled_ * 19;
    }

    void name_values(std::vector<std::string>& names) const {
        const auto& shape = actual_.at.shape;
        using guess = std::optional<double>;
        if (explained_by([&](const index4& i) -> guess { return -expected(i); }))
            return names.push_back("actual is expected with the sign changed");
        if (name_scale(names)) return;
        if (name_rounding(names)) return;
        const dot_bound* dot = rule_.bound();
        if (dot && explained_by([&](const index4& i) -> guess { return expected(i) - dot->last_product(i); }))
            return names.push_back(std::string("the last of the D = ") + std::to_string(dot->depth) +
                                   " products is missing from the sums");
        if (actual_.at.rank < 2) return;
        if (shape[2] == shape[3] && explained_by([&](const index4& i) -> guess {
                return expected({i[0], i[1], i[3], i[2]});
            }))
            return names.push_back("the last two dimensions (L and M) are transposed");
        for (const std::ptrdiff_t step : {-1, +1})
            if (explained_by([&](const index4& i) -> guess {
                    const std::ptrdiff_t row = i[2] + step;
                    if (row < 0 || row >= shape[2]) return std::nullopt;
                    return expected({i[0], i[1], row, i[3]});
                }))
                return names.push_back(step < 0 ? "rows hold what was expected of the row before"
                                                : "rows hold what was expected of the row after");
        name_permutation(names);
    }

    /// One factor for all? Taken from the greatest expected value, where it is most exact.
    bool name_scale(std::vector<std::string>& names) const {
        index4 at = sample_[0];
        for (std::size_t i = 1; i < sampled_; ++i)
            if (std::abs(expected(sample_[i])) > std::abs(expected(at))) at = sample_[i];
        if (!(std::abs(expected(at)) > 0)) return false;
        const double factor = actual(at) / expected(at);
        if (std::abs(factor - 1) <= 64 * epsilon()) return false;  // under an exact rule: a rounding, not a scale
        if (!explained_by([&](const index4& i) -> std::optional<double> { return factor * expected(i); })) return false;
        std::string text = "actual is expected times " + general(factor, 6);
        const double square = factor > 1 ? factor * factor : 1 / (factor * factor);
        const double whole = std::round(square);
        if (factor > 0 && whole >= 2 && whole <= 65536 && std::abs(square - whole) < 1e-4 * whole)
            text += std::string(", which is ") + (factor > 1 ? "sqrt(" : "1/sqrt(") + general(whole, 6) +
                    "): a scale of 1/sqrt(D) " + (factor > 1 ? "missing?" : "too many?");
        names.push_back(text);
        return true;
    }

    /// Do the actual values fit a narrower format, as the expected ones do not?
    bool name_rounding(std::vector<std::string>& names) const {
        struct format {
            const char* name;
            int digits;
        };
        for (const format f : {format{"bfloat16", 8}, format{"float16", 11}, format{"float", 24}}) {
            if (f.digits >= std::numeric_limits<A>::digits) break;
            std::size_t actual_fits = 0, expected_fits = 0, close = 0;
            for (std::size_t i = 0; i < sampled_; ++i) {
                const double x = actual(sample_[i]), y = expected(sample_[i]);
                actual_fits += fits(x, f.digits), expected_fits += fits(y, f.digits);
                close += std::abs(x - y) <= std::ldexp(std::abs(y), 1 - f.digits);
            }
            if (sampled_ > 1 && actual_fits == sampled_ && expected_fits * 2 < sampled_ &&
                close * 20 >= sampled_ * 19) {
                names.push_back(std::string("actual looks rounded to ") + f.name + " (" + std::to_string(f.digits) +
                                " bits)");
                return true;
            }
        }
        return false;
    }

    static bool fits(double x, int digits) {
        int exponent = 0;
        const double scaled = std::ldexp(std::frexp(x, &exponent), digits);
        return scaled == std::floor(scaled);
    }

    /// Does each wrong head hold what was expected of another one?
    void name_permutation(std::vector<std::string>& names) const {
        const auto& shape = actual_.at.shape;
        if (shape[0] * shape[1] < 2) return;
        std::vector<std::pair<index4, index4>> moved;  // head, whose values it holds
        for (std::size_t i = 0; i < sampled_; ++i) {
            const index4 head{sample_[i][0], sample_[i][1], 0, 0};
            const bool seen =
                std::any_of(moved.begin(), moved.end(), [&](const auto& pair) { return pair.first == head; });
            if (seen) continue;
            const std::optional<index4> source = source_of(head);
            if (!source) return;
            moved.emplace_back(head, *source);
        }
        std::string text = "heads are permuted: ";
        for (std::size_t i = 0; i < std::min<std::size_t>(moved.size(), 4); ++i)
            text += std::string(i ? "; " : "") + "(b, h) = " + head_text(moved[i].first) +
                    " holds what was expected of " + head_text(moved[i].second);
        names.push_back(text + (moved.size() > 4 ? "; ..." : ""));
    }

    static std::string head_text(const index4& i) {
        return std::string("(") + std::to_string(i[0]) + ", " + std::to_string(i[1]) + ")";
    }

    std::optional<index4> source_of(const index4& head) const {
        const auto& shape = actual_.at.shape;
        for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
            for (std::ptrdiff_t h = 0; h < shape[1]; ++h) {
                if (b == head[0] && h == head[1]) continue;
                const bool same = explained_in(head, b, h);
                if (same) return index4{b, h, 0, 0};
            }
        return std::nullopt;
    }

    /// Compares up to 61 places, evenly spread over the head: a prime, so that they fall into no one column.
    bool explained_in(const index4& head, std::ptrdiff_t b, std::ptrdiff_t h) const {
        const auto& shape = actual_.at.shape;
        const std::ptrdiff_t places = shape[2] * shape[3], step = std::max<std::ptrdiff_t>(1, places / 61);
        for (std::ptrdiff_t p = 0; p < places; p += step) {
            const index4 here{head[0], head[1], p / shape[3], p % shape[3]};
            if (!near(actual(here), expected({b, h, here[2], here[3]}), here)) return false;
        }
        return true;
    }

    /// One diagonal, or a box of at most half the array.
    void name_place(std::vector<std::string>& names) const {
        const layout& at = actual_.at;
        if (at.rank >= 2 && low_[2] < high_[2] && low_diagonal_ == high_diagonal_)
            names.push_back(std::string("all mismatches lie on the diagonal m = l") + offset_text(low_diagonal_) +
                            ": a causal mask that is off by one?");
        static constexpr std::array<const char*, 4> axis{"b", "h", "l", "m"};
        std::string box;
        double share = 1;  // of the array
        for (std::size_t d = 4 - static_cast<std::size_t>(at.rank); d < 4; ++d) {
            if (low_[d] == 0 && high_[d] == at.shape[d] - 1) continue;
            share *= static_cast<double>(high_[d] - low_[d] + 1) / static_cast<double>(at.shape[d]);
            box +=
                std::string(box.empty() ? "" : ", ") + (at.rank == 1 ? "i" : axis[d]) + " = " + std::to_string(low_[d]);
            if (high_[d] > low_[d]) box += " ... " + std::to_string(high_[d]);
        }
        if (mismatches_ > 1 && share <= 0.5) names.push_back("all mismatches lie in " + box);
    }

    static std::string offset_text(std::ptrdiff_t d) {
        return d == 0 ? std::string() : std::string(d > 0 ? " + " : " - ") + std::to_string(d > 0 ? d : -d);
    }
};

}  // namespace headwise::detail
