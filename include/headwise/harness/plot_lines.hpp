// A measured amount over a parameter, a line for each series, named at its end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headwise/harness/plot_axis.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

struct plot_series {
    std::string name;
    std::vector<double> ns;  ///< a time for each parameter; what is not positive and finite is left out
};

namespace detail {

/// Heights at which labels neither touch each other nor leave [top, bottom], as near to the wanted ones as a pass from
/// above and one from below bring them. In the order given.
[[nodiscard]] inline std::vector<double> spread_labels(const std::vector<double>& wanted, double top, double bottom) {
    std::vector<std::size_t> order(wanted.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
    std::vector<double> at = wanted;
    double free = top;
    for (const std::size_t i : order) free = (at[i] = std::max(at[i], free)) + text_height;
    free = bottom;
    for (std::size_t i = order.size(); i-- > 0;) free = (at[order[i]] = std::min(at[order[i]], free)) - text_height;
    return at;
}

inline void draw_series(drawing& d, const axis& x, const axis& y, const std::vector<double>& parameters,
                        const plot_series& series, std::size_t i) {
    std::string path;
    for (std::size_t p = 0; p < std::min(parameters.size(), series.ns.size()); ++p) {
        extent one;
        one.add_time(series.ns[p]);
        if (one.empty()) continue;
        const double at_x = x.at(parameters[p]), at_y = y.at(series.ns[p]);
        path += (path.empty() ? 'M' : 'L') + coordinate(at_x) + ' ' + coordinate(at_y);
        d.dot(at_x, at_y, 3, colour('f', i));
    }
    if (!path.empty()) d.path(path, "line " + colour('s', i));
}

}  // namespace detail

inline constexpr std::string_view lines_caption = "The median time of a call; lines that cross change places there.";

/// The picture, `width` pixels wide, for finite parameters in ascending order. `style`: CSS for a picture that stands
/// alone.
[[nodiscard]] inline std::string lines_svg(std::string_view parameter, const std::vector<double>& parameters,
                                           std::span<const plot_series> series, double width,
                                           std::string_view style = {}) {
    using namespace detail;
    constexpr double top = 24, bottom = 264;
    extent over, times;
    for (const double p : parameters) over.add(p);
    for (const plot_series& s : series) {
        for (const double ns : s.ns) times.add_time(ns);
    }
    const axis y = axis_over(times, times.high > 4 * times.low, bottom, top, quantity::duration);
    std::size_t longest = 0;
    const auto most = whole(width / 3 / strong_width);
    for (const plot_series& s : series) longest = std::max(longest, characters_in(shortened(s.name, most)));
    const double left = std::min(label_width(y) + 2, width / 3);
    const double right = width - 16 - strong_width * static_cast<double>(longest);
    const axis x = axis_over(over, over.low > 0 && over.high > 4 * over.low, left, right, quantity::number);
    drawing d(width, "Time of a call over " + std::string(parameter), std::string(lines_caption));
    d.text(0, 13, "time of a call", "muted");
    draw_vertical_axis(d, y, left, right);
    draw_horizontal_axis(d, x, top, bottom, parameter);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < series.size(); ++i) {
        draw_series(d, x, y, parameters, series[i], i);
        const double last = series[i].ns.empty() ? 0 : series[i].ns.back();
        wanted.push_back((last > 0 && std::isfinite(last) ? y.at(last) : bottom) + 4);
    }
    const std::vector<double> at = spread_labels(wanted, top + 4, bottom);
    for (std::size_t i = 0; i < series.size(); ++i) {
        d.dot(right + 6, at[i] - 4, 3, colour('f', i));
        d.text(right + 13, at[i], shortened(series[i].name, most), "strong");
    }
    return d.finished(bottom + 42, style);
}

}  // namespace headwise
