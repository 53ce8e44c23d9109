// A comparison, written down: a table for a person, Markdown for a pull request, CSV and JSON (all samples) for a
// program.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/comparison.hpp>

namespace headwise {

namespace detail {

/// "9.80 us": three significant digits, in the unit that leaves one to three of them before the point.
[[nodiscard]] inline std::string duration_text(double ns) {
    if (!detail::is_finite_number(ns)) return "-";
    constexpr std::string_view units[]{"ns", "us", "ms", "s"};
    std::size_t unit = 0;
    while (unit < 3 && ns >= 999.5) ns /= 1000, ++unit;
    return fixed(ns, ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0) + " " + std::string(units[unit]);
}

/// Characters of UTF-8: every byte but those that go on with one.
[[nodiscard]] inline std::size_t code_points(std::string_view text) noexcept {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char ch) { return (static_cast<unsigned char>(ch) & 0xc0) != 0x80; }));
}

/// Rows of cells to columns: the first left-aligned, the others as `right` says.
inline void write_columns(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                          const std::vector<bool>& right) {
    std::vector<std::size_t> width(right.size(), 0);
    for (const auto& row : rows) {
        for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], code_points(row[c]));
    }
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c) {
            const std::string pad(width[c] - code_points(row[c]), ' ');
            line += (c == 0 ? "" : "  ") + (right[c] ? pad + row[c] : row[c] + pad);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out << line << '\n';
    }
}

[[nodiscard]] inline std::string outputs_text(const comparison& c, std::size_t i) {
    const arm_result& arm = c.arms[i];
    if (arm.verdict == verdict::mismatch) return "WRONG";
    if (!arm.verified) return "not checked";
    return i == 0 ? "reference" : "agree";
}

/// The two cells of a speed-up: the estimate, and its interval.
[[nodiscard]] inline std::array<std::string, 2> speedup_cells(const std::optional<interval>& speedup) {
    if (!speedup) return {"-", "-"};
    const ratio_text ratio(*speedup);
    return {ratio.estimate, ratio.range};
}

[[nodiscard]] inline std::vector<std::vector<std::string>> table_rows(const comparison& c) {
    std::vector<std::vector<std::string>> rows{
        {"arm", "a call", "spread", "speed-up", confidence_text(c.confidence) + " interval", "verdict", "outputs"}};
    const bool has_cold =
        std::any_of(c.arms.begin(), c.arms.end(), [](const arm_result& arm) { return arm.cold.has_value(); });
    if (has_cold) rows[0].insert(rows[0].begin() + 5, {"cold", "speed-up", "interval"});
    for (std::size_t i = 0; i < c.arms.size(); ++i) {
        const arm_result& arm = c.arms[i];
        auto [speedup, range] = speedup_cells(arm.speedup);
        if (i == 0) speedup = "1", range = "";
        rows.push_back({arm.name, duration_text(arm.time.median),
                        arm.time.median > 0 ? percent_text(arm.time.mad / arm.time.median) : "-", speedup, range,
                        text_of(arm.verdict), outputs_text(c, i)});
        if (!has_cold) continue;
        const auto [cold_speedup, cold_range] = speedup_cells(arm.cold ? arm.cold->speedup : std::nullopt);
        rows.back().insert(rows.back().begin() + 5, {arm.cold ? duration_text(arm.cold->time.median) : "-",
                                                     i == 0 ? "1" : cold_speedup, i == 0 ? "" : cold_range});
    }
    return rows;
}

/// Numbers are; the name, the verdict and what became of the outputs are not.
[[nodiscard]] inline std::vector<bool> aligned_right(std::size_t columns) {
    std::vector<bool> right(columns, true);
    right[0] = right[columns - 2] = right[columns - 1] = false;
    return right;
}

/// How it was measured, and what a difference would have had to be to show.
[[nodiscard]] inline std::string provenance(const comparison& c) {
    std::string text = counted(c.blocks * c.epochs_per_block, "round") + " of " + counted(c.calls_per_epoch, "call") +
                       ", interleaved, in " + fixed(c.seconds, c.seconds < 0.0995 ? 3 : 2) + " s";
    double detectable = 0;
    for (const arm_result& arm : c.arms) detectable = std::max(detectable, arm.detectable);
    if (detectable > 0) text += "; " + percent_text(detectable) + " would have shown";
    if (c.control) text += "; identical code came out at " + ratio_text(*c.control).estimate;
    if (c.control_failed) text += ", DIFFERENT";
    return text;
}

/// A string as JSON has it; bytes beyond ASCII pass as they are (UTF-8 in, UTF-8 out).
[[nodiscard]] inline std::string json(std::string_view text) {
    std::string out = "\"";
    for (const char ch : text) {
        if (ch == '"' || ch == '\\') {
            out += '\\';
            out += ch;
        } else if (static_cast<unsigned char>(ch) < 0x20) {
            char buffer[8];
            std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(ch));
            out += buffer;
        } else {
            out += ch;
        }
    }
    return out + "\"";
}

template <std::integral Integer>
[[nodiscard]] std::string json(Integer number) {
    if constexpr (std::same_as<Integer, bool>) return number ? "true" : "false";
    else return std::to_string(number);
}

/// The shortest digits that read back as the same number, in any locale; JSON has no NaN and no infinity: null.
[[nodiscard]] inline std::string json(double number) {
    if (!detail::is_finite_number(number)) return "null";
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

[[nodiscard]] inline std::string json(const std::optional<interval>& i) {
    if (!i) return "null";
    return R"({"estimate": )" + json(i->estimate) + R"(, "low": )" + json(i->low) + R"(, "high": )" + json(i->high) +
           "}";
}

inline void write_json_arm(std::ostream& out, const arm_result& arm) {
    const summary& t = arm.time;
    out << "    {\"name\": " << json(arm.name) << ", \"verdict\": \"" << text_of(arm.verdict)
        << "\", \"verified\": " << json(arm.verified) << ",\n     \"speedup\": " << json(arm.speedup)
        << ", \"detectable\": " << json(arm.detectable) << ", \"reason\": " << json(arm.reason)
        << ",\n     \"ns_per_call\": {\"count\": " << json(t.count) << ", \"mean\": " << json(t.mean)
        << ", \"minimum\": " << json(t.minimum) << ", \"lower_quartile\": " << json(t.lower_quartile)
        << ", \"median\": " << json(t.median) << ", \"upper_quartile\": " << json(t.upper_quartile)
        << ", \"mad\": " << json(t.mad) << "},\n     ";
    if (arm.cold) {
        out << "\"cold\": {\"verdict\": \"" << text_of(arm.cold->verdict)
            << "\", \"speedup\": " << json(arm.cold->speedup)
            << ", \"median_ns_per_call\": " << json(arm.cold->time.median) << "},\n     ";
    }
    out << "\"samples\": [";
    for (std::size_t i = 0; i < arm.samples.size(); ++i) out << (i == 0 ? "" : ", ") << json(arm.samples[i]);
    out << "],\n     \"spoiled\": [";
    const char* separator = "";
    for (std::size_t i = 0; i < arm.spoiled.size(); ++i) {
        if (!arm.spoiled[i]) continue;
        out << separator << json(i);
        separator = ", ";
    }
    out << "]}";
}

}  // namespace detail

/// A table that is read in five seconds, a sentence for each arm, and what else a reader should know.
inline std::ostream& operator<<(std::ostream& out, const comparison& c) {
    const auto rows = detail::table_rows(c);
    detail::write_columns(out, rows, detail::aligned_right(rows[0].size()));
    out << '\n';
    for (std::size_t i = 1; i < c.arms.size(); ++i) out << sentence(c, i) << '\n';
    out << detail::provenance(c) << '\n';
    for (const std::string& note : c.notes) out << "note: " << note << '\n';
    return out;
}

namespace detail {

/// Text as Markdown shows it, in a cell too: vector<float> would be an unknown element, and not shown.
[[nodiscard]] inline std::string markdown(std::string_view text) {
    std::string out;
    for (const char ch : text) {
        if (ch == '|') out += "\\|";
        else if (ch == '<') out += "&lt;";
        else if (ch == '&') out += "&amp;";
        else out += ch;
    }
    return out;
}

}  // namespace detail

/// The same table for a pull request.
inline void write_markdown(std::ostream& out, const comparison& c) {
    const auto rows = detail::table_rows(c);
    for (std::size_t r = 0; r < rows.size(); ++r) {
        for (const std::string& cell : rows[r]) out << "| " << detail::markdown(cell) << ' ';
        out << "|\n";
        if (r != 0) continue;
        for (const bool right : detail::aligned_right(rows[0].size())) out << (right ? "|---:" : "|---");
        out << "|\n";
    }
    out << '\n';
    for (std::size_t i = 1; i < c.arms.size(); ++i) out << detail::markdown(sentence(c, i)) << "  \n";
    out << detail::provenance(c) << '\n';
}

/// One line a sample: arm,round,ns_per_call,spoiled. Names are quoted, quotes in them doubled.
inline void write_csv(std::ostream& out, const comparison& c) {
    out << "arm,round,ns_per_call,spoiled\n";
    for (const arm_result& arm : c.arms) {
        std::string name = arm.name;
        for (std::size_t at = 0; (at = name.find('"', at)) != std::string::npos; at += 2) name.insert(at, 1, '"');
        for (std::size_t i = 0; i < arm.samples.size(); ++i) {
            const std::string ns = detail::json(arm.samples[i]);
            out << '"' << name << "\"," << detail::json(i) << ',' << (ns == "null" ? "" : ns) << ','
                << (arm.spoiled[i] ? 1 : 0) << '\n';
        }
    }
}

/// Everything, all samples included: one JSON object. "spoiled" lists the indices of the samples that something came
/// between.
inline void write_json(std::ostream& out, const comparison& c) {
    using detail::json;
    out << "{\n  \"headwise_comparison\": 1,\n  \"confidence\": " << json(c.confidence)
        << ", \"margin\": " << json(c.margin) << ", \"seed\": \"" << json(c.seed)
        << "\",\n  \"calls_per_epoch\": " << json(c.calls_per_epoch)
        << ", \"epochs_per_block\": " << json(c.epochs_per_block) << ", \"blocks\": " << json(c.blocks)
        << ",\n  \"seconds\": " << json(c.seconds) << ", \"budget_seconds\": " << json(c.budget_seconds)
        << ", \"empty_ns\": " << json(c.empty_ns) << ", \"stolen\": " << json(c.stolen)
        << ", \"stopped\": " << json(c.stopped) << ",\n  \"control\": " << json(c.control)
        << ", \"control_failed\": " << json(c.control_failed) << ",\n  \"notes\": [";
    for (std::size_t i = 0; i < c.notes.size(); ++i) out << (i == 0 ? "" : ", ") << json(c.notes[i]);
    out << "],\n  \"arms\": [\n";
    for (std::size_t i = 0; i < c.arms.size(); ++i) {
        detail::write_json_arm(out, c.arms[i]);
        out << (i + 1 < c.arms.size() ? ",\n" : "\n");
    }
    out << "  ]\n}\n";
}

}  // namespace headwise
