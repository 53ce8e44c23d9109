// Axes: from values to pixels, linear or logarithmic, with ticks that are round numbers and do not touch.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headwise/harness/svg.hpp>

namespace headwise::detail {

/// More marks than this run into one another: they are drawn as a summary.
inline constexpr std::size_t most_marks = 400;

/// What an axis shows, which decides how its ticks read.
enum class quantity { duration, ratio, rate, number };

/// The least and the greatest of the values that can be drawn: finite, and on a logarithmic axis positive.
struct extent {
    double low = HUGE_VAL, high = -HUGE_VAL;

    void add(double value) noexcept {
        if (!std::isfinite(value) || std::abs(value) > 1e300) return;
        low = std::min(low, value), high = std::max(high, value);
    }
    void add_positive(double value) noexcept {
        if (value > 1e-300) add(value);
    }
    /// A time in nanoseconds that a clock can have told: from a femtosecond to thirty years.
    void add_time(double ns) noexcept {
        if (ns >= 1e-6 && ns <= 1e18) add(ns);
    }
    [[nodiscard]] bool empty() const noexcept { return low > high; }
};

struct axis {
    bool logarithmic = false;
    double low = 0, high = 1;  ///< values, low < high
    double from = 0, to = 1;   ///< their pixels
    quantity what = quantity::number;

    /// The pixel of a value; one beyond the axis is at its end.
    [[nodiscard]] double at(double value) const noexcept {
        const double v = std::clamp(value, low, high);  // NaN stays; the drawing catches it
        const double share = logarithmic ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
        return from + share * (to - from);
    }
    [[nodiscard]] bool covers(double value) const noexcept { return value >= low && value <= high; }
};

/// An axis over `values` with some room at its ends. Nothing to show: 0 to 1, or 1 to 10.
[[nodiscard]] inline axis axis_over(extent values, bool logarithmic, double from, double to, quantity what) {
    if (values.empty()) values = logarithmic ? extent{1, 10} : extent{0, 1};
    if (logarithmic) {
        const double decades = std::log10(values.high) - std::log10(values.low);  // their ratio may be infinite
        const double room = std::pow(10.0, 0.05 * decades) * (values.high / values.low < 1.001 ? 1.02 : 1);
        return {true, std::max(values.low / room, 1e-307), std::min(values.high * room, 1e307), from, to, what};
    }
    const double span = values.high - values.low, size = std::max(std::abs(values.low), std::abs(values.high));
    const double room = span > 1e-9 * size ? 0.05 * span : size > 0 ? 0.05 * size : 1;
    return {false, values.low - room, values.high + room, from, to, what};
}

/// Six digits at most, as few as say it, with a point in any locale.
[[nodiscard]] inline std::string shortest(double value) {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value + 0.0, std::chars_format::general, 6).ptr;
    return {buffer, end};
}

/// A value as a tick of this axis: "2 us", "1.02x", "50 G". A short axis has one unit, a long one each tick its own.
[[nodiscard]] inline std::string tick_text(const axis& a, double value) {
    if (a.what == quantity::ratio) return shortest(value) + "x";
    if (a.what == quantity::number || !(value > 0)) return shortest(value);
    const bool short_axis = a.high < 12 * a.low;
    double scale = short_axis ? a.high : value * 1.000001;
    constexpr std::array<std::string_view, 4> times{" ns", " us", " ms", " s"};
    constexpr std::array<std::string_view, 6> rates{"", " k", " M", " G", " T", " P"};
    const std::size_t last = a.what == quantity::duration ? times.size() - 1 : rates.size() - 1;
    std::size_t unit = 0;
    for (; unit < last && scale >= 1000; ++unit) scale /= 1000, value /= 1000;
    return shortest(value) + std::string(a.what == quantity::duration ? times[unit] : rates[unit]);
}

/// The multiples of 1, 2 or 5 times a power of ten that lie on the axis, at most `most` of them.
[[nodiscard]] inline std::vector<double> linear_ticks(const axis& a, int most) {
    const double power = std::pow(10.0, std::floor(std::log10((a.high - a.low) / most)));
    std::vector<double> ticks;
    for (const double multiple : {1, 2, 5, 10, 20, 50}) {
        const double step = multiple * power, first = std::ceil(a.low / step);
        if (std::floor(a.high / step) - first + 1 > most) continue;
        for (double i = first; i * step <= a.high + step; ++i) {
            if (a.covers(i * step)) ticks.push_back(i * step);
        }
        break;
    }
    return ticks;
}

/// The powers of ten on a logarithmic axis, of them every `every`th, times each of `multiples`.
[[nodiscard]] inline std::vector<double> decade_ticks(const axis& a, std::initializer_list<double> multiples,
                                                      int every) {
    std::vector<double> ticks;
    const int first = static_cast<int>(std::floor(std::log10(a.low))), last = static_cast<int>(std::log10(a.high)) + 1;
    for (int decade = first; decade <= last; ++decade) {
        if (decade % every != 0) continue;
        for (const double multiple : multiples) {
            const double tick = multiple * std::pow(10.0, decade);
            if (a.covers(tick)) ticks.push_back(tick);
        }
    }
    return ticks;
}

/// Do the labels of these ticks keep apart?
[[nodiscard]] inline bool ticks_fit(const axis& a, const std::vector<double>& ticks, bool horizontal) {
    for (std::size_t i = 1; i < ticks.size(); ++i) {
        const double gap = std::abs(a.at(ticks[i]) - a.at(ticks[i - 1]));
        const double need =
            horizontal ? (text_width(tick_text(a, ticks[i])) + text_width(tick_text(a, ticks[i - 1]))) / 2 + 10 : 26;
        if (gap < need) return false;
    }
    return true;
}

/// As many round ticks as fit: even ones, or, on a logarithmic axis, the same few in every decade. Over so many decades
/// that even their first do not fit, every second of them, or every third.
[[nodiscard]] inline std::vector<double> ticks_of(const axis& a, bool horizontal) {
    std::vector<double> best;
    const auto consider = [&](std::vector<double> ticks) {
        if (ticks.size() > best.size() && ticks_fit(a, ticks, horizontal)) best = std::move(ticks);
    };
    if (!a.logarithmic || a.high < 12 * a.low) {
        for (int most = 8; most > 1; --most) consider(linear_ticks(a, most));
    }
    if (a.logarithmic && a.high > 3 * a.low) {
        for (const auto& multiples : {std::initializer_list<double>{1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}})
            consider(decade_ticks(a, multiples, 1));
        for (int every = 2; every < 400 && best.size() < 2; ++every) consider(decade_ticks(a, {1}, every));
    }
    return best;
}

/// Grid lines from `top` to `bottom`, tick labels below, and below them what the axis shows. Takes 40 pixels below
/// `bottom`.
inline void draw_horizontal_axis(drawing& d, const axis& a, double top, double bottom, std::string_view title) {
    for (const double tick : ticks_of(a, true)) {
        const double x = a.at(tick);
        const std::string label = tick_text(a, tick);
        const double half = text_width(label) / 2;
        d.line(x, top, x, bottom, "grid");
        d.text(std::clamp(x, half, std::max(half, d.width() - half)), bottom + 15, label, "muted", anchor::middle);
    }
    d.text((a.from + a.to) / 2, bottom + 34, title, "muted", anchor::middle);
}

/// Grid lines from `left` to `right`, tick labels left of them.
inline void draw_vertical_axis(drawing& d, const axis& a, double left, double right) {
    for (const double tick : ticks_of(a, false)) {
        const double y = a.at(tick);
        d.line(left, y, right, y, "grid");
        d.text(left - 6, y + 4, tick_text(a, tick), "muted", anchor::end);
    }
}

/// The pixels that the labels of a vertical axis take to its left.
[[nodiscard]] inline double label_width(const axis& a) {
    double width = 0;
    for (const double tick : ticks_of(a, false)) width = std::max(width, text_width(tick_text(a, tick)));
    return width + 8;
}

}  // namespace headwise::detail
