// The parts that pages share: samples, operations under the roofline, the machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/machine.hpp>
#include <headwise/harness/page.hpp>
#include <headwise/harness/plot_distribution.hpp>
#include <headwise/harness/plot_roofline.hpp>
#include <headwise/harness/roofline_point.hpp>

namespace headwise {

/// What a page shows besides what was measured. Nothing of it is needed.
struct page_options {
    std::string title = {};                       ///< empty: the names of what was compared
    std::string verdict = {};                     ///< the first sentence, in place of the page's own
    std::string agreement = {};                   ///< a close_report's text: what differs, where, by how much
    std::vector<roofline_point> operations = {};  ///< to be shown under their limits
    const machine_report* machine = nullptr;      ///< what it was measured on; alive until the page is written
    std::string footer = {};                      ///< the command that made the page
};

namespace detail {

[[nodiscard]] inline page_table operations_table(std::span<const roofline_point> points) {
    page_table t{.headings = {"operation", "rate", "flop/byte", "limit", "bound by", "share of limit"},
                 .right = {false, true, true, true, false, true},
                 .rows = {}};
    for (const roofline_point& p : points) {
        if (!p.known()) t.rows.push_back({p.name, "-", "-", "-", "-", "-"});
        else
            t.rows.push_back({p.name, rate_text(p, p.rate()),
                              p.counts_bytes() || !std::isfinite(p.intensity()) ? "-" : three_digits(p.intensity()),
                              rate_text(p, p.allowed_rate()), p.limit().memory_bound ? "memory" : "compute",
                              share_text(p.share())});
    }
    return t;
}

inline void add_operations(page& p, std::span<const roofline_point> points) {
    if (points.empty()) return;
    const std::vector<plot_roof> roofs = roofs_of(points);
    p.heading("What holds it back");
    if (std::any_of(points.begin(), points.end(), on_roofline))
        p.figure(roofline_caption, [&](double width) { return roofline_svg(points, roofs, width); });
    p.table(operations_table(points));
    const bool beyond = std::any_of(points.begin(), points.end(),
                                    [](const roofline_point& o) { return o.known() && o.share() > 1.005; });
    if (beyond)
        p.remark(
            "A share above 100 %: the machine was busy when its limits were measured, or the data lay in a "
            "faster cache than their size says.");
}

inline void add_distribution(page& p, std::span<const plot_samples> samples, bool with_caption = true) {
    p.figure(with_caption ? distribution_caption : std::string_view(),
             [&](double width) { return distribution_svg(samples, width); });
}

[[nodiscard]] inline page_table machine_table(const machine_report& m) {
    page_table t{.headings = {"GB/s", "read", "write", "stream", "triad"}, .rows = {}};
    const auto rate = [](double bytes_per_second) { return three_digits(bytes_per_second / 1e9); };
    for (const machine_level& l : m.levels) {
        const std::string where = l.name + ", " + bytes_text(static_cast<double>(l.working_set)) + ", ";
        t.rows.push_back(
            {where + threads_text(l.threads), rate(l.read), rate(l.write), rate(l.streaming_write), rate(l.triad)});
    }
    return t;
}

inline void add_machine(page& p, const machine_report& m) {
    p.heading("The machine");
    std::string facts = m.identity.processor + ", " +
                        counted(static_cast<std::size_t>(m.identity.processors), "processor") + ", " +
                        m.identity.instruction_set;
    for (const cache_level& c : m.identity.caches) {
        facts += (", L" + std::to_string(c.level) + " ") + bytes_text(static_cast<double>(c.bytes));
    }
    p.paragraph(facts);
    std::string peaks;
    for (const machine_peak& peak : m.peaks) {
        peaks += (peaks.empty() ? "Multiply-add peak: " : "; ") + peak.scalar + ", " + threads_text(peak.threads) +
                 ", " + rate_text(peak.flops, "FLOP/s");
    }
    if (!peaks.empty()) p.paragraph(peaks);
    p.table(machine_table(m));
    p.remark("Measured on " + m.measured_on + " on the host " + m.identity.host + ", program built by " +
             m.identity.compiler + ".");
}

/// The agreement, the operations, the machine: the lower half of every page.
inline void add_lower_half(page& p, const page_options& options) {
    if (!options.agreement.empty()) p.heading("Do they agree?").preformatted(options.agreement);
    add_operations(p, options.operations);
    if (options.machine != nullptr) add_machine(p, *options.machine);
    if (!options.footer.empty()) p.footer(options.footer);
}

}  // namespace detail

/// A page of operations under their limits alone.
inline void write_html(std::ostream& out, std::span<const roofline_point> operations, page_options options = {}) {
    page p(options.title.empty() ? "Roofline" : options.title);
    options.operations.assign(operations.begin(), operations.end());
    const auto nearest = std::max_element(operations.begin(), operations.end(), [](const auto& a, const auto& b) {
        return (a.known() ? a.share() : -1) < (b.known() ? b.share() : -1);
    });
    if (!options.verdict.empty()) {
        p.verdict(options.verdict);
    } else if (nearest != operations.end() && nearest->known()) {
        p.verdict(nearest->name + " reaches " + detail::share_text(nearest->share()) + " of what " +
                  (nearest->limit().memory_bound ? "memory" : "compute") + " allows");
    }
    detail::add_lower_half(p, options);
    out << p;
}

/// A page of a table alone, whoever made it: a profiler's rows, a list of runs.
inline void write_html(std::ostream& out, const page_table& table, const page_options& options = {}) {
    page p(options.title.empty() ? "Table" : options.title);
    if (!options.verdict.empty()) p.verdict(options.verdict);
    p.table(table);
    detail::add_lower_half(p, options);
    out << p;
}

/// The roofline alone, as a picture that stands alone.
inline void write_svg(std::ostream& out, std::span<const roofline_point> operations, double width = 720) {
    out << roofline_svg(operations, roofs_of(operations), width, detail::plot_style);
}

}  // namespace headwise
