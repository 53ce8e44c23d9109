// How many times as fast an arm was, pair by pair, in the order measured: drift, steps and bursts show here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/plot_axis.hpp>
#include <headwise/harness/statistics.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

/// The paired ratios of one arm: time of arm 0 over time of this arm. Those that are not positive and finite are left
/// out.
struct plot_ratios {
    std::string name, base;
    std::vector<double> ratios;  ///< NaN where a pair could not be measured
    std::optional<interval> speedup = {};
    std::size_t arm = 1;  ///< its colour
};

namespace detail {

/// One ratio a block, of the shorter of each arm's epochs in it: what the verdict is made of. Epochs that something
/// came between count only when without them less than half of the blocks were left.
[[nodiscard]] inline std::vector<double> block_ratios(const comparison& c, std::size_t i) {
    const std::size_t per_block = std::max<std::size_t>(1, c.epochs_per_block);
    const arm_result &a = c.arms.front(), &b = c.arms.at(i);
    const auto shortest = [&](const arm_result& arm, std::size_t first, bool with_spoiled) {
        double best = HUGE_VAL;
        for (std::size_t e = first; e < first + per_block; ++e) {
            if (arm.samples[e] > 0 && (with_spoiled || e >= arm.spoiled.size() || !arm.spoiled[e]))
                best = std::min(best, arm.samples[e]);
        }
        return best;
    };
    std::vector<double> ratios(std::min(a.samples.size(), b.samples.size()) / per_block);
    for (const bool with_spoiled : {false, true}) {
        std::size_t measured = 0;
        for (std::size_t block = 0; block < ratios.size(); ++block) {
            const double ratio =
                shortest(a, block * per_block, with_spoiled) / shortest(b, block * per_block, with_spoiled);
            ratios[block] = std::isfinite(ratio) && ratio > 0 ? ratio : std::nan("");
            measured += !std::isnan(ratios[block]);
        }
        if (2 * measured >= ratios.size()) break;
    }
    return ratios;
}

[[nodiscard]] inline bool drawable(double ratio) noexcept {
    extent one;
    one.add_positive(ratio);
    return !one.empty();
}

[[nodiscard]] inline std::vector<double> sorted_drawable(std::span<const double> ratios) {
    std::vector<double> sorted;
    std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(sorted), drawable);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

[[nodiscard]] inline double median_of_positive(std::span<const double> ratios) {
    return statistics::quantile(sorted_drawable(ratios), 0.5);
}

/// From the second to the 98th percentile and as much again either way, the interval, and 1 when it is near: a single
/// outlier does not press the rest flat.
[[nodiscard]] inline extent ratio_extent(const plot_ratios& p) {
    extent all;
    const std::vector<double> sorted = sorted_drawable(p.ratios);
    if (!sorted.empty()) {
        const double low = statistics::quantile(sorted, 0.02), high = statistics::quantile(sorted, 0.98);
        const double room = high / low;
        all = {std::max(sorted.front(), low / room), std::min(sorted.back(), high * room)};
    }
    if (p.speedup) {
        for (const double end : {p.speedup->low, p.speedup->estimate, p.speedup->high}) all.add_positive(end);
    }
    if (!all.empty() && all.low < 1.5 && all.high > 1 / 1.5) all.add(1);
    return all;
}

/// Up to `most_marks` pairs are a dot each; of more, columns of 4 pixels from the lower to the upper decile.
inline void draw_ratio_marks(drawing& d, const axis& x, const axis& y, const plot_ratios& p) {
    const std::string fill = "faint " + colour('f', p.arm), stroke = "line " + colour('s', p.arm);
    if (p.ratios.size() <= most_marks) {
        for (std::size_t i = 0; i < p.ratios.size(); ++i) {
            if (drawable(p.ratios[i])) d.dot(x.at(static_cast<double>(i + 1)), y.at(p.ratios[i]), 2.5, fill);
        }
        return;
    }
    const auto columns = whole((x.to - x.from) / 4);
    for (std::size_t c = 0; c < columns; ++c) {
        const std::size_t first = p.ratios.size() * c / columns, end = p.ratios.size() * (c + 1) / columns;
        const std::vector<double> here = sorted_drawable(std::span(p.ratios).subspan(first, end - first));
        if (here.empty()) continue;
        const double at = x.from + 4 * static_cast<double>(c) + 2;
        d.line(at, y.at(statistics::quantile(here, 0.9)), at, y.at(statistics::quantile(here, 0.1)), stroke);
    }
}

}  // namespace detail

inline constexpr std::string_view ratios_caption =
    "Each dot is a pair of rows of calls run side by side; above 1 this arm was the faster. The band is the interval "
    "of the speed-up, the line in it the estimate. Pairs beyond the axis lie at its edge; very many are shown as bars "
    "over the middle 80 %.";

/// The picture, `width` pixels wide. `style`: CSS for a picture that stands alone.
[[nodiscard]] inline std::string ratios_svg(const plot_ratios& p, double width, std::string_view style = {}) {
    using namespace detail;
    const std::string what = "time of " + shortened(p.base, 14) + " / time of " + shortened(p.name, 14);
    const bool known = p.speedup && std::isfinite(p.speedup->estimate) && p.speedup->estimate > 0;
    const double centre = known ? p.speedup->estimate : median_of_positive(p.ratios);
    const ratio_text text(p.speedup.value_or(interval{centre, centre, centre}));
    const std::string found = known ? text.estimate + " (" + text.range + ")" : "median " + text.estimate;
    const bool one_line = text_width(what) + text_width(found, true) + 16 < width;
    const double top = one_line ? 24 : 40, bottom = top + 180;
    const extent values = ratio_extent(p);
    const axis y = axis_over(values, true, bottom, top, quantity::ratio);
    const double left = std::min(label_width(y) + 2, width / 3), right = width - 8;
    const axis x{false, 0.5, static_cast<double>(std::max<std::size_t>(p.ratios.size(), 2)) + 0.5, left, right};
    drawing d(width, "Speed-up of " + p.name + " over " + p.base + ", pair by pair", std::string(ratios_caption));
    d.text(0, 13, what, "muted");
    if (!values.empty())
        d.text(one_line ? right : 0, one_line ? 13 : 29, found, "strong", one_line ? anchor::end : anchor::start);
    draw_vertical_axis(d, y, left, right);
    draw_horizontal_axis(d, x, bottom, bottom + 4, "pair, in the order measured");
    if (known) {
        const double high = y.at(std::isfinite(p.speedup->high) ? p.speedup->high : y.high);
        d.rectangle(left, high, right - left, y.at(std::max(p.speedup->low, y.low)) - high,
                    "band " + colour('f', p.arm));
    }
    if (y.covers(1)) d.line(left, y.at(1), right, y.at(1), "one");
    draw_ratio_marks(d, x, y, p);
    if (!values.empty()) d.line(left, y.at(centre), right, y.at(centre), "line " + colour('s', p.arm));
    if (values.empty()) d.text((left + right) / 2, (top + bottom) / 2, "no pairs", "muted", anchor::middle);
    return d.finished(bottom + 42, style);
}

}  // namespace headwise
