// A page that a person can look at: one file, with nothing to load and no script.
//
//     page p("Scores", "fused against loop");
//     p.verdict("fused is 7.31x as fast as loop").table({.headings = {"arm", "time"}, .rows = {{"loop", "2 us"}}});
//     std::cout << p;
//
// Light and dark, readable at 400 pixels and on paper. All text is escaped; the same content makes the same bytes; the
// file is well-formed XML besides. What goes on it for a comparison, a sweep, a profile: page_comparison.hpp and its
// neighbours.
#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/svg.hpp>

namespace headwise {

/// A table in plain text: rows of as many cells as there are headings. The first cell of a row names it.
struct page_table {
    std::vector<std::string> headings;
    std::vector<bool> right = {};  ///< is the column a number, set to the right? Empty: all but the first
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> marked = {};  ///< rows to set apart: the best, the worst
};

namespace detail {

inline constexpr std::string_view page_style = R"(
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:760px;margin:0 auto;padding:24px 20px 48px;overflow-wrap:anywhere}
h1{font-size:1.1rem;font-weight:600;margin:0;color:var(--muted)}h2{font-size:1.15rem;margin:40px 0 8px}
p{margin:8px 0}.verdict{font-size:1.45rem;line-height:1.3;font-weight:600;margin:8px 0}
.verdict.bad{color:var(--bad)}.quiet,figcaption{color:var(--muted);font-size:.875rem}
figure{margin:12px 0 24px}figcaption{margin-top:4px}svg{display:block}.narrow{display:none}
table{border-collapse:collapse;width:100%;margin:12px 0;font-size:.9rem;font-variant-numeric:tabular-nums;
overflow-wrap:normal}
th,td{padding:6px 16px 6px 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:top;font-weight:400}
th:last-child,td:last-child{padding-right:0}thead th{color:var(--muted);font-size:.8rem;vertical-align:bottom}
tbody th{font-weight:600;overflow-wrap:anywhere}td{overflow-wrap:break-word}
.r{text-align:right}td.r{white-space:nowrap}tr.marked td{font-weight:600}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:12px;border-radius:6px;margin:12px 0;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}ul{margin:8px 0;padding-left:20px}
footer{margin-top:40px;padding-top:8px;border-top:1px solid var(--rule)}
@media screen and (max-width:759px){main{padding:16px 16px 32px}.wide{display:none}.narrow{display:block}
.verdict{font-size:1.25rem}th,td{padding-right:8px}
table.cards,table.cards tbody,table.cards tr,table.cards th,table.cards td{display:block}
table.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.cards tr{padding:8px 0;border-bottom:1px solid var(--rule)}
table.cards th,table.cards td{border:0;padding:1px 0;text-align:left;white-space:normal}
table.cards td{display:flex;justify-content:space-between;gap:16px;text-align:right}
table.cards td:empty{display:none}
table.cards td::before{content:attr(data-label);color:var(--muted);text-align:left}}
@media print{body{font-size:11pt}main{max-width:none;padding:0}figure,tr,pre{break-inside:avoid}
h2{break-after:avoid}.narrow{display:none}.wide{display:block}}
)";

}  // namespace detail

/// Grows from top to bottom. Every text is plain and is escaped here.
class page {
public:
    /// The title stands in the browser's tab and above everything.
    explicit page(std::string_view title) : title_(title) { body_ = "<h1>" + detail::escaped(title) + "</h1>\n"; }

    /// The sentence to read if one reads only one. `bad`: something is wrong.
    page& verdict(std::string_view sentence, bool bad = false) {
        return element(bad ? "p class=\"verdict bad\"" : "p class=\"verdict\"", "p", sentence);
    }
    page& heading(std::string_view text) { return element("h2", "h2", text); }
    page& paragraph(std::string_view text) { return element("p", "p", text); }
    page& remark(std::string_view text) { return element("p class=\"quiet\"", "p", text); }

    /// Text whose lines stay as they are, unless they are longer than the page is wide.
    page& preformatted(std::string_view text) { return element("pre", "pre", text); }

    page& list(std::span<const std::string> items) {
        if (items.empty()) return *this;
        body_ += "<ul>\n";
        for (const std::string& item : items) element("li", "li", item);
        body_ += "</ul>\n";
        return *this;
    }

    /// On a narrow screen a table of more than five columns becomes a card for each row. Refuses rows of another
    /// length than the headings.
    page& table(const page_table& t) {
        for (std::size_t r = 0; r < t.rows.size(); ++r) {
            if (t.rows[r].size() != t.headings.size())
                detail::refuse("page: row " + std::to_string(r) + " has " + std::to_string(t.rows[r].size()) +
                               " cells, the table has " + std::to_string(t.headings.size()) + " headings");
        }
        body_ += t.headings.size() > 5 ? "<table class=\"cards\">\n<thead><tr>" : "<table>\n<thead><tr>";
        for (std::size_t c = 0; c < t.headings.size(); ++c) {
            body_ += std::string("<th scope=\"col\"") + (is_right(t, c) ? " class=\"r\">" : ">") +
                     detail::escaped(t.headings[c]) + "</th>";
        }
        body_ += "</tr></thead>\n<tbody>\n";
        for (std::size_t r = 0; r < t.rows.size(); ++r) add_row(t, r);
        body_ += "</tbody></table>\n";
        return *this;
    }

    /// A picture: `draw(width)` returns it for a width in pixels. It is drawn twice, for a wide and for a narrow
    /// screen, so that its text is as large on both; one of the two is shown.
    template <class Draw>
    page& figure(std::string_view caption, Draw&& draw) {
        constexpr double wide = 720, narrow = 350;
        body_ += "<figure>\n<div class=\"wide\">" + std::string(draw(wide)) + "</div>\n<div class=\"narrow\">" +
                 std::string(draw(narrow)) + "</div>\n";
        if (!caption.empty()) element("figcaption", "figcaption", caption);
        body_ += "</figure>\n";
        return *this;
    }

    /// The last line.
    page& footer(std::string_view text) { return element("footer class=\"quiet\"", "footer", text); }

    friend std::ostream& operator<<(std::ostream& out, const page& p) {
        return out << "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
                      "<meta charset=\"utf-8\"/>\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>"
                   << detail::escaped(p.title_) << "</title>\n<style>" << detail::plot_style << detail::page_style
                   << "</style>\n</head>\n<body>\n<main>\n"
                   << p.body_ << "</main>\n</body>\n</html>\n";
    }

private:
    page& element(std::string_view open, std::string_view close, std::string_view text) {
        body_ += '<';
        body_ += open;
        body_ += '>' + detail::escaped(text) + "</";
        body_ += close;
        body_ += ">\n";
        return *this;
    }

    static bool is_right(const page_table& t, std::size_t column) {
        return column < t.right.size() ? t.right[column] : t.right.empty() && column > 0;
    }

    void add_row(const page_table& t, std::size_t r) {
        bool marked = false;
        for (const std::size_t m : t.marked) marked = marked || m == r;
        body_ += marked ? "<tr class=\"marked\">" : "<tr>";
        for (std::size_t c = 0; c < t.rows[r].size(); ++c) {
            body_ += c == 0 ? "<th scope=\"row\"" : "<td";
            if (is_right(t, c)) body_ += " class=\"r\"";
            if (c > 0) body_.append(" data-label=\"").append(detail::escaped(t.headings[c])) += '"';
            body_.append(">").append(detail::escaped(t.rows[r][c])) += c == 0 ? "</th>" : "</td>";
        }
        body_ += "</tr>\n";
    }

    std::string title_, body_;
};

}  // namespace headwise
