// What must hold for every picture: well-formed, every coordinate inside, no two texts on each other.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/svg.hpp>

#include "xml.hpp"

struct text_box {
    std::string text;
    double left, right, baseline;
};

/// Where a text lies, by the width that its characters have in a usual font: a little less than what is allowed for.
inline text_box box_of(const xml_element& e) {
    const bool strong = e.attributes.contains("class") && e.attributes.at("class") == "strong";
    const double width = 0.92 * headwise::detail::text_width(e.text, strong), x = e.number("x");
    const std::string at = e.attributes.contains("text-anchor") ? e.attributes.at("text-anchor") : "start";
    const double left = at == "start" ? x : at == "end" ? x - width : x - width / 2;
    return {e.text, left, left + width, e.number("y")};
}

/// The elements of the one picture in `text`, checked.
inline std::vector<xml_element> checked_picture(std::string_view text) {
    std::vector<xml_element> elements;
    REQUIRE_NOTHROW(elements = xml_elements(text));
    REQUIRE(!elements.empty());
    REQUIRE(elements[0].name == "svg");
    const double width = elements[0].number("width"), height = elements[0].number("height");
    CHECK(elements[0].attributes.at("viewBox") ==
          "0 0 " + elements[0].attributes.at("width") + " " + elements[0].attributes.at("height"));
    CHECK(!elements[0].attributes.at("aria-label").empty());
    std::vector<text_box> texts;
    for (const xml_element& e : elements) {
        CAPTURE(e.name);
        CAPTURE(e.text);
        for (const auto& attribute : e.attributes) {
            const std::string& key = attribute.first;
            CAPTURE(key);
            const bool across = key == "x" || key == "x1" || key == "x2" || key == "cx" || key == "width";
            const bool down = key == "y" || key == "y1" || key == "y2" || key == "cy" || key == "height";
            if (!across && !down) continue;
            CHECK(e.number(key) >= 0);
            CHECK(e.number(key) <= (across ? width : height));
        }
        if (e.name == "path") CHECK(e.attributes.at("d").find_first_not_of("MLvhz0123456789.- ") == std::string::npos);
        if (e.name == "text") texts.push_back(box_of(e));
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i].text);
        CHECK(texts[i].left >= -1);
        CHECK(texts[i].right <= width + 1);
        for (std::size_t j = i + 1; j < texts.size(); ++j) {
            CAPTURE(texts[j].text);
            const bool apart = texts[i].right <= texts[j].left || texts[j].right <= texts[i].left ||
                               std::abs(texts[i].baseline - texts[j].baseline) >= 13;
            CHECK(apart);
        }
    }
    return elements;
}

inline std::size_t count_of(const std::vector<xml_element>& elements, std::string_view name,
                            std::string_view style = {}) {
    return static_cast<std::size_t>(std::count_if(elements.begin(), elements.end(), [&](const xml_element& e) {
        const auto found = e.attributes.find("class");
        return e.name == name &&
               (style.empty() || (found != e.attributes.end() && found->second.find(style) != std::string::npos));
    }));
}

inline bool has_text(const std::vector<xml_element>& elements, std::string_view part) {
    return std::any_of(elements.begin(), elements.end(),
                       [&](const xml_element& e) { return e.text.find(part) != std::string::npos; });
}
