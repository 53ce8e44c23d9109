// The roofline: operations by their arithmetic intensity, below what the machine allows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/plot_axis.hpp>
#include <headwise/harness/roofline_point.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

/// A roof: rises with the bandwidth, level at the peak.
struct plot_roof {
    std::string name;  ///< of the bandwidth: "L2"; may be empty
    double bytes_per_second = 0, flops_per_second = 0;
};

inline constexpr std::string_view roofline_caption =
    "Each dot is an operation: right is more arithmetic for each byte moved, up is faster. The short line above it is "
    "the most that this machine allows that operation, given what it reads and writes; the gap is what is left.";

namespace detail {

/// Room on a picture that is taken, or wanted.
struct box {
    double left, top, right, bottom;
    [[nodiscard]] bool meets(const box& other) const noexcept {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
};

/// Finds free places for labels: the first of the places offered that lies on the picture and meets nothing.
class label_placer {
public:
    explicit label_placer(box picture) : picture_(picture) {}
    void take(const box& b) { taken_.push_back(b); }

    struct place {
        double x, baseline;
        anchor at;
    };
    /// Draws and takes the place; false when there is none.
    bool put(drawing& d, std::string_view text, std::span<const place> places, std::string_view style) {
        const double width = text_width(text, style == "strong");
        for (const place& p : places) {
            const double left = p.at == anchor::start ? p.x : p.at == anchor::end ? p.x - width : p.x - width / 2;
            const box wanted{left, p.baseline - 11, left + width, p.baseline + 4};
            const bool inside = wanted.left >= picture_.left && wanted.right <= picture_.right &&
                                wanted.top >= picture_.top && wanted.bottom <= picture_.bottom;
            if (!inside || std::any_of(taken_.begin(), taken_.end(), [&](const box& b) { return b.meets(wanted); }))
                continue;
            d.text(p.x, p.baseline, text, style, p.at);
            take(wanted);
            return true;
        }
        return false;
    }

private:
    box picture_;
    std::vector<box> taken_;
};

[[nodiscard]] inline bool on_roofline(const roofline_point& p) {
    return p.known() && !p.counts_bytes() && std::isfinite(p.intensity()) && std::isfinite(p.rate());
}

[[nodiscard]] inline bool usable(const plot_roof& roof) {
    const auto sensible = [](double x) { return x > 1e-100 && x < 1e100; };
    return sensible(roof.bytes_per_second) && sensible(roof.flops_per_second);
}

/// The two axes: every point, every limit, and the ridges near them.
struct roofline_axes {
    axis x, y;
    roofline_axes(std::span<const roofline_point> points, std::span<const plot_roof> roofs, double left, double right,
                  double top, double bottom) {
        extent intensity, rate;
        for (const roofline_point& p : points) {
            if (!on_roofline(p)) continue;
            intensity.add_positive(p.intensity() / 2), intensity.add_positive(p.intensity() * 2);
            rate.add_positive(p.rate() / 1.5), rate.add_positive(p.allowed_rate() * 1.2);
        }
        for (const plot_roof& roof : roofs) {
            if (!usable(roof)) continue;
            rate.add_positive(roof.flops_per_second * 1.2);
            intensity.add_positive(roof.flops_per_second / roof.bytes_per_second * 2);
        }
        x = axis_over(intensity, true, left, right, quantity::number);
        y = axis_over(rate, true, bottom, top, quantity::rate);
    }
};

/// From the lowest corner of the picture up to the ridge, and level from there.
inline void draw_roof(drawing& d, const roofline_axes& axes, const plot_roof& roof) {
    const axis &x = axes.x, &y = axes.y;
    const double bandwidth = roof.bytes_per_second, ridge = roof.flops_per_second / bandwidth;
    const double start = std::max(x.low, y.low / bandwidth), end = std::min(ridge, x.high);
    if (start < end) d.line(x.at(start), y.at(start * bandwidth), x.at(end), y.at(end * bandwidth), "roof");
    if (ridge < x.high) d.line(x.at(ridge), y.at(roof.flops_per_second), x.to, y.at(roof.flops_per_second), "roof");
}

/// The bandwidth stands beside the slope, the peak at the right end; a peak that is written there already is not again.
inline void label_roof(drawing& d, const roofline_axes& axes, const plot_roof& roof, label_placer& labels,
                       bool with_peak) {
    const axis &x = axes.x, &y = axes.y;
    const double bandwidth = roof.bytes_per_second, ridge = roof.flops_per_second / bandwidth;
    const double start = std::max(x.low, y.low / bandwidth), end = std::min(ridge, x.high);
    std::vector<label_placer::place> places;
    for (const double share : {0.1, 0.2, 0.35, 0.5, 0.65, 0.8}) {
        if (!(start < end)) break;
        const double at = start * std::pow(end / start, share);
        places.push_back({x.at(at) + 10, y.at(at * bandwidth) + 8, anchor::start});
        places.push_back({x.at(at) - 8, y.at(at * bandwidth) - 2, anchor::end});
    }
    labels.put(d, roof.name + (roof.name.empty() ? "" : " ") + rate_text(bandwidth, "B/s"), places, "muted");
    const double level = y.at(roof.flops_per_second);
    const std::array<label_placer::place, 2> ends{{{x.to, level - 5, anchor::end}, {x.to, level + 15, anchor::end}}};
    if (with_peak && ridge < x.high) labels.put(d, rate_text(roof.flops_per_second, "FLOP/s"), ends, "muted");
}

/// The limit, the dot, and the thin line between the two.
inline void draw_operation(drawing& d, const roofline_axes& axes, const roofline_point& p, std::size_t i) {
    const double x = axes.x.at(p.intensity()), y = axes.y.at(p.rate()), limit = axes.y.at(p.allowed_rate());
    d.line(x, limit, x, y, "thin " + colour('s', i));
    d.line(x - 7, limit, x + 7, limit, "line " + colour('s', i));
    d.dot(x, y, 4.5, colour('f', i));
}

inline void label_operation(drawing& d, const roofline_axes& axes, const roofline_point& p, label_placer& labels,
                            std::size_t characters) {
    const double x = axes.x.at(p.intensity()), y = axes.y.at(p.rate());
    std::vector<label_placer::place> places;
    for (const double off : {4.0, 18.0, -10.0, 32.0, -24.0}) {
        places.push_back({x + 9, y + off, anchor::start});
        places.push_back({x - 9, y + off, anchor::end});
    }
    places.push_back({x, y + 20, anchor::middle});
    const std::string share = ", " + share_text(p.share());
    const bool placed = labels.put(d, shortened(p.name, characters) + share, places, "strong");
    if (!placed) labels.put(d, shortened(p.name, 12), places, "strong");
}

}  // namespace detail

/// The roofs of points: the peak of each machine, and the bandwidth that each point's mix of reading and writing gets;
/// equal ones once. None when they are more than three: each point shows its own limit anyway.
[[nodiscard]] inline std::vector<plot_roof> roofs_of(std::span<const roofline_point> points) {
    std::vector<plot_roof> roofs;
    for (const roofline_point& p : points) {
        if (!detail::on_roofline(p)) continue;
        const double bytes = p.work.bytes_read + p.work.bytes_written;
        const double seconds = limit_of({0, p.work.bytes_read, p.work.bytes_written}, p.machine).seconds;
        const plot_roof roof{"", bytes / seconds, p.machine.flops};
        const bool seen = std::any_of(roofs.begin(), roofs.end(), [&](const plot_roof& r) {
            const auto near = [](double a, double b) { return std::abs(a - b) <= 0.02 * b; };
            return near(r.bytes_per_second, roof.bytes_per_second) && near(r.flops_per_second, roof.flops_per_second);
        });
        if (!seen) roofs.push_back(roof);
    }
    if (roofs.size() > 3) roofs.clear();
    return roofs;
}

/// The picture, `width` pixels wide. Points without flops, without bytes, or without a limit are left out; labels that
/// find no room are, too. `style`: CSS for a picture that stands alone.
[[nodiscard]] inline std::string roofline_svg(std::span<const roofline_point> points, std::span<const plot_roof> roofs,
                                              double width, std::string_view style = {}) {
    using namespace detail;
    constexpr double top = 24, bottom = 324;
    const double right = width - 8;
    const double left = std::min(label_width(roofline_axes(points, roofs, 0, right, top, bottom).y) + 2, width / 3);
    const roofline_axes axes(points, roofs, left, right, top, bottom);
    drawing d(width, "Roofline", std::string(roofline_caption));
    d.text(0, 13, "FLOP/s", "muted");
    draw_vertical_axis(d, axes.y, left, right);
    draw_horizontal_axis(d, axes.x, top, bottom, "flops for each byte moved");
    if (std::none_of(points.begin(), points.end(), on_roofline))
        d.text((left + right) / 2, (top + bottom) / 2, "no operation to show", "muted", anchor::middle);
    label_placer labels({left, top, right, bottom});
    for (const roofline_point& p : points) {
        if (!on_roofline(p)) continue;
        const double x = axes.x.at(p.intensity()), y = axes.y.at(p.rate());
        labels.take({x - 5, y - 5, x + 5, y + 5});
        const double limit = axes.y.at(p.allowed_rate());
        labels.take({x - 7, limit - 2, x + 7, limit + 2});
        labels.take({x - 1, limit, x + 1, y});
    }
    for (const plot_roof& roof : roofs) {
        if (usable(roof)) draw_roof(d, axes, roof);
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (on_roofline(points[i])) draw_operation(d, axes, points[i], points.size() > 6 ? 0 : i);
    }
    for (const roofline_point& p : points) {
        if (on_roofline(p)) label_operation(d, axes, p, labels, whole(width / 25));
    }
    for (std::size_t i = 0; i < roofs.size(); ++i) {
        const bool new_peak =
            std::none_of(roofs.begin(), roofs.begin() + static_cast<std::ptrdiff_t>(i), [&](const plot_roof& r) {
                return std::abs(r.flops_per_second - roofs[i].flops_per_second) <= 0.02 * r.flops_per_second;
            });
        if (usable(roofs[i])) label_roof(d, axes, roofs[i], labels, new_peak);
    }
    return d.finished(bottom + 42, style);
}

}  // namespace headwise
