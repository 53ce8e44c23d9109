// All samples of all arms on one axis of time: a dot each, or a histogram where there are too many to tell apart.
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
#include <headwise/harness/report.hpp>
#include <headwise/harness/statistics.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

/// The times of one arm, nanoseconds a call, in the order measured. Those that no clock can have told (zero, negative,
/// NaN, infinite) are counted, not drawn.
struct plot_samples {
    std::string name;
    std::vector<double> ns;
    std::vector<bool> spoiled = {};  ///< for each sample: did something come between? May be empty
    std::string remark = {};         ///< what to say where there is nothing to draw: "wrong output"
};

namespace detail {

/// What of an arm's samples can be drawn, and how many cannot.
struct drawable_samples {
    std::vector<double> ns, sorted;
    std::vector<bool> spoiled;
    std::size_t left_out = 0;

    explicit drawable_samples(const plot_samples& s) {
        for (std::size_t i = 0; i < s.ns.size(); ++i) {
            extent one;
            one.add_time(s.ns[i]);
            if (one.empty()) {
                ++left_out;
                continue;
            }
            ns.push_back(s.ns[i]);
            spoiled.push_back(i < s.spoiled.size() && s.spoiled[i]);
        }
        sorted = ns;
        std::sort(sorted.begin(), sorted.end());
    }
};

inline constexpr double strip_height = 34;

/// A dot a sample, spread over the strip by the golden ratio: neighbours in time do not hide each other, and the same
/// samples make the same picture.
inline void draw_dots(drawing& d, const axis& a, double top, const drawable_samples& s, std::size_t arm) {
    for (std::size_t i = 0; i < s.ns.size(); ++i) {
        const double place = 0.6180339887498949 * static_cast<double>(i + 1);
        const double y = top + 3 + (strip_height - 6) * (place - std::floor(place));
        if (s.spoiled[i]) d.dot(a.at(s.ns[i]), y, 2.5, "hollow " + colour('s', arm));
        else d.dot(a.at(s.ns[i]), y, 2.5, "faint " + colour('f', arm));
    }
}

/// Columns some 5 pixels wide, the tallest as high as the strip.
inline void draw_histogram(drawing& d, const axis& a, double top, const drawable_samples& s, std::size_t arm) {
    const auto columns = std::max<std::size_t>(8, whole((a.to - a.from) / 5));
    const double width = (a.to - a.from) / static_cast<double>(columns);
    std::vector<std::size_t> counts(columns, 0);
    for (const double ns : s.ns) {
        const double column = std::max(0.0, (a.at(ns) - a.from) / width);
        ++counts[std::min(columns - 1, static_cast<std::size_t>(column))];
    }
    const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
    std::string path;
    for (std::size_t c = 0; c < columns; ++c) {
        if (counts[c] == 0) continue;
        const double height = std::max(1.0, strip_height * static_cast<double>(counts[c]) / most);
        path += 'M' + coordinate(a.from + width * static_cast<double>(c)) + ' ' + coordinate(top + strip_height) + 'v' +
                coordinate(-height) + 'h' + coordinate(width) + 'v' + coordinate(height) + 'z';
    }
    d.path(path, "area " + colour('f', arm));
}

/// The quartiles as a bar below the strip, the median as a tick through it.
inline void draw_quartiles(drawing& d, const axis& a, double top, const std::vector<double>& sorted, std::size_t arm) {
    const double y = top + strip_height + 4, median = a.at(statistics::quantile(sorted, 0.5));
    d.line(a.at(statistics::quantile(sorted, 0.25)), y, a.at(statistics::quantile(sorted, 0.75)), y,
           "thick " + colour('s', arm));
    d.line(median, top, median, y + 4, "line " + colour('s', arm));
}

[[nodiscard]] inline std::string samples_label(const plot_samples& s, const drawable_samples& drawn, double width) {
    std::string facts = ": no samples";
    if (!s.remark.empty()) facts = ": " + s.remark;
    else if (!drawn.sorted.empty()) facts = ": " + duration_text(statistics::quantile(drawn.sorted, 0.5));
    if (drawn.sorted.size() > 1) facts += ", " + counted(drawn.sorted.size(), "sample");
    if (drawn.left_out > 0) facts += ", " + std::to_string(drawn.left_out) + " without a time";
    const double room = width / strong_width - static_cast<double>(characters_in(facts));
    return shortened(s.name, static_cast<std::size_t>(std::max(room, 6.0))) + facts;
}

}  // namespace detail

/// What the picture shows, for the line below it.
inline constexpr std::string_view distribution_caption =
    "Each dot is a sample (many of them are a histogram); the upright line is the median, the bar below spans the "
    "quartiles. Hollow dots: the system came between.";

/// The picture, `width` pixels wide. `style`: CSS for a picture that stands alone.
[[nodiscard]] inline std::string distribution_svg(std::span<const plot_samples> arms, double width,
                                                  std::string_view style = {}) {
    using namespace detail;
    extent all;
    std::vector<drawable_samples> drawn;
    for (const plot_samples& arm : arms) {
        drawn.emplace_back(arm);
        if (drawn.back().sorted.empty()) continue;
        all.add(drawn.back().sorted.front());
        all.add(drawn.back().sorted.back());
    }
    const bool logarithmic = !all.empty() && all.high > 4 * all.low;
    const axis a = axis_over(all, logarithmic, 8, width - 8, quantity::duration);
    constexpr double first = 6, row = 70;
    const double bottom = first + row * static_cast<double>(std::max<std::size_t>(arms.size(), 1));
    drawing d(width, "Times of all samples", std::string(distribution_caption));
    draw_horizontal_axis(d, a, first, bottom, logarithmic ? "time of a call, logarithmic" : "time of a call");
    for (std::size_t i = 0; i < arms.size(); ++i) {
        const double top = first + row * static_cast<double>(i) + 20;
        d.text(8, top - 7, samples_label(arms[i], drawn[i], width - 16), "strong");
        if (drawn[i].sorted.empty()) continue;
        if (drawn[i].ns.size() > most_marks) draw_histogram(d, a, top, drawn[i], i);
        else draw_dots(d, a, top, drawn[i], i);
        draw_quartiles(d, a, top, drawn[i].sorted, i);
    }
    return d.finished(bottom + 40, style);
}

}  // namespace headwise
