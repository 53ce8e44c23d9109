// Drawing: text that cannot break the picture, numbers that cannot either.
#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <string>

#include <headwise/harness/svg.hpp>

#include "picture.hpp"
#include "xml.hpp"

using namespace headwise::detail;

TEST_CASE("text is escaped for elements and attributes") {
    CHECK(escaped("a < b && \"c\" > 'd'") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; &#39;d&#39;");
    CHECK(escaped("two\nlines\tand a tab") == "two\nlines\tand a tab");
    CHECK(escaped("") == "");
}

TEST_CASE("valid UTF-8 passes, everything else becomes the replacement character") {
    const std::string replaced = "\xef\xbf\xbd";
    CHECK(escaped("caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80");
    CHECK(escaped(std::string("a\0b", 3)) == "a" + replaced + "b");
    CHECK(escaped("a\x01\x1f") == "a" + replaced + replaced);
    CHECK(escaped("\xff") == replaced);
    CHECK(escaped("\xc3") == replaced);                                // ends too early
    CHECK(escaped("\xc3<") == replaced + "&lt;");                      // the next byte is still seen
    CHECK(escaped("\xc3\xc3\xa9") == replaced + "\xc3\xa9");           // ... and what begins there is whole
    CHECK(escaped("\xe0\x9f\xbf") == replaced + replaced + replaced);  // U+07FF in three bytes
    CHECK(escaped("\xe0\xa0\x80") == "\xe0\xa0\x80");
    CHECK(escaped("\xc0\xaf") == replaced + replaced);  // overlong
    CHECK(escaped("\xe0\x80\xaf") == replaced + replaced + replaced);
    CHECK(escaped("\xed\xa0\x80") == replaced + replaced + replaced);  // half of a surrogate pair
    CHECK(escaped("\xef\xbf\xbf") == replaced + replaced + replaced);  // U+FFFF, not a character
    CHECK(escaped("\xf4\x90\x80\x80") == replaced + replaced + replaced + replaced);
}

TEST_CASE("names are shortened by characters, not by bytes") {
    CHECK(shortened("abc", 3) == "abc");
    CHECK(shortened("abcd", 3) == "ab\xe2\x80\xa6");
    CHECK(shortened("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 3) == "\xc3\xa9\xc3\xa9\xe2\x80\xa6");
    CHECK(shortened("abcd", 1) == "\xe2\x80\xa6");
    CHECK(characters_in("\xe2\x86\x92x\xff") == 3);
}

TEST_CASE("coordinates are short, and numbers whatever comes") {
    CHECK(coordinate(1.0) == "1");
    CHECK(coordinate(-0.04) == "0");
    CHECK(coordinate(12.34) == "12.3");
    CHECK(coordinate(std::numeric_limits<double>::quiet_NaN()) == "0");
    CHECK(coordinate(HUGE_VAL) == "0");
    CHECK(coordinate(1e300) == "1e+06");
}

TEST_CASE("a picture says what it is, and carries its style when it stands alone") {
    drawing d(200, "a <title>", "what it & shows");
    d.line(0, 0, 10, 10, "grid");
    d.text(100, 20, "</text><script>", "muted", anchor::middle);
    const auto inside = checked_picture(d.finished(40));
    CHECK(inside[0].attributes.at("aria-label") == "a <title>");
    CHECK(inside[1].text == "a <title>");
    CHECK(inside[2].text == "what it & shows");
    CHECK(inside.back().text == "</text><script>");
    CHECK(count_of(inside, "style") == 0);
    const auto alone = checked_picture(d.finished(40, plot_style));
    CHECK(count_of(alone, "style") == 1);
    CHECK(count_of(alone, "rect", "paper") == 1);
    CHECK(plot_style.find("prefers-color-scheme:dark") != std::string_view::npos);
    CHECK(plot_style.find_first_of("<&") == std::string_view::npos);
}

TEST_CASE("the colours keep a contrast of 4.5 to the paper, in light and in dark") {
    const auto luminance = [](std::string hex) {  // WCAG 2.1
        if (hex.size() == 3) hex = {hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]};
        const auto part = [&](std::size_t i) {
            const double c = std::stoi(hex.substr(i, 2), nullptr, 16) / 255.0;
            return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
        };
        return 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
    };
    std::string style(plot_style);
    for (int scheme = 0; scheme < 3; ++scheme) {
        style = style.substr(style.find("--paper:"));
        const auto value = [&](const std::string& name) {
            const std::size_t at = style.find("--" + name + ":#") + name.size() + 4;
            return luminance(style.substr(at, style.find_first_of(";}", at) - at));
        };
        const double paper = value("paper");
        for (const char* name : {"ink", "muted", "c0", "c1", "c2", "c3", "c4", "c5", "bad"}) {
            CAPTURE(name);
            const double ink = value(name);
            CHECK((std::max(paper, ink) + 0.05) / (std::min(paper, ink) + 0.05) >= 4.5);
        }
        style = style.substr(8);
    }
}
