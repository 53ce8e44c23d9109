// Speed-ups with their intervals, a row each, on one logarithmic axis: the arms of a comparison, the points of a sweep,
// the shapes of a race.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/plot_axis.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

struct plot_interval {
    std::string label;
    std::optional<interval> ratio;  ///< above 1 is the better; nothing: `remark` alone
    std::string remark = {};        ///< in place of the figure: "wrong output"
    std::size_t colour = 0;
};

inline constexpr std::string_view intervals_caption =
    "The dot is the estimate, the line its interval; right of the broken line at 1 is faster, left of it slower. An "
    "interval that crosses it does not say which.";

namespace detail {

[[nodiscard]] inline axis intervals_axis(std::span<const plot_interval> rows, double from, double to) {
    extent all;
    for (const plot_interval& row : rows) {
        if (!row.ratio) continue;
        for (const double end : {row.ratio->low, row.ratio->estimate, row.ratio->high}) all.add_positive(end);
    }
    all.add(1 / 1.02), all.add(1.02);
    return axis_over(all, true, from, to, quantity::ratio);
}

inline void draw_interval(drawing& d, const axis& a, double y, const plot_interval& row) {
    const interval& r = *row.ratio;
    d.line(a.at(r.low), y, a.at(r.high), y, "line " + colour('s', row.colour));
    d.dot(a.at(r.estimate), y, 4, colour('f', row.colour));
}

}  // namespace detail

/// The picture, `width` pixels wide; below 560 each label stands above its line. `style`: CSS for a picture that stands
/// alone.
[[nodiscard]] inline std::string intervals_svg(std::span<const plot_interval> rows, double width,
                                               std::string_view axis_title, std::string_view style = {}) {
    using namespace detail;
    const bool stacked = width < 560;
    const double label = stacked ? 0 : 0.28 * width, figure = 22 * strong_width;
    const axis a = intervals_axis(rows, label + 8, width - (stacked ? 8 : figure + 8));
    const double row_height = stacked ? 38 : 24, top = 22;
    const double bottom = top + row_height * static_cast<double>(std::max<std::size_t>(rows.size(), 1)) + 4;
    drawing d(width, axis_title, std::string(intervals_caption));
    draw_horizontal_axis(d, a, top, bottom, axis_title);
    d.line(a.at(1), top, a.at(1), bottom, "one");
    if (a.at(1) > text_width("< slower") + 8) d.text(a.at(1) - 6, 13, "\xe2\x86\x90 slower", "muted", anchor::end);
    if (width - a.at(1) > text_width("faster >") + 8) d.text(a.at(1) + 6, 13, "faster \xe2\x86\x92", "muted");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const plot_interval& row = rows[i];
        const double baseline = top + row_height * static_cast<double>(i) + 16;
        const double room = stacked ? width - figure - 16 : label;
        const bool known = row.ratio && row.ratio->estimate > 0 && std::isfinite(row.ratio->estimate);
        const ratio_text text(row.ratio.value_or(interval{1, 1, 1}));
        const std::string value = known ? text.estimate + " " + text.range : row.remark.empty() ? "-" : row.remark;
        d.text(8, baseline, shortened(row.label, whole(room / character_width - 1)));
        d.text(width - 8, baseline, shortened(value, static_cast<std::size_t>(figure / strong_width)),
               known ? "strong" : "muted", anchor::end);
        if (known) draw_interval(d, a, stacked ? baseline + 13 : baseline - 4, row);
    }
    return d.finished(bottom + 40, style);
}

}  // namespace headwise
