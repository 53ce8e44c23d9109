// The race on a page: the ratios with their intervals, every figure, and the fused routine under its limits.
#pragma once

#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <headwise/harness/page.hpp>
#include <headwise/harness/page_sections.hpp>
#include <headwise/harness/plot_intervals.hpp>

#include "contender.hpp"
#include "race.hpp"

namespace race {

/// What the page says in words.
struct page_text {
    std::string verdict, facts, command;
    std::vector<std::string> pairs;  ///< shapes held against each other
    bool wrong = false;
};

inline std::vector<headwise::plot_interval> ratio_rows(const std::vector<result>& results) {
    std::vector<headwise::plot_interval> rows;
    for (const result& r : results) {
        const std::string peer = r.best_peer ? " " + r.figures[*r.best_peer].name : "";
        const char* why = !r.fused_raced() ? "fused did not race" : r.best_peer ? "too few rounds" : "no peer";
        rows.push_back({r.shape.text() + peer, r.ratio, why});
    }
    return rows;
}

inline constexpr const char* ratio_title = "time of the best peer / time of fused";

inline std::string ratios_picture(const std::vector<result>& results) {
    return headwise::intervals_svg(ratio_rows(results), 720, ratio_title, headwise::detail::plot_style);
}

/// `gflops(result, figure)`: a figure in the words of the other formats.
template <class Gflops>
std::string page_of(const page_text& text, const std::vector<contender>& who, const std::vector<result>& results,
                    const Gflops& gflops) {
    headwise::page_table table{.headings = {"shape (B,H,L,M,D)"}, .rows = {}};
    for (const contender& c : who) table.headings.push_back(c.name);
    table.headings.emplace_back("best peer");
    std::vector<headwise::roofline_point> operations;
    for (const result& r : results) {
        std::vector<std::string> row{r.shape.text()};
        for (const figure& f : r.figures) row.push_back(gflops(r, f));
        row.push_back(r.best_peer ? r.figures[*r.best_peer].name : "-");
        table.rows.push_back(std::move(row));
        if (r.fused_raced()) operations.push_back({r.shape.text(), r.work, r.figures.front().seconds, r.machine});
    }
    std::vector<std::string> versions;
    for (const contender& c : who) versions.push_back(c.name + ": " + c.version);

    headwise::page p("Attention scores: the race");
    p.verdict(text.verdict, text.wrong).remark(text.facts);
    const std::vector<headwise::plot_interval> rows = ratio_rows(results);
    p.figure(headwise::intervals_caption,
             [&](double width) { return headwise::intervals_svg(rows, width, ratio_title); });
    p.heading("GFLOP/s, medians").table(table);
    headwise::detail::add_operations(p, operations);
    if (!text.pairs.empty()) p.heading("Held against each other").list(text.pairs);
    p.heading("Who raced").list(versions).footer(text.command);
    std::ostringstream out;
    out << p;
    return out.str();
}

}  // namespace race
