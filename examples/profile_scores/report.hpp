// What profile_scores prints: the same results as a table, JSON lines, CSV or Markdown.
#pragma once

#include <cmath>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/headwise.hpp>

#include "options.hpp"

namespace profile_scores {

struct finding {
    std::string name;  // of the case; plain letters
    headwise::profile_result result;
};

/// Six significant digits in any locale; "null" for what is no number.
inline std::string number(std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return "null";
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << *value;
    return text.str();
}

inline std::string index_of(const headwise::profile_result& r) {
    if (!r.greatest_difference_at) return "null";
    const auto& at = *r.greatest_difference_at;
    return '[' + std::to_string(at[0]) + ',' + std::to_string(at[1]) + ',' + std::to_string(at[2]) + ',' +
           std::to_string(at[3]) + ']';
}

/// The fields after name and shape, in the order printed, as JSON values.
inline std::vector<std::pair<std::string, std::string>> fields(const headwise::profile_result& r) {
    return {{"loop_ms", number(r.loop_ms)},
            {"vectorized_ms", number(r.vectorized_ms)},
            {"outputs_match", r.outputs_match ? "true" : "false"},
            {"speedup", number(r.speedup)},
            {"isa", in_quotes(headwise::to_string(r.isa))},
            {"threads", std::to_string(r.threads)},
            {"runs", std::to_string(r.runs)},
            {"loop_median_ms", number(r.loop_median_ms)},
            {"loop_minimum_ms", number(r.loop_minimum_ms)},
            {"vectorized_median_ms", number(r.vectorized_median_ms)},
            {"vectorized_minimum_ms", number(r.vectorized_minimum_ms)},
            {"loop_gflops", number(r.loop_gflops)},
            {"vectorized_gflops", number(r.vectorized_gflops)},
            {"greatest_difference", number(r.greatest_difference)},
            {"greatest_difference_at", index_of(r)},
            {"mismatches", std::to_string(r.agreement.mismatches)}};
}

inline std::string json(const std::vector<finding>& findings) {
    std::string text;
    for (const auto& [name, r] : findings) {
        text += "{\"case\": " + in_quotes(name) + ", \"shape\": {\"b\": " + std::to_string(r.b) +
                ", \"h\": " + std::to_string(r.h) + ", \"l\": " + std::to_string(r.l) +
                ", \"m\": " + std::to_string(r.m) + ", \"d\": " + std::to_string(r.d) + '}';
        for (const auto& [key, value] : fields(r)) text += ", " + in_quotes(key) + ": " + value;
        text += "}\n";
    }
    return text;
}

/// A JSON value as a CSV cell: bare words, nothing for null, an index's numbers apart by spaces.
inline std::string cell(const std::string& value) {
    std::string text;
    if (value == "null") return text;
    for (const char c : value)
        if (c == ',') text += ' ';
        else if (c != '"' && c != '[' && c != ']') text += c;
    return text;
}

inline std::string csv(const std::vector<finding>& findings) {
    std::string text = "case,b,h,l,m,d";
    for (const auto& field : fields({})) text += ',' + field.first;
    text += '\n';
    for (const auto& [name, r] : findings) {
        text += name;
        for (const std::ptrdiff_t extent : {r.b, r.h, r.l, r.m, r.d}) text += ',' + std::to_string(extent);
        for (const auto& field : fields(r)) text += ',' + cell(field.second);
        text += '\n';
    }
    return text;
}

inline std::string markdown(const std::vector<finding>& findings) {
    std::string text =
        "| case | B, H, L, M, D | loop, median ms | vectorized, median ms | speed-up | outputs match "
        "| greatest difference | isa | threads | runs |\n"
        "|---|---|---:|---:|---:|---|---:|---|---:|---:|\n";
    for (const auto& [name, r] : findings) {
        const std::string cells[] = {
            name,
            std::to_string(r.b) + ", " + std::to_string(r.h) + ", " + std::to_string(r.l) + ", " + std::to_string(r.m) +
                ", " + std::to_string(r.d),
            number(r.loop_median_ms),
            number(r.vectorized_median_ms),
            r.speedup ? number(r.speedup) : "-",
            r.outputs_match ? "yes" : "**no**",
            number(r.greatest_difference),
            std::string(headwise::to_string(r.isa)),
            std::to_string(r.threads),
            std::to_string(r.runs)};
        for (const auto& value : cells) text += "| " + value + ' ';
        text += "|\n";
    }
    return text;
}

inline std::string table(const std::vector<finding>& findings) {
    std::ostringstream text;
    for (const auto& [name, result] : findings)
        text << (&name == &findings.front().name ? "" : "\n") << name << ": " << result;
    return text.str();
}

inline std::string rendered(const std::vector<finding>& findings, format as) {
    switch (as) {
        case format::json: return json(findings);
        case format::csv: return csv(findings);
        case format::markdown: return markdown(findings);
        case format::html:
        case format::svg:  // report_page.hpp's
        case format::table: break;
    }
    return table(findings);
}

}  // namespace profile_scores
