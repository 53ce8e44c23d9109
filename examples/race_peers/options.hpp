// The command line.
#pragma once

#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "grid.hpp"

namespace race {

enum class format { table, json, markdown, html, svg };

struct options {
    int threads = 1;
    double budget = 2;              // seconds a shape
    std::vector<std::string> only;  // parts of contenders' names; empty: all
    std::vector<shape> shapes;      // empty: the grid
    format output = format::table;
    bool in_double = false, extra = false, huge_pages = false, cpu_time = false, help = false;
    std::string command;
};

inline constexpr const char* usage =
    "race_peers: attention scores, the loop and the fused routine against the libraries that do the same\n"
    "  --only A,B        race `fused` and the contenders whose name contains A or B (libxsmm, loop, avx2, ...)\n"
    "  --shape B,H,L,M,D race this shape instead of the grid; may be given again; a sixth field `views` for (b,l,h,d)\n"
    "  --threads N       threads for everyone (1)\n"
    "  --budget S        seconds a shape (2)\n"
    "  --format F        table, markdown, json, html (a page to look at) or svg (the ratios alone)\n"
    "  --double          in double instead of float\n"
    "  --extra           also: strided against dense, M = 4096 against 4100, L = M = 16384 against 2048; with more\n"
    "                    threads than one, each shape on all of them against one\n"
    "  --huge-pages      ask for huge pages under the shared buffers (madvise)\n"
    "  --cpu-time        one thread's processor time instead of wall time: for a machine shared with others\n";

inline std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t start = 0; start <= text.size();) {
        const std::size_t end = std::min(text.find(',', start), text.size());
        parts.emplace_back(text.substr(start, end - start));
        start = end + 1;
    }
    return parts;
}

template <class Number>
std::optional<Number> number(std::string_view text, Number least) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= least)) return std::nullopt;
    return value;
}

inline std::optional<shape> parse_shape(std::string_view text) {
    const std::vector<std::string> fields = split(text);
    if (fields.size() != 5 && !(fields.size() == 6 && fields[5] == "views")) return std::nullopt;
    std::ptrdiff_t n[5];
    for (std::size_t i = 0; i < 5; ++i) {
        const auto extent = number<std::ptrdiff_t>(fields[i], 1);
        if (!extent) return std::nullopt;
        n[i] = *extent;
    }
    return shape{n[0], n[1], n[2], n[3], n[4], fields.size() == 6};
}

inline std::optional<format> parse_format(std::string_view name) {
    constexpr std::string_view names[]{"table", "json", "markdown", "html", "svg"};
    for (std::size_t i = 0; i < std::size(names); ++i) {
        if (names[i] == name) return static_cast<format>(i);
    }
    return std::nullopt;
}

/// What was found in the value of an option, or a refusal that names both.
template <class Found>
Found expected(const std::optional<Found>& found, const std::string& option, const std::string& value,
               const char* what) {
    if (!found) throw std::invalid_argument(option + ": \"" + value + "\" is not " + what);
    return *found;
}

/// Throws `std::invalid_argument` with one line to show.
inline options parse(const std::vector<std::string>& arguments) {
    options o;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& name = arguments[i];
        o.command += (i ? " " : "") + name;
        if (name == "--double") o.in_double = true;
        else if (name == "--extra") o.extra = true;
        else if (name == "--huge-pages") o.huge_pages = true;
        else if (name == "--cpu-time") o.cpu_time = true;
        else if (name == "--help") o.help = true;
        else if (name != "--threads" && name != "--budget" && name != "--shape" && name != "--only" &&
                 name != "--format")
            throw std::invalid_argument('"' + name + "\" is not an option; --help shows them all");
        else {
            if (++i == arguments.size()) throw std::invalid_argument(name + " needs a value");
            const std::string& value = arguments[i];
            o.command += " " + value;
            if (name == "--threads") o.threads = expected(number<int>(value, 1), name, value, "a number from 1 on");
            else if (name == "--budget")
                o.budget = expected(number<double>(value, 0), name, value, "seconds from 0 on");
            else if (name == "--shape")
                o.shapes.push_back(
                    expected(parse_shape(value), name, value, "B,H,L,M,D, each from 1 on, or with ,views"));
            else if (name == "--only") o.only = split(value);
            else o.output = expected(parse_format(value), name, value, "one of table, markdown, json, html, svg");
        }
    }
    if (o.cpu_time && o.threads != 1) throw std::invalid_argument("--cpu-time is of one thread, --threads 1");
    return o;
}

}  // namespace race
