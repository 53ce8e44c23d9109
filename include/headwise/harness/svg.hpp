// Drawing in SVG: a handful of shapes, text that is always escaped, and numbers that do not depend on the locale.
//
// All text is 12 pixels high, so that a picture must be drawn for the width that it is shown at, not scaled to it.
// Colours are CSS variables (see `plot_style`): one picture serves light and dark. The text is well-formed XML,
// whatever the names in it.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace headwise::detail {

/// Bytes of the UTF-8 character at the front of `text`; 0 where there is none, or one that XML does not allow.
[[nodiscard]] inline std::size_t character_length(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(0);
    if (first < 0x80) return first >= 0x20 || first == '\n' || first == '\t' ? 1 : 0;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length > text.size()) return 0;
    unsigned long code = first & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i) & 0x3f);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool forbidden = (code >= 0xd800 && code < 0xe000) || code > 0x10ffff || (code & 0xfffe) == 0xfffe;
    return overlong || forbidden ? 0 : length;
}

/// Text as XML and HTML take it, in elements and in attributes. Bytes that are not UTF-8, and control characters,
/// become the replacement character.
[[nodiscard]] inline std::string escaped(std::string_view text) {
    constexpr std::string_view special = "&<>\"'", replacement = "\xef\xbf\xbd";
    constexpr std::string_view references[]{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = character_length(text), found = special.find(text.front());
        if (found != std::string_view::npos) out += references[found];
        else out += length == 0 ? replacement : text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

[[nodiscard]] inline std::size_t characters_in(std::string_view text) noexcept {
    std::size_t count = 0;
    for (; !text.empty(); ++count) text.remove_prefix(std::max<std::size_t>(character_length(text), 1));
    return count;
}

/// How many whole characters or columns there is room for: 0 where there is none.
[[nodiscard]] inline std::size_t whole(double room) noexcept {
    return room > 0 ? static_cast<std::size_t>(std::min(room, 1e6)) : 0;
}

/// At most so many characters, the last of them an ellipsis where something is left out.
[[nodiscard]] inline std::string shortened(std::string_view text, std::size_t characters) {
    if (characters_in(text) <= characters) return std::string(text);
    std::size_t kept = 0;
    for (std::size_t i = 1; i < characters; ++i) kept += std::max<std::size_t>(character_length(text.substr(kept)), 1);
    return std::string(text.substr(0, kept)) + "\xe2\x80\xa6";
}

/// What a line of text takes at most, at 12 pixels in a usual font: of them, DejaVu Sans is the widest.
inline constexpr double text_height = 15, character_width = 7.7, strong_width = 8.5;
[[nodiscard]] inline double text_width(std::string_view text, bool strong = false) noexcept {
    return (strong ? strong_width : character_width) * static_cast<double>(characters_in(text));
}

/// A tenth of a pixel is enough; 0 for what is no number, which would make the whole picture invalid.
[[nodiscard]] inline std::string coordinate(double x) {
    x = std::isfinite(x) ? std::clamp(std::round(10 * x) / 10, -1e6, 1e6) : 0;
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, x + 0.0).ptr};
}

/// Where text is anchored at its x.
enum class anchor { start, middle, end };

/// A picture that grows. `width` is given, the height when it is done.
class drawing {
public:
    drawing(double width, std::string_view title, std::string_view description)
        : width_(width), title_(title), description_(description) {}

    void line(double x1, double y1, double x2, double y2, std::string_view style) {
        add("<line", style, {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
        body_ += "/>\n";
    }
    void rectangle(double x, double y, double w, double h, std::string_view style) {
        add("<rect", style, {{"x", x}, {"y", y}, {"width", std::max(w, 0.0)}, {"height", std::max(h, 0.0)}});
        body_ += "/>\n";
    }
    void dot(double x, double y, double radius, std::string_view style) {
        add("<circle", style, {{"cx", x}, {"cy", y}, {"r", radius}});
        body_ += "/>\n";
    }
    /// `points`: pairs of coordinates after "M", already text.
    void path(std::string_view points, std::string_view style) {
        add("<path", style, {});
        body_ += " d=\"";
        body_ += points;
        body_ += "\"/>\n";
    }
    void text(double x, double baseline, std::string_view content, std::string_view style = {},
              anchor at = anchor::start) {
        add("<text", style, {{"x", x}, {"y", baseline}});
        if (at != anchor::start) body_ += at == anchor::middle ? " text-anchor=\"middle\"" : " text-anchor=\"end\"";
        body_ += '>' + escaped(content) + "</text>\n";
    }

    [[nodiscard]] double width() const noexcept { return width_; }

    /// The <svg> element. `style`: CSS for a picture that stands alone; one inside a page has the page's.
    [[nodiscard]] std::string finished(double height, std::string_view style = {}) const {
        std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + coordinate(width_) +
                          "\" height=\"" + coordinate(height) + "\" viewBox=\"0 0 " + coordinate(width_) + ' ' +
                          coordinate(height) + "\" aria-label=\"" + escaped(title_) + "\">\n<title>" + escaped(title_) +
                          "</title>\n<desc>" + escaped(description_) + "</desc>\n";
        if (!style.empty()) {
            out += "<style>" + std::string(style) + "</style>\n<rect class=\"paper\" width=\"" + coordinate(width_) +
                   "\" height=\"" + coordinate(height) + "\"/>\n";
        }
        return out + body_ + "</svg>\n";
    }

private:
    void add(std::string_view element, std::string_view style,
             std::initializer_list<std::pair<std::string_view, double>> attributes) {
        body_ += element;
        for (const auto& [name, value] : attributes) {
            body_ += ' ';
            body_ += name;
            body_ += "=\"" + coordinate(value) + '"';
        }
        if (!style.empty()) body_ += " class=\"" + std::string(style) + '"';
    }

    double width_;
    std::string title_, description_, body_;
};

/// The colours and strokes of plots. Six colours, apart for all kinds of colour blindness, darker or lighter than those
/// of Okabe and Ito (2008), so that each keeps a contrast of 4.5 to the paper.
inline constexpr std::string_view plot_style = R"(
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--muted:#57606a;--rule:#d0d7de;--soft:#f3f5f7;
--c0:#0072b2;--c1:#b84e00;--c2:#007a59;--c3:#a64d85;--c4:#806000;--c5:#5059b8;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6e9ed;--muted:#9aa4af;--rule:#3a424c;--soft:#1d232a;
--c0:#56b4e9;--c1:#ff9152;--c2:#3ccb9e;--c3:#e39ac7;--c4:#e6b933;--c5:#a4b3ff;--bad:#ff8a80}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--muted:#444;--rule:#bbb;--soft:#f3f5f7;
--c0:#0072b2;--c1:#b84e00;--c2:#007a59;--c3:#a64d85;--c4:#806000;--c5:#5059b8;--bad:#b3261e}}
svg{max-width:100%;height:auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;fill:var(--ink);
paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round;font-variant-numeric:tabular-nums}
svg .muted{fill:var(--muted)}svg .strong{font-weight:600}svg .paper{fill:var(--paper)}
svg .grid{stroke:var(--rule);stroke-width:1}svg .one{stroke:var(--ink);stroke-width:1;stroke-dasharray:4 3}
svg .roof{stroke:var(--muted);stroke-width:1.5;fill:none}
svg .f0{fill:var(--c0)}svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}svg .f4{fill:var(--c4)}
svg .f5{fill:var(--c5)}svg .s0{stroke:var(--c0)}svg .s1{stroke:var(--c1)}svg .s2{stroke:var(--c2)}
svg .s3{stroke:var(--c3)}svg .s4{stroke:var(--c4)}svg .s5{stroke:var(--c5)}
svg .faint{fill-opacity:.5}svg .area{fill-opacity:.75}svg .band{fill-opacity:.18}svg .hollow{fill:none;stroke-width:1}
svg .thin{stroke-width:1}svg .thick{stroke-width:3;stroke-linecap:butt}svg .line{stroke-width:2;fill:none}
)";

/// "f2": the class of the i-th colour; `kind` is 'f' for fill, 's' for stroke.
[[nodiscard]] inline std::string colour(char kind, std::size_t i) {
    return std::string(1, kind) + static_cast<char>('0' + i % 6);
}

}  // namespace headwise::detail
