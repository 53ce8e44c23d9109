// A profile's table, written down.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <headwise/harness/profile_table.hpp>
#include <headwise/harness/report.hpp>
#include <headwise/harness/units.hpp>

namespace headwise {
namespace detail {

[[nodiscard]] inline std::string rate_text(const std::optional<double>& rate) { return rate ? rate_text(*rate) : "-"; }

/// "4 KiB in 1": bytes, and in how many calls; "0" for none.
[[nodiscard]] inline std::string memory_text(std::int64_t bytes, std::int64_t calls) {
    return calls == 0 ? "0" : bytes_text(static_cast<double>(bytes)) + " in " + std::to_string(calls);
}

/// A name on one line.
[[nodiscard]] inline std::string printable(std::string text) {
    for (char& ch : text) {
        if (static_cast<unsigned char>(ch) < 0x20 || ch == 0x7F) ch = '?';
    }
    return text;
}

[[nodiscard]] inline std::string part_text(std::int64_t part, std::int64_t all) {
    return all > 0 ? percent_text(static_cast<double>(part) / static_cast<double>(all)) : "-";
}

[[nodiscard]] inline std::string time_text(std::int64_t ns) { return duration_text(static_cast<double>(ns)); }

/// Which columns there are: those of work and of shapes only where a scope told of them, those of memory where it was
/// counted.
struct table_layout {
    bool shape = false, memory = false, work = false, limit = false;

    explicit table_layout(const profile_table& table) {
        for (const profile_row& row : table.rows) {
            shape = shape || !row.shape.empty();
            memory = memory || row.memory;
            work = work || row.done.flops > 0 || row.done.bytes_read > 0 || row.done.bytes_written > 0;
            limit = limit || row.share_of_limit();
        }
    }

    /// The columns that this table has, of those given for all.
    [[nodiscard]] std::vector<std::string> chosen(std::vector<std::string> all) const {
        if (!limit) all.erase(all.begin() + 14);
        if (!work) all.erase(all.begin() + 12, all.begin() + 14);
        if (!memory) all.erase(all.begin() + 10, all.begin() + 12);
        if (!shape) all.erase(all.begin() + 1);
        return all;
    }
};

[[nodiscard]] inline std::vector<std::string> cells_of(const profile_row& row, std::int64_t all_ns) {
    const auto limit = row.share_of_limit();
    return {printable(row.name),
            printable(row.shape),
            std::to_string(row.calls),
            time_text(row.self_ns),
            part_text(row.self_ns, all_ns),
            time_text(row.total_ns),
            part_text(row.total_ns, all_ns),
            duration_text(row.mean_ns()),
            time_text(row.min_ns),
            time_text(row.max_ns),
            row.memory ? memory_text(row.memory->allocated_bytes, row.memory->allocations) : "-",
            row.memory ? memory_text(row.memory->released_bytes, row.memory->releases) : "-",
            rate_text(row.flops_per_second()),
            rate_text(row.bytes_per_second()),
            limit ? percent_text(*limit) : "-"};
}

inline void write_notes(std::ostream& out, const profile_table& table, std::size_t shown) {
    if (shown < table.rows.size()) out << counted(table.rows.size() - shown, "more row") << '\n';
    out << time_text(table.total_ns) << " in all, on " << counted(table.threads, "thread") << '\n';
    if (!table.rows.empty() && !table.rows.front().memory)
        out << "memory: not counted (headwise/harness/memory_hooks.hpp)\n";
    if (table.open > 0)
        out << "note: " << counted(static_cast<std::size_t>(table.open), "run")
            << " had not ended, and counted so far\n";
    if (table.lost > 0)
        out << "note: " << counted(static_cast<std::size_t>(table.lost), "record")
            << " found no room; the time of such scopes is in those around them\n";
}

/// The headings, then the rows that are shown; and which columns are numbers.
struct table_lines {
    std::vector<std::vector<std::string>> lines;
    std::vector<bool> right;
    std::size_t shown;

    /// `share` is what the two columns of shares are called.
    explicit table_lines(const profile_table& table, const char* share = "")
        : shown(table.shown == 0 ? table.rows.size() : std::min(table.shown, table.rows.size())) {
        const table_layout layout(table);
        lines.push_back(layout.chosen({"scope", "shape", "calls", "self", share, "total", share, "mean", "min", "max",
                                       "allocated", "released", "FLOP/s", "bytes/s", "of limit"}));
        for (std::size_t i = 0; i < shown; ++i) lines.push_back(layout.chosen(cells_of(table.rows[i], table.total_ns)));
        right.assign(lines.front().size(), true);
        right[0] = false;
        if (layout.shape) right[1] = false;
    }
};

}  // namespace detail

/// The rows in their order, and what else a reader should know.
inline std::ostream& operator<<(std::ostream& out, const profile_table& table) {
    const detail::table_lines text(table);
    detail::write_columns(out, text.lines, text.right);
    out << '\n';
    detail::write_notes(out, table, text.shown);
    return out;
}

}  // namespace headwise
