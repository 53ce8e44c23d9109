// Every picture: what it shows is where it says, and nothing breaks it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headwise/harness/plot_distribution.hpp>
#include <headwise/harness/plot_intervals.hpp>
#include <headwise/harness/plot_lines.hpp>
#include <headwise/harness/plot_ratios.hpp>
#include <headwise/harness/plot_roofline.hpp>

#include "page_samples.hpp"
#include "picture.hpp"

using namespace headwise;
using namespace headwise::detail;
using doctest::Approx;

namespace {

extent between(double low, double high) {
    extent e;
    e.add(low), e.add(high);
    return e;
}

const xml_element& text_element(const std::vector<xml_element>& all, std::string_view part) {
    for (const xml_element& e : all) {
        if (e.name == "text" && e.text == part) return e;
    }
    FAIL("no text ", part);
    return all.front();
}

}  // namespace

TEST_CASE("an axis maps its ends to its pixels, linear and logarithmic") {
    const axis linear{false, 10, 20, 0, 100};
    CHECK(linear.at(10) == 0);
    CHECK(linear.at(12.5) == Approx(25));
    CHECK(linear.at(99) == 100);  // beyond: at the edge
    const axis logarithmic{true, 1, 100, 200, 0};
    CHECK(logarithmic.at(10) == Approx(100));
    CHECK(logarithmic.at(0) == 200);
}

TEST_CASE("ticks are round, inside, ascending, and keep apart") {
    for (const auto& ends : {std::pair{0.0, 1.0},
                             {1950.0, 2050.0},
                             {0.98, 1.02},
                             {1.0, 1e9},
                             {3.0, 40.0},
                             {1e-12, 1e-11},
                             {1e-300, 1e300},
                             {5.0, 5.0},
                             {0.999999, 1.000001},
                             {-3.0, 8.0}}) {
        const double low = ends.first, high = ends.second;
        for (const bool logarithmic : {false, true}) {
            if (logarithmic && low <= 0) continue;
            for (const double pixels : {90.0, 300.0, 700.0}) {
                CAPTURE(low);
                CAPTURE(high);
                CAPTURE(pixels);
                const axis a = axis_over(between(low, high), logarithmic, 0, pixels, quantity::number);
                CHECK(a.low < low);
                CHECK(a.high > high);
                const std::vector<double> ticks = ticks_of(a, true);
                CHECK(std::is_sorted(ticks.begin(), ticks.end()));
                CHECK(ticks_fit(a, ticks, true));
                for (const double t : ticks) CHECK(a.covers(t));
                if (pixels > 100) CHECK(!ticks.empty());
            }
        }
    }
    const axis a = axis_over(between(1950, 2050), false, 0, 400, quantity::number);
    CHECK(ticks_of(a, true) == std::vector<double>{1960, 1980, 2000, 2020, 2040});
    const axis octave = axis_over(between(200, 1300), true, 0, 400, quantity::duration);
    CHECK(ticks_of(octave, true) == std::vector<double>{200, 300, 500, 1000});
    const axis decades = axis_over(between(1, 1e4), true, 0, 300, quantity::number);
    CHECK(ticks_of(decades, true) == std::vector<double>{1, 10, 100, 1000, 10000});
}

TEST_CASE("ticks have units") {
    const auto text = [](double low, double high, bool logarithmic, quantity what, double value) {
        return tick_text(axis{logarithmic, low, high, 0, 100, what}, value);
    };
    CHECK(text(1, 1e7, true, quantity::duration, 2e4) == "20 us");
    CHECK(text(1, 1e7, true, quantity::duration, 1e3) == "1 us");
    CHECK(text(1, 1e7, true, quantity::duration, 5e9) == "5 s");
    CHECK(text(900, 1200, false, quantity::duration, 950) == "0.95 us");  // one unit for a short axis
    CHECK(text(100, 400, false, quantity::duration, 250) == "250 ns");
    CHECK(text(0.9, 1.1, true, quantity::ratio, 1.02) == "1.02x");
    CHECK(text(1e9, 1e12, true, quantity::rate, 5e10) == "50 G");
    CHECK(text(0.1, 100, true, quantity::number, 0.3) == "0.3");
}

TEST_CASE("a dot stands where its sample is") {
    const std::vector<plot_samples> arms{{"a", {100, 200}, {false, true}}, {"b", {300}}};
    const auto all = checked_picture(distribution_svg(arms, 500));
    std::vector<double> dots;
    for (const xml_element& e : all) {
        if (e.name == "circle") dots.push_back(e.number("cx"));
    }
    REQUIRE(dots.size() == 3);
    CHECK(dots[1] - dots[0] == Approx(dots[2] - dots[1]).epsilon(0.01));
    CHECK(count_of(all, "circle", "hollow s0") == 1);
    CHECK(count_of(all, "circle", "faint f0") == 1);
    CHECK(count_of(all, "circle", "faint f1") == 1);
    CHECK(has_text(all, "a: 150 ns, 2 samples"));
    CHECK(has_text(all, "b: 300 ns"));
    // 200 ns is a tick; the dot of 200 is above it.
    CHECK(text_element(all, "200 ns").number("x") == Approx(dots[1]).epsilon(0.001));
    const auto medians = std::count_if(all.begin(), all.end(), [](const xml_element& e) {
        return e.name == "line" && e.attributes.at("class").find("line s") == 0;
    });
    CHECK(medians == 2);
}

TEST_CASE("many samples are a histogram, whose size does not grow with them") {
    const std::vector<plot_samples> arms{{"many", page_samples::times(1000, 100'000, 1)}, {"few", {900}}};
    const std::string picture = distribution_svg(arms, 720);
    const auto all = checked_picture(picture);
    CHECK(count_of(all, "path", "area f0") == 1);
    CHECK(count_of(all, "circle") == 1);
    CHECK(picture.size() < 10'000);
    CHECK(has_text(all, "100000 samples"));
}

TEST_CASE("samples over powers of ten get a logarithmic axis, and others do not") {
    CHECK(has_text(checked_picture(distribution_svg(std::vector<plot_samples>{{"a", {1, 1e6}}}, 500)), "logarithmic"));
    CHECK_FALSE(
        has_text(checked_picture(distribution_svg(std::vector<plot_samples>{{"a", {10, 30}}}, 500)), "logarithmic"));
}

TEST_CASE("samples that are no times are counted, not drawn") {
    const double nan = std::nan("");
    for (const double width : {350.0, 720.0}) {
        const std::vector<plot_samples> arms{{"odd", {nan, HUGE_VAL, -HUGE_VAL, 0, -1, 1e-300, 1e300, 5}},
                                             {"none", {}},
                                             {"all odd", {nan}},
                                             {"alike", std::vector<double>(50, 5.0)},
                                             {page_samples::hostile_name, {6}},
                                             {"w", {1}, {}, "wrong output"}};
        const auto all = checked_picture(distribution_svg(arms, width));
        CHECK(has_text(all, "odd: 5.00 ns, 7 without a time"));
        CHECK(has_text(all, "none: no samples"));
        CHECK(has_text(all, "all odd: no samples, 1 without a time"));
        CHECK(has_text(all, "w: wrong output"));
        CHECK(has_text(all, "\xe2\x80\xa6: 6.00 ns"));
        CHECK(count_of(all, "circle") == 1 + 50 + 1 + 1);
    }
    checked_picture(distribution_svg({}, 350));
}

TEST_CASE("a block's ratio is that of the shorter epochs that nothing came between") {
    comparison c = page_samples::of({page_samples::arm("a", verdict::baseline, {10, 12, 30, 8, 9, 9}),
                                     page_samples::arm("b", verdict::faster, {5, 4, 6, 10, 3, 1})});
    for (arm_result& arm : c.arms) arm.spoiled.assign(6, false);
    CHECK(block_ratios(c, 1) == std::vector<double>{10.0 / 4, 8.0 / 6, 9.0 / 1});
    c.arms[1].spoiled[5] = true;
    CHECK(block_ratios(c, 1)[2] == 9.0 / 3);
    c.arms[1].spoiled[4] = true;
    CHECK(std::isnan(block_ratios(c, 1)[2]));
    c.arms[1].spoiled.assign(6, true);  // nothing would be left: they count
    CHECK(block_ratios(c, 1)[2] == 9.0);
    c.arms[1].samples.clear();
    CHECK(block_ratios(c, 1).empty());
}

TEST_CASE("pairs stand in order, the band is the interval, 1 is marked when it is near") {
    plot_ratios p{"fused", "loop", {1.9, 2.0, 2.1, std::nan(""), 2.0}, interval{2.0, 1.94, 2.06}};
    const auto all = checked_picture(ratios_svg(p, 720));
    CHECK(count_of(all, "circle") == 4);
    CHECK(count_of(all, "rect", "band f1") == 1);
    CHECK(count_of(all, "line", "one") == 0);
    CHECK(has_text(all, "2.00x (1.94-2.06)"));
    CHECK(has_text(all, "time of loop / time of fused"));
    p = {"b", "a", {0.9, 1.0, 1.1}, interval{1.0, 0.95, 1.05}};
    const auto near = checked_picture(ratios_svg(p, 350));
    CHECK(count_of(near, "line", "one") == 1);
    double band = 0, middle = 0;
    for (const xml_element& e : near) {
        if (e.name == "rect") band = e.number("height"), middle = e.number("y") + band / 2;
        if (e.name == "line" && e.attributes.at("class") == "one")
            CHECK(e.number("y1") == Approx(middle).epsilon(0.02));
    }
    CHECK(band > 50);
}

TEST_CASE("an outlier lies at the edge and does not press the rest flat") {
    plot_ratios p{"b", "a", {}, interval{2.0, 1.99, 2.01}};
    for (int i = 0; i < 100; ++i) p.ratios.push_back(2 + 0.001 * (i % 10));
    p.ratios[50] = 1e6;
    const extent all = ratio_extent(p);
    CHECK(all.high < 2.1);
    CHECK(all.low > 1.9);
    checked_picture(ratios_svg(p, 350));
    CHECK(ratio_extent({"b", "a", {1.2, 1.25, 1.3}}).low == 1);  // 1 is near
    CHECK(ratio_extent({"b", "a", {0.8, 0.75, 0.7}}).high == 1);
    CHECK(ratio_extent({"b", "a", {1.6, 1.7}}).low == 1.6);  // and here it is not
}

TEST_CASE("pairs without an interval show their median; none at all are said to be none") {
    CHECK(has_text(checked_picture(ratios_svg({"b", "a", {3, 5, 4}}, 350)), "median 4.00x"));
    CHECK(has_text(checked_picture(ratios_svg({"b", "a", {}}, 350)), "no pairs"));
    CHECK(has_text(checked_picture(ratios_svg({"b", "a", {std::nan(""), HUGE_VAL, 0, -1}}, 350)), "no pairs"));
    CHECK(has_text(checked_picture(ratios_svg({"b", "a", {1, 1, 1}, interval{1, 0, HUGE_VAL}}, 350)), "1.00x"));
    std::vector<double> many(100'000, 1.5);
    many[3] = std::nan("");
    const std::string picture = ratios_svg({page_samples::hostile_name, page_samples::hostile_name, many}, 720);
    checked_picture(picture);
    CHECK(picture.size() < 40'000);
}

TEST_CASE("intervals: a row each, on one axis that holds them all and 1") {
    const std::vector<plot_interval> rows{{"a", interval{2, 1.5, 3}},
                                          {"b", std::nullopt, "wrong output"},
                                          {page_samples::hostile_name, interval{0.5, 0, HUGE_VAL}},
                                          {"c", interval{std::nan(""), 1, 2}},
                                          {"d", interval{1e-9, 1e-12, 1e9}}};
    for (const double width : {350.0, 720.0}) {
        const auto all = checked_picture(intervals_svg(rows, width, "speed-up over loop"));
        CHECK(count_of(all, "circle") == 3);
        CHECK(count_of(all, "line", "one") == 1);
        CHECK(has_text(all, "wrong output"));
        CHECK(has_text(all, "speed-up over loop"));
        CHECK(has_text(all, "2.0x 1.5-3.0"));
        checked_picture(intervals_svg({}, width, "x"));
    }
    const auto two = checked_picture(intervals_svg(std::vector<plot_interval>{{"a", interval{2, 1.9, 2.1}}}, 720, "x"));
    double dot = 0;
    for (const xml_element& e : two) {
        if (e.name == "circle") dot = e.number("cx");
    }
    CHECK(text_element(two, "1x").number("x") < dot);  // 1 is on every axis
    CHECK(dot == Approx(text_element(two, "2x").number("x")).epsilon(0.001));
}

TEST_CASE("lines go through their points and are named at their ends") {
    const std::vector<plot_series> series{{"linear", {10, 100, 1000}}, {"constant", {50, 50, 50}}, {"odd", {1, 0}}};
    for (const double width : {350.0, 720.0}) {
        const auto all = checked_picture(lines_svg("n", {1, 10, 100}, series, width));
        CHECK(count_of(all, "path", "line s") == 3);
        CHECK(count_of(all, "circle") == 3 + 3 + 1 + 3);  // and one beside each name
        for (const plot_series& s : series) CHECK(has_text(all, s.name));
    }
    checked_picture(lines_svg("n", {}, {}, 350));
    checked_picture(lines_svg("n", {5}, std::vector<plot_series>{{page_samples::hostile_name, {std::nan("")}}}, 350));
}

TEST_CASE("labels that want the same place are spread, in their order, inside") {
    const auto at = spread_labels({100, 100, 101, 20, 199}, 10, 200);
    CHECK(at[3] == 20);
    std::vector<double> sorted = at;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 1; i < sorted.size(); ++i) CHECK(sorted[i] - sorted[i - 1] >= text_height);
    CHECK(sorted.front() >= 10);
    CHECK(sorted.back() <= 200);
    CHECK(at[0] < at[1]);
    CHECK(at[1] < at[2]);
    CHECK(spread_labels({5, 6, 7}, 10, 200) == std::vector<double>{10, 10 + text_height, 10 + 2 * text_height});
}

TEST_CASE("an operation lies under its limit, at its intensity") {
    const machine_limits m{100e9, 10e9, 10e9};  // ridge at 10 flop/byte
    const std::vector<roofline_point> points{{"half", {1e9, 1e8, 0}, 0.02, m}, {"near", {1e9, 1e9, 0}, 0.125, m}};
    const auto all = checked_picture(roofline_svg(points, roofs_of(points), 720));
    CHECK(count_of(all, "circle") == 2);
    CHECK(has_text(all, "half, 50.0 %"));
    CHECK(has_text(all, "near, 80.0 %"));
    CHECK(has_text(all, "10.0 GB/s"));
    CHECK(has_text(all, "100 GFLOP/s"));
    std::vector<const xml_element*> dots;
    for (const xml_element& e : all) {
        if (e.name == "circle") dots.push_back(&e);
    }
    CHECK(dots[0]->number("cx") == Approx(text_element(all, "10").number("x")).epsilon(0.001));
    CHECK(dots[0]->number("cy") < dots[1]->number("cy"));  // 50 G is above 8 G
    CHECK(text_element(all, "50 G").number("y") - 4 == Approx(dots[0]->number("cy")).epsilon(0.005));
    const double level = dots[0]->number("cy") - (dots[1]->number("cy") - dots[0]->number("cy")) * std::log(2) /
                                                     std::log(50.0 / 8);  // where 100 G is
    bool limited = false;
    for (const xml_element& e : all) {
        if (e.name == "line" && e.attributes.at("class") == "line s0") {
            limited = true;
            CHECK(e.number("y1") == Approx(level).epsilon(0.01));
            CHECK(e.number("y2") == e.number("y1"));
        }
    }
    CHECK(limited);
    // The roof's slope meets its level at 10 flop/byte, and the first point's limit is there.
    for (const xml_element& e : all) {
        if (e.name != "line" || e.attributes.at("class") != "roof") continue;
        const double ridge = e.number("y1") == e.number("y2") ? e.number("x1") : e.number("x2");
        CHECK(ridge == Approx(dots[0]->number("cx")).epsilon(0.001));
    }
}

TEST_CASE("equal roofs are drawn once, and none when there are many") {
    const auto points = page_samples::operations();
    CHECK(roofs_of(points).size() == 2);
    std::vector<roofline_point> many;
    for (int i = 1; i <= 4; ++i) many.push_back({"p", {1e9, 1e8, 0}, 1, {1e11, 1e10 * i, 1e10}});
    CHECK(roofs_of(many).empty());
    many.pop_back();
    CHECK(roofs_of(many).size() == 3);
}

TEST_CASE("operations that cannot be placed are left out; labels that find no room are, too") {
    const auto points = page_samples::hostile_operations();
    for (const double width : {350.0, 720.0}) {
        const auto all = checked_picture(roofline_svg(points, roofs_of(points), width));
        CHECK(count_of(all, "circle") == 3 + 12);
        CHECK_FALSE(has_text(all, "no machine"));
        const std::vector<plot_roof> odd{{"L1", 0, 1e9}, {"L2", std::nan(""), 1e9}, {"L3", 1e9, HUGE_VAL}};
        const auto without = checked_picture(roofline_svg(points, odd, width));
        for (const char* name : {"L1", "L2", "L3"}) CHECK_FALSE(has_text(without, name));
        CHECK(has_text(checked_picture(roofline_svg({}, {}, width)), "no operation to show"));
    }
}

TEST_CASE("a picture that is too narrow for what it shows is drawn all the same") {
    const std::vector<double> few{900, 1000, 1100}, many(most_marks + 1, 1000.0);
    const std::vector<plot_interval> rows{{"fused", interval{2, 1.9, 2.1}}, {"other", {}, "wrong output"}};
    for (const double width : {-8.0, 0.0, 3.0, 8.0, 12.0, 100.0}) {
        for (const std::vector<double>& ns : {few, many}) {
            xml_elements(distribution_svg(std::vector<plot_samples>{{"fused", ns}}, width));
            xml_elements(ratios_svg({"fused", "loop", ns, interval{1000, 900, 1100}, 1}, width));
        }
        xml_elements(intervals_svg(rows, width, "speed-up"));
        xml_elements(
            lines_svg("n", std::vector<double>{1, 2}, std::vector<plot_series>{{"loop", {1000, 2000}}}, width));
    }
}
