// Recordings, summed up: which scopes took the time, and the memory, and how near they come to the machine's limits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <headwise/harness/recording.hpp>
#include <headwise/harness/work.hpp>

namespace headwise {

/// One line of a table: all runs of the scopes of one name (and shape).
///
/// A scope inside another of the same row (recursion) is a call and has its self time, but `total_ns`, `memory`, `done`
/// and `limit_seconds` count the outer one alone: nothing is counted twice.
struct profile_row {
    std::string name, shape;
    std::int64_t calls = 0;
    std::int64_t self_ns = 0;  ///< outside of the scopes inside
    std::int64_t total_ns = 0;
    std::int64_t runs_ns = 0;  ///< the runs' lengths, added up: more than `total_ns` where there is recursion
    std::int64_t min_ns = 0, max_ns = 0;              ///< of one run
    std::optional<memory_count> memory, self_memory;  ///< inside, and outside of the scopes inside; empty: not counted
    work done;                                        ///< as the scopes were told
    /// The least that the machine's limits leave for that work. 0, infinite or NaN: not known, as of bytes where the
    /// limits are of flops alone.
    double limit_seconds = 0;

    [[nodiscard]] double mean_ns() const noexcept { return static_cast<double>(runs_ns) / static_cast<double>(calls); }
    [[nodiscard]] std::optional<double> flops_per_second() const noexcept { return rate(done.flops); }
    [[nodiscard]] std::optional<double> bytes_per_second() const noexcept {
        return rate(done.bytes_read + done.bytes_written);
    }
    /// 1 is as fast as can be.
    [[nodiscard]] std::optional<double> share_of_limit() const noexcept { return rate(limit_seconds); }

private:
    [[nodiscard]] std::optional<double> rate(double amount) const noexcept {
        if (!(amount > 0) || !std::isfinite(amount) || total_ns <= 0) return std::nullopt;
        return amount / (static_cast<double>(total_ns) * 1e-9);
    }
};

enum class profile_grouping { name, name_and_shape };

/// What a table is sorted by: the largest first, what is not known last; `name` alphabetically.
enum class profile_column {
    self,
    total,
    calls,
    mean,
    min,
    max,
    allocated_bytes,
    allocations,
    released_bytes,
    releases,
    flops_per_second,
    bytes_per_second,
    share_of_limit,
    name
};

struct table_options {
    profile_grouping grouping = profile_grouping::name;
    profile_column sort = profile_column::self;
    std::optional<machine_limits> limits = std::nullopt;  ///< of one thread, since a scope is: `measure_machine`
    std::size_t rows = 0;                                 ///< print so many; 0: all
};

/// A table that prints itself. The sum of `self_ns` over the rows is `total_ns`, exactly.
struct profile_table {
    std::vector<profile_row> rows;
    std::int64_t total_ns = 0;  ///< of the scopes that no other is around, over all threads
    std::size_t threads = 0;    ///< that recorded a scope
    std::int64_t open = 0;      ///< runs that had not ended, counted up to the cut
    std::uint64_t lost = 0;     ///< runs and values beyond `profile_options::most_events`
    std::size_t shown = 0;      ///< rows to print; 0: all

    /// The row of that name (the first, of several shapes). Refuses a name that has none.
    [[nodiscard]] const profile_row& operator[](std::string_view name) const {
        for (const profile_row& row : rows) {
            if (row.name == name) return row;
        }
        detail::refuse("profile_table: there is no scope '" + std::string(name) + "'");
    }
};

namespace detail {

/// The rows by their names: first by the pointers, which are few, then by the texts behind them.
class row_index {
public:
    [[nodiscard]] std::size_t find(const char* name, const char* shape, std::vector<profile_row>& rows) {
        const key wanted{name, shape, 0};
        auto place = std::lower_bound(keys_.begin(), keys_.end(), wanted, [](const key& a, const key& b) {
            return std::less<>{}(std::pair(a.name, a.shape), std::pair(b.name, b.shape));
        });
        if (place == keys_.end() || place->name != name || place->shape != shape)
            place = keys_.insert(place, {name, shape, row_of(name, shape == nullptr ? "" : shape, rows)});
        return place->row;
    }

private:
    struct key {
        const char *name, *shape;
        std::size_t row;
    };

    [[nodiscard]] std::size_t row_of(std::string_view name, std::string_view shape, std::vector<profile_row>& rows) {
        const auto place = std::lower_bound(
            by_text_.begin(), by_text_.end(), std::pair(name, shape), [&](std::size_t row, const auto& wanted) {
                return std::pair<std::string_view, std::string_view>(rows[row].name, rows[row].shape) < wanted;
            });
        if (place != by_text_.end() && rows[*place].name == name && rows[*place].shape == shape) return *place;
        by_text_.insert(place, rows.size());
        rows.emplace_back();
        rows.back().name = name;
        rows.back().shape = shape;
        return rows.size() - 1;
    }

    std::vector<key> keys_;             // sorted by pointers
    std::vector<std::size_t> by_text_;  // rows, sorted by texts
};

/// What lies inside a thread's runs, from the last to the first: a run's own stand before what is inside it.
template <class Value, class Of>
std::vector<Value> inside_of(const std::vector<scope_run>& runs, const Of& of) {
    std::vector<Value> inside(runs.size());
    for (std::size_t i = runs.size(); i-- > 0;) {
        if (runs[i].parent != none) inside[runs[i].parent] += of(i, inside[i]);
    }
    return inside;
}

class tabulation {
public:
    explicit tabulation(const table_options& options) : options_(options) {}

    void add(const recording& recorded) {
        for (const thread_recording& thread : recorded.threads) {
            table_.lost += thread.lost;
            if (thread.runs.empty()) continue;
            threads_.push_back(thread.number);
            add_times(thread);
            if (recorded.memory_counted) add_memory(thread);
        }
    }

    [[nodiscard]] profile_table finish() {
        std::sort(threads_.begin(), threads_.end());
        table_.threads = static_cast<std::size_t>(std::unique(threads_.begin(), threads_.end()) - threads_.begin());
        table_.shown = options_.rows;
        return std::move(table_);
    }

private:
    /// Calls f(i, row, is_outermost) for each run: outermost unless a run of the same row is around it.
    template <class F>
    void for_each_run(const thread_recording& thread, const F& f) {
        struct frame {
            std::size_t run, row;
        };
        std::vector<frame> around;
        std::vector<int> depth;  // how many runs of a row are around
        for (std::size_t i = 0; i < thread.runs.size(); ++i) {
            const scope_run& run = thread.runs[i];
            while (!around.empty() && around.back().run != run.parent) {
                --depth[around.back().row];
                around.pop_back();
            }
            const bool by_shape = options_.grouping == profile_grouping::name_and_shape;
            const std::size_t row = index_.find(run.name, by_shape ? run.shape : nullptr, table_.rows);
            depth.resize(table_.rows.size(), 0);
            f(i, table_.rows[row], depth[row]++ == 0);
            around.push_back({i, row});
        }
    }

    void add_times(const thread_recording& thread) {
        const auto& runs = thread.runs;
        const auto inside =
            inside_of<std::int64_t>(runs, [&](std::size_t i, std::int64_t) { return runs[i].duration(); });
        for_each_run(thread, [&](std::size_t i, profile_row& row, bool is_outermost) {
            const std::int64_t ns = runs[i].duration();
            row.min_ns = row.calls == 0 ? ns : std::min(row.min_ns, ns);
            row.max_ns = row.calls == 0 ? ns : std::max(row.max_ns, ns);
            ++row.calls;
            row.runs_ns += ns;
            row.self_ns += ns - inside[i];
            if (runs[i].parent == none) table_.total_ns += ns;
            if (runs[i].open) ++table_.open;
            if (!is_outermost) return;
            row.total_ns += ns;
            if (runs[i].extra != none) add_work(row, thread.details[runs[i].extra].done);
        });
    }

    void add_work(profile_row& row, const work& done) const {
        row.done.flops += done.flops;
        row.done.bytes_read += done.bytes_read;
        row.done.bytes_written += done.bytes_written;
        if (options_.limits) row.limit_seconds += limit_of(done, *options_.limits).seconds;
    }

    /// Of a run that is still open as much is known as the runs inside it tell.
    void add_memory(const thread_recording& thread) {
        const auto& runs = thread.runs;
        const auto total = [&](std::size_t i, const memory_count& inside) {
            return runs[i].open || runs[i].extra == none ? inside : thread.details[runs[i].extra].memory;
        };
        const auto inside = inside_of<memory_count>(runs, total);
        for_each_run(thread, [&](std::size_t i, profile_row& row, bool is_outermost) {
            memory_count all = total(i, inside[i]), self = all;
            self -= inside[i];
            if (!row.memory) row.memory.emplace(), row.self_memory.emplace();
            *row.self_memory += self;
            if (is_outermost) *row.memory += all;
        });
    }

    table_options options_;
    profile_table table_;
    row_index index_;
    std::vector<int> threads_;
};

/// What a row has in a column; empty where that is not known.
[[nodiscard]] inline std::optional<double> cell(const profile_row& row, profile_column column) {
    const auto count = [](std::int64_t n) { return std::optional(static_cast<double>(n)); };
    const auto memory = [&](std::int64_t memory_count::*field) {
        return row.memory ? count((*row.memory).*field) : std::nullopt;
    };
    switch (column) {
        case profile_column::self:
            return count(row.self_ns);
        case profile_column::total:
            return count(row.total_ns);
        case profile_column::calls:
            return count(row.calls);
        case profile_column::mean:
            return row.mean_ns();
        case profile_column::min:
            return count(row.min_ns);
        case profile_column::max:
            return count(row.max_ns);
        case profile_column::allocated_bytes:
            return memory(&memory_count::allocated_bytes);
        case profile_column::allocations:
            return memory(&memory_count::allocations);
        case profile_column::released_bytes:
            return memory(&memory_count::released_bytes);
        case profile_column::releases:
            return memory(&memory_count::releases);
        case profile_column::flops_per_second:
            return row.flops_per_second();
        case profile_column::bytes_per_second:
            return row.bytes_per_second();
        case profile_column::share_of_limit:
            return row.share_of_limit();
        case profile_column::name:
            break;
    }
    return std::nullopt;
}

inline void sort_rows(profile_table& table, profile_column column) {
    std::sort(table.rows.begin(), table.rows.end(), [&](const profile_row& a, const profile_row& b) {
        const auto x = cell(a, column), y = cell(b, column);
        if (x != y) return x > y;  // an empty optional is less than any number
        return std::tie(a.name, a.shape) < std::tie(b.name, b.shape);
    });
}

}  // namespace detail

/// Sums recordings up. They are left as they are.
[[nodiscard]] inline profile_table tabulate(const std::vector<recording>& recordings,
                                            const table_options& options = {}) {
    detail::tabulation sum(options);
    for (const recording& one : recordings) sum.add(one);
    profile_table table = sum.finish();
    detail::sort_rows(table, options.sort);
    return table;
}

}  // namespace headwise
