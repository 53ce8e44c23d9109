// Pages of what a program measured: several comparisons, each of a case of its own (the main program's), and where the
// time of a profile went.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/page.hpp>
#include <headwise/harness/page_comparison.hpp>
#include <headwise/harness/page_sections.hpp>
#include <headwise/harness/profile_text.hpp>

namespace headwise {

/// One case, and what was found in it.
struct page_case {
    std::string name;
    std::string remark = {};  ///< one line about it: the shape, the threads
    headwise::comparison comparison = {};
    std::string agreement = {};  ///< a close_report's text
    std::vector<roofline_point> operations = {};
};

namespace detail {

/// The tables of all cases as one: the rows of a case are named after it.
[[nodiscard]] inline page_table table_of(std::span<const page_case> cases) {
    page_table all;
    for (const page_case& c : cases) {
        page_table t = table_of(c.comparison);
        if (all.headings.empty()) all.headings = t.headings, all.right = t.right;
        for (std::vector<std::string>& row : t.rows) {
            row.resize(all.headings.size());  // one case may have cold times, another not
            row[0] = c.name + ": " + row[0];
            all.rows.push_back(std::move(row));
        }
    }
    return all;
}

}  // namespace detail

/// What was found in each case, the table of all, then for each case its samples, its pairs and whether its outputs
/// agree; last all operations under their limits, and the machine. `options.operations` and `.agreement` are not
/// looked at: the cases have them.
inline void write_html(std::ostream& out, std::span<const page_case> cases, page_options options = {}) {
    page p(options.title.empty() ? "Profile" : options.title);
    options.operations.clear(), options.agreement.clear();
    if (!options.verdict.empty()) p.verdict(options.verdict);
    for (const page_case& c : cases) {
        for (std::size_t i = 1; i < c.comparison.arms.size(); ++i) {
            p.verdict(c.name + ": " + sentence(c.comparison, i), c.comparison.arms[i].verdict == verdict::mismatch);
        }
        std::copy(c.operations.begin(), c.operations.end(), std::back_inserter(options.operations));
    }
    if (!cases.empty()) p.table(detail::table_of(cases));
    for (const page_case& c : cases) {
        const bool first = &c == cases.data();
        p.heading(c.name);
        if (!c.remark.empty()) p.remark(c.remark);
        if (!c.comparison.arms.empty()) detail::add_distribution(p, detail::samples_of(c.comparison), first);
        detail::add_pairs(p, c.comparison, {}, first);
        if (!c.agreement.empty()) p.preformatted(c.agreement);
    }
    detail::add_lower_half(p, options);
    out << p;
}

/// A profile's table; unless `options.verdict` says otherwise, which scope takes the most, and under the table what
/// else a reader should know.
inline void write_html(std::ostream& out, const profile_table& table, page_options options = {}) {
    const detail::table_lines text(table, "share");
    if (options.title.empty()) options.title = "Profile";
    if (options.verdict.empty() && !table.rows.empty()) {
        options.verdict = text.lines[1][0] + " comes first: " + detail::time_text(table.rows[0].self_ns) + " of " +
                          detail::time_text(table.total_ns) + " are its own";
    }
    std::ostringstream notes;
    detail::write_notes(notes, table, text.shown);
    if (options.footer.empty()) options.footer = notes.str();
    write_html(
        out,
        page_table{
            .headings = text.lines.front(), .right = text.right, .rows = {text.lines.begin() + 1, text.lines.end()}},
        options);
}

}  // namespace headwise
