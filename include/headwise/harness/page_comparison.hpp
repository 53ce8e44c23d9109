// A comparison, and a sweep of them, as a page and as a picture.
//
//     const comparison result = compare(...);
//     write_html(out, result, {.title = "scores", .agreement = report.text()});  // out: any stream
#pragma once

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/page.hpp>
#include <headwise/harness/page_sections.hpp>
#include <headwise/harness/plot_intervals.hpp>
#include <headwise/harness/plot_lines.hpp>
#include <headwise/harness/plot_ratios.hpp>
#include <headwise/harness/report.hpp>
#include <headwise/harness/sweep.hpp>

namespace headwise {

namespace detail {

/// The table that the comparison prints, as a page has it.
[[nodiscard]] inline page_table table_of(const comparison& c) {
    page_table t{.headings = {}, .right = {}, .rows = table_rows(c)};
    t.headings = t.rows.front();
    t.rows.erase(t.rows.begin());
    for (const std::string& h : t.headings) t.right.push_back(h != "arm" && h != "verdict" && h != "outputs");
    return t;
}

/// An arm whose output is wrong has no times to show.
[[nodiscard]] inline std::vector<plot_samples> samples_of(const comparison& c) {
    std::vector<plot_samples> samples;
    for (const arm_result& arm : c.arms) {
        if (arm.verdict == verdict::mismatch) samples.push_back({arm.name, {}, {}, "wrong output"});
        else samples.push_back({arm.name, arm.samples, arm.spoiled});
    }
    return samples;
}

[[nodiscard]] inline std::string remark_of(const arm_result& arm) {
    return arm.verdict == verdict::mismatch ? "wrong output" : "not measured";
}

[[nodiscard]] inline std::string title_of(const comparison& c) {
    std::string title;
    for (const arm_result& arm : c.arms) title += (title.empty() ? "" : " against ") + shortened(arm.name, 60);
    return c.arms.size() > 3 ? shortened(c.arms.front().name, 60) + " against " + counted(c.arms.size() - 1, "other")
                             : title;
}

[[nodiscard]] inline bool any_mismatch(const comparison& c) {
    return std::any_of(c.arms.begin(), c.arms.end(),
                       [](const arm_result& a) { return a.verdict == verdict::mismatch; });
}

/// What the checks found, arm by arm.
[[nodiscard]] inline std::vector<std::string> agreement_lines(const comparison& c) {
    std::vector<std::string> lines;
    for (std::size_t i = 1; i < c.arms.size(); ++i) {
        const arm_result& arm = c.arms[i];
        if (arm.verdict == verdict::mismatch) lines.push_back(arm.name + " does not agree: " + arm.reason);
        else if (arm.verified) lines.push_back(arm.name + " agrees, before the timed calls and after them");
        else lines.push_back(arm.name + " was not checked" + (arm.reason.empty() ? "" : ": " + arm.reason));
    }
    return lines;
}

/// A picture for each arm with pairs, below the heading unless that is empty; the caption once.
inline void add_pairs(page& p, const comparison& c, std::string_view heading, bool with_caption = true) {
    std::string_view caption = with_caption ? ratios_caption : std::string_view();
    for (std::size_t i = 1; i < c.arms.size(); ++i) {
        const arm_result& arm = c.arms[i];
        const plot_ratios pairs{arm.name, c.arms.front().name, block_ratios(c, i), arm.speedup, i};
        if (arm.verdict == verdict::mismatch || sorted_drawable(pairs.ratios).empty()) continue;
        if (!heading.empty()) p.heading(std::exchange(heading, {}));
        p.figure(std::exchange(caption, {}), [&](double width) { return ratios_svg(pairs, width); });
    }
}

[[nodiscard]] inline std::vector<plot_interval> intervals_of(const sweep_result& s) {
    std::vector<plot_interval> rows;
    for (const sweep_point& point : s.points) {
        const std::vector<arm_result>& arms = point.result.arms;
        for (std::size_t i = 1; i < arms.size(); ++i) {
            const std::string who = arms.size() > 2 ? ": " + arms[i].name : "";
            rows.push_back({s.parameter + " = " + point.label + who, arms[i].speedup, remark_of(arms[i]), i});
        }
    }
    return rows;
}

/// A row for each arm but the first at each point; the first's time stands beside.
[[nodiscard]] inline page_table table_of(const sweep_result& s) {
    page_table t{.headings = {s.parameter, "the first", "a call", "speed-up", "interval", "verdict"},
                 .right = {false, true, true, true, true, false},
                 .rows = {}};
    for (const sweep_point& point : s.points) {
        const std::vector<arm_result>& arms = point.result.arms;
        for (std::size_t i = 1; i < arms.size(); ++i) {
            t.headings[1] = arms.front().name;
            if (arms.size() == 2) t.headings[2] = arms[i].name;
            const std::string first = duration_text(arms.front().time.median);
            const auto cells = speedup_cells(arms[i].speedup);
            t.rows.push_back({s.parameter + " = " + point.label + (arms.size() > 2 ? ": " + arms[i].name : ""), first,
                              duration_text(arms[i].time.median), cells[0], cells[1], text_of(arms[i].verdict)});
        }
    }
    return t;
}

inline void add_lines(page& p, const sweep_result& s) {
    std::vector<std::pair<double, const sweep_point*>> ordered;
    for (const sweep_point& point : s.points) ordered.emplace_back(point.parameter, &point);
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<double> parameters;
    std::vector<plot_series> series;
    for (const auto& [parameter, point] : ordered) {
        parameters.push_back(parameter);
        series.resize(std::max(series.size(), point->result.arms.size()));
        for (std::size_t i = 0; i < point->result.arms.size(); ++i) {
            series[i].name = point->result.arms[i].name;
            series[i].ns.push_back(point->result.arms[i].time.median);
        }
    }
    p.figure(lines_caption, [&](double width) { return lines_svg(s.parameter, parameters, series, width); });
}

}  // namespace detail

/// The whole of a comparison: what it found in a sentence for each arm, the table, all samples, the pairs in the order
/// measured, whether outputs agree; then what `options` bring.
inline void write_html(std::ostream& out, const comparison& c, const page_options& options = {}) {
    using namespace detail;
    page p(options.title.empty() ? title_of(c) : options.title);
    if (!options.verdict.empty()) p.verdict(options.verdict, any_mismatch(c));
    for (std::size_t i = 1; i < c.arms.size(); ++i) {
        const std::string found = sentence(c, i);
        if (i == 1 && options.verdict.empty()) p.verdict(found, c.arms[1].verdict == verdict::mismatch);
        else p.paragraph(found);
    }
    if (!c.arms.empty()) p.table(table_of(c));
    p.remark(provenance(c));
    if (c.arms.size() > 2) {
        std::vector<plot_interval> rows;
        for (std::size_t i = 1; i < c.arms.size(); ++i)
            rows.push_back({c.arms[i].name, c.arms[i].speedup, remark_of(c.arms[i]), i});
        p.figure(intervals_caption, [&](double width) {
            return intervals_svg(rows, width, "speed-up over " + shortened(c.arms.front().name, 20));
        });
    }
    p.heading("All samples");
    add_distribution(p, samples_of(c));
    add_pairs(p, c, "Pair by pair");
    if (c.arms.size() > 1 && (options.agreement.empty() || any_mismatch(c)))
        p.heading("Do they agree?").list(agreement_lines(c));
    if (!c.notes.empty()) p.heading("To know besides").list(c.notes);
    add_lower_half(p, options);
    out << p;
}

/// All samples, as a picture that stands alone.
inline void write_svg(std::ostream& out, const comparison& c, double width = 720) {
    out << distribution_svg(detail::samples_of(c), width, detail::plot_style);
}

/// A sweep: where the winner changes, the speed-ups with their intervals, the times over the parameter where it is a
/// number, the table.
inline void write_html(std::ostream& out, const sweep_result& s, const page_options& options = {}) {
    using namespace detail;
    page p(options.title.empty() ? "Over " + s.parameter : options.title);
    if (!options.verdict.empty()) p.verdict(options.verdict);
    const std::vector<crossover> changes = s.crossovers();
    for (const crossover& x : changes) p.verdict(crossover_text(s, x));
    if (changes.empty() && !s.points.empty() && options.verdict.empty())
        p.verdict("No winner changes over " + s.parameter);
    const std::string title = s.points.empty() || s.points.front().result.arms.empty()
                                  ? std::string("speed-up")
                                  : "speed-up over " + shortened(s.points.front().result.arms.front().name, 20);
    const std::vector<plot_interval> rows = intervals_of(s);
    p.figure(intervals_caption, [&](double width) { return intervals_svg(rows, width, title); });
    p.remark("All intervals together hold at " + confidence_text(s.confidence) + ".");
    if (numeric(s)) add_lines(p, s);
    p.heading("All figures").table(table_of(s));
    add_lower_half(p, options);
    out << p;
}

/// The speed-ups with their intervals, as a picture that stands alone.
inline void write_svg(std::ostream& out, const sweep_result& s, double width = 720) {
    out << intervals_svg(detail::intervals_of(s), width, "speed-up", detail::plot_style);
}

}  // namespace headwise
