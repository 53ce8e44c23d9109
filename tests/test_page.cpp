// Pages: well-formed, self-contained, the same every time, and with everything on them that was found.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <headwise/harness/page_comparison.hpp>
#include <headwise/harness/page_profile.hpp>

#include "page_samples.hpp"
#include "picture.hpp"

using namespace headwise;

namespace {

template <class... Parts>
std::string html(const Parts&... parts) {
    std::ostringstream out;
    write_html(out, parts...);
    return out.str();
}

/// The elements of a page, checked: every picture in it as `checked_picture` does, nothing to load, nothing to run.
std::vector<xml_element> checked_page(const std::string& text) {
    std::vector<xml_element> all;
    REQUIRE_NOTHROW(all = xml_elements(text));
    CHECK(text.starts_with("<!DOCTYPE html>"));
    CHECK(all[0].attributes.at("lang") == "en");
    for (const xml_element& e : all) {
        CAPTURE(e.name);
        CHECK(e.name != "script");
        CHECK(e.name != "link");
        for (const char* loading : {"src", "href", "onload", "onclick", "style"})
            CHECK(!e.attributes.contains(loading));
    }
    CHECK(text.find("url(") == std::string::npos);
    CHECK(text.find("@import") == std::string::npos);
    for (std::size_t at = 0; (at = text.find("<svg", at)) != std::string::npos; ++at)
        checked_picture(std::string_view(text).substr(at, text.find("</svg>", at) + 6 - at));
    return all;
}

/// The text of all `name` elements, one after the other.
std::string text_of_all(const std::vector<xml_element>& all, std::string_view name) {
    std::string text;
    for (const xml_element& e : all) {
        if (e.name == name) text += e.text + "\n";
    }
    return text;
}

std::size_t figures(const std::vector<xml_element>& all) { return count_of(all, "figure"); }

}  // namespace

TEST_CASE("a page is built from top to bottom, everything escaped") {
    page p("a <title> & more");
    p.verdict("a < b", true).heading("h & h").paragraph("\"p\"").remark("r").preformatted("  two\n  lines <");
    p.list(std::vector<std::string>{"one <", "two"}).list({}).footer("the & end");
    p.table({.headings = {"name", "<time>"}, .rows = {{"a&b", "1"}, {"c", "2"}}, .marked = {1}});
    p.figure("caption <", [](double width) { return "<svg width=\"" + detail::coordinate(width) + "\"/>"; });
    std::ostringstream out;
    out << p;
    const auto all = xml_elements(out.str());
    CHECK(text_of_all(all, "title") == "a <title> & more\n");
    CHECK(text_of_all(all, "h1") == "a <title> & more\n");
    CHECK(text_of_all(all, "h2") == "h & h\n");
    CHECK(text_of_all(all, "p") == "a < b\n\"p\"\nr\n");
    CHECK(count_of(all, "p", "bad") == 1);
    CHECK(text_of_all(all, "pre") == "  two\n  lines <\n");
    CHECK(text_of_all(all, "li") == "one <\ntwo\n");
    CHECK(count_of(all, "ul") == 1);
    CHECK(text_of_all(all, "th") == "name\n<time>\na&b\nc\n");
    CHECK(text_of_all(all, "td") == "1\n2\n");
    CHECK(count_of(all, "tr", "marked") == 1);
    CHECK(text_of_all(all, "figcaption") == "caption <\n");
    CHECK(text_of_all(all, "footer") == "the & end\n");
    std::vector<double> widths;
    for (const xml_element& e : all) {
        if (e.name == "svg") widths.push_back(e.number("width"));
    }
    CHECK(widths == std::vector<double>{720, 350});  // drawn for a wide screen and for a narrow one
}

TEST_CASE("columns are set to the right as asked, by default all but the first") {
    const auto sides = [](const page_table& t) {
        page p("t");
        p.table(t);
        std::ostringstream out;
        out << p;
        std::string found;
        for (const xml_element& e : xml_elements(out.str())) {
            if (e.name == "th" || e.name == "td") found += e.attributes.contains("class") ? 'r' : 'l';
        }
        return found;
    };
    CHECK(sides({.headings = {"a", "b", "c"}, .rows = {{"1", "2", "3"}}}) == "lrrlrr");
    CHECK(sides({.headings = {"a", "b", "c"}, .right = {true, false, true}, .rows = {{"1", "2", "3"}}}) == "rlrrlr");
    CHECK(sides({.headings = {"a", "b", "c"}, .right = {false, true}, .rows = {{"1", "2", "3"}}}) == "lrllrl");
}

TEST_CASE("a table with many columns has its headings in its cells, for narrow screens") {
    page p("t");
    p.table({.headings = {"a", "b", "c", "d", "e", "f <"}, .rows = {{"1", "2", "3", "4", "5", "6"}}});
    std::ostringstream out;
    out << p;
    const auto all = xml_elements(out.str());
    CHECK(count_of(all, "table", "cards") == 1);
    std::string labels;
    for (const xml_element& e : all) {
        if (e.name == "td") labels += e.attributes.at("data-label");
    }
    CHECK(labels == "bcdef <");
}

TEST_CASE("a row of another length than the headings is refused, by its number") {
    page p("t");
    std::ostringstream before, after;
    before << p;
    CHECK_THROWS_WITH_AS(p.table({.headings = {"a", "b"}, .rows = {{"1", "2"}, {"3"}}}),
                         "page: row 1 has 1 cells, the table has 2 headings", std::invalid_argument);
    after << p;
    CHECK(before.str() == after.str());
}

TEST_CASE("the page of a comparison: sentence, table, samples, pairs, agreement") {
    const std::string text = html(page_samples::ordinary());
    const auto all = checked_page(text);
    CHECK(text_of_all(all, "h1") == "loop against fused\n");
    CHECK(text_of_all(all, "p").find(sentence(page_samples::ordinary(), 1)) == 0);
    CHECK(text_of_all(all, "td").find("1.950x") != std::string::npos);
    CHECK(text_of_all(all, "li") == "fused agrees, before the timed calls and after them\n");
    CHECK(figures(all) == 2);
    CHECK(text == html(page_samples::ordinary()));
}

TEST_CASE("what the options bring is shown, and nothing else") {
    const machine_report machine = page_samples::machine();
    const auto all = checked_page(html(page_samples::ordinary(), page_options{.title = "my <title>",
                                                                              .verdict = "my verdict",
                                                                              .agreement = "all 3 values agree",
                                                                              .operations = page_samples::operations(),
                                                                              .machine = &machine,
                                                                              .footer = "the command"}));
    CHECK(text_of_all(all, "h1") == "my <title>\n");
    CHECK(text_of_all(all, "p").find("my verdict\n" + sentence(page_samples::ordinary(), 1)) == 0);
    CHECK(text_of_all(all, "pre") == "all 3 values agree\n");
    CHECK(text_of_all(all, "h2") == "All samples\nPair by pair\nDo they agree?\nWhat holds it back\nThe machine\n");
    CHECK(text_of_all(all, "p").find("A Processor \"with quotes\", 4 processors, AVX-512, L1 48 KiB") !=
          std::string::npos);
    CHECK(text_of_all(all, "p").find("Measured on 2024-02-29 on the host host <a&b>") != std::string::npos);
    CHECK(text_of_all(all, "th").find("memory, 64 MiB, 4 threads") != std::string::npos);
    CHECK(text_of_all(all, "footer") == "the command\n");
    CHECK(figures(all) == 3);
}

TEST_CASE("hostile results make a page like any other") {
    const auto all = checked_page(html(page_samples::hostile()));
    CHECK(count_of(all, "p", "bad") == 0);
    CHECK(text_of_all(all, "li").find("does not agree: 1 of 1 <elements> differs") != std::string::npos);
    CHECK(text_of_all(all, "li").find("a note with <tags>") != std::string::npos);
    CHECK(text_of_all(all, "h1").find("alike against 5 others") == 0);
    checked_page(html(comparison{}));
    checked_page(html(page_samples::of({page_samples::arm("alone", verdict::baseline, {1, 2})})));
    auto wrong = page_samples::ordinary();
    wrong.arms[1].verdict = verdict::mismatch;
    wrong.arms[1].reason = "17 instead of 18";
    const auto bad = checked_page(html(wrong));
    CHECK(count_of(bad, "p", "bad") == 1);
    CHECK(has_text(bad, "fused: wrong output"));
}

TEST_CASE("100 000 samples make a page of a usual size") {
    const std::string text = html(page_samples::ordinary(100'000));
    checked_page(text);
    CHECK(text.size() < 200'000);
}

TEST_CASE("the page of a sweep: crossovers, intervals, lines over a parameter that is a number") {
    sweep_result s = page_samples::sweep();
    auto all = checked_page(html(s));
    CHECK(text_of_all(all, "p").find(
              "binary search becomes faster than linear search between n = 16 and 64, about 46") == 0);
    CHECK(figures(all) == 2);
    CHECK(text_of_all(all, "thead") == "\n");
    CHECK(text_of_all(all, "td").find("faster") != std::string::npos);
    for (sweep_point& point : s.points) point.label = "<" + point.label + ">";  // no numbers any more: no lines
    CHECK(figures(checked_page(html(s))) == 1);
    checked_page(html(sweep_result{"n", 0.95, {}}));
    s.points.resize(1);
    all = checked_page(html(s));
    CHECK(text_of_all(all, "p").find("No winner changes over n") == 0);
}

TEST_CASE("the page of operations names the one that is nearest to its limit") {
    const std::vector<roofline_point> points = page_samples::operations();
    const auto all = checked_page(html(std::span<const roofline_point>(points)));
    CHECK(text_of_all(all, "p").find("fused reaches 74.1 % of what compute allows") == 0);
    CHECK(text_of_all(all, "td").find("22.2 GFLOP/s") != std::string::npos);
    const std::vector<roofline_point> odd = page_samples::hostile_operations();
    const auto hostile = checked_page(html(std::span<const roofline_point>(odd)));
    CHECK(text_of_all(hostile, "p").find("the machine was busy when its limits were measured") != std::string::npos);
    checked_page(html(std::span<const roofline_point>()));
    const std::vector<roofline_point> copy{{"copy", {0, 1e6, 1e6}, 1e-3, {1e11, 1e10, 1e10}}};  // no flops: no place
    const auto table_only = checked_page(html(std::span<const roofline_point>(copy)));
    CHECK(figures(table_only) == 0);
    CHECK(text_of_all(table_only, "td").find("2.00 GB/s") == 0);
}

TEST_CASE("the page of several cases: what was found in each first, then each on its own") {
    std::vector<page_case> cases(2);
    cases[0] = {"seed", "(2, 3)", page_samples::ordinary(), "all agree", page_samples::operations()};
    cases[1] = {"bad <case>", "", page_samples::ordinary(), "1 of 2 differ", {}};
    cases[1].comparison.arms[1].verdict = verdict::mismatch;
    cases[1].comparison.arms[1].reason = "17 instead of 18";
    const page_options options{.title = "t", .agreement = "not looked at", .operations = page_samples::operations()};
    const auto all = checked_page(html(std::span<const page_case>(cases), options));
    CHECK(text_of_all(all, "p").find("seed: " + sentence(cases[0].comparison, 1) +
                                     "\nbad <case>: fused does not agree") == 0);
    CHECK(count_of(all, "p", "bad") == 1);
    CHECK(text_of_all(all, "h2") == "seed\nbad <case>\nWhat holds it back\n");
    CHECK(text_of_all(all, "pre") == "all agree\n1 of 2 differ\n");
    CHECK(text_of_all(all, "th").find("seed: loop\nseed: fused\nbad <case>: loop\nbad <case>: fused\n") !=
          std::string::npos);
    CHECK(figures(all) == 4);                   // samples, pairs, samples, roofline: no pairs of a wrong output
    CHECK(count_of(all, "figcaption") == 3);    // each kind of picture is explained once
    CHECK(count_of(all, "circle", "f2") == 2);  // the three operations once, for each width
    checked_page(html(std::span<const page_case>()));
    cases[1].comparison = {};
    checked_page(html(std::span<const page_case>(cases)));
}

TEST_CASE("the page of any table") {
    const auto all = checked_page(html(page_table{.headings = {"scope", "self"}, .rows = {{"pack <K>", "5 us"}}},
                                       page_options{.title = "profile", .verdict = "pack K takes most"}));
    CHECK(text_of_all(all, "p") == "pack K takes most\n");
    CHECK(text_of_all(all, "th") == "scope\nself\npack <K>\n");
}

TEST_CASE("the page of a profile: what takes the most, every scope, what was not counted") {
    profile_table table;
    table.rows.resize(2);
    table.rows[0].name = "pack <K>", table.rows[0].self_ns = 7500, table.rows[0].total_ns = 7500;
    table.rows[1].name = "tiles", table.rows[1].self_ns = 2500, table.rows[1].total_ns = 10'000;
    for (profile_row& row : table.rows) row.calls = 3;
    table.total_ns = 10'000, table.threads = 1;
    const auto all = checked_page(html(table));
    CHECK(text_of_all(all, "p") == "pack <K> comes first: 7.50 us of 10.0 us are its own\n");
    CHECK(text_of_all(all, "th").starts_with("scope\ncalls\nself\nshare\ntotal\nshare\nmean\n"));
    CHECK(text_of_all(all, "footer").find("10.0 us in all, on 1 thread\nmemory: not counted") != std::string::npos);
    checked_page(html(profile_table{}));
}

TEST_CASE("pictures that stand alone") {
    const auto svg = [](const auto& of) {
        std::ostringstream out;
        write_svg(out, of);
        return out.str();
    };
    CHECK(count_of(checked_picture(svg(page_samples::ordinary())), "circle") == 240);
    CHECK(count_of(checked_picture(svg(page_samples::sweep())), "circle") == 6);
    const std::vector<roofline_point> points = page_samples::operations();
    CHECK(count_of(checked_picture(svg(std::span<const roofline_point>(points))), "circle") == 3);
    CHECK(count_of(checked_picture(svg(page_samples::hostile())), "style") == 1);
}
