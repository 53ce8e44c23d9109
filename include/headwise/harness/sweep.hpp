// The same comparison for a list of parameters: one table, one confidence for all of it, and where the winner changes.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/compare.hpp>
#include <headwise/harness/number_text.hpp>
#include <headwise/harness/report.hpp>

namespace headwise {

struct sweep_point {
    std::string label;
    double parameter = 0;  ///< the parameter's value if it is a number, else its place in the list
    comparison result;
};

/// Where an arm's speed-up passes 1: it is on one side of it for sure at `before`, on the other for sure at `after`.
struct crossover {
    std::string arm;
    double before, after;
    double estimate;  ///< where the line between the two, in ln(parameter) (or, at or below zero, parameter), is at 1
    bool faster_after;
    std::string before_label, after_label;  ///< of the two points
};

struct sweep_result {
    std::string parameter;
    double confidence = 0;
    std::vector<sweep_point> points;

    /// The crossovers of every arm against arm 0, in the order of the points. Points without a clear winner are
    /// bridged.
    [[nodiscard]] std::vector<crossover> crossovers() const {
        std::vector<crossover> found;
        const std::size_t arms = points.empty() ? 0 : points.front().result.arms.size();
        for (std::size_t i = 1; i < arms; ++i) {
            const sweep_point* last = nullptr;
            for (const sweep_point& point : points) {
                const arm_result& arm = point.result.arms.at(i);
                if (arm.verdict != verdict::faster && arm.verdict != verdict::slower) continue;
                if (last != nullptr && last->result.arms[i].verdict != arm.verdict) {
                    found.push_back({arm.name, last->parameter, point.parameter, between(*last, point, i),
                                     arm.verdict == verdict::faster, last->label, point.label});
                }
                last = &point;
            }
        }
        return found;
    }

private:
    static double between(const sweep_point& a, const sweep_point& b, std::size_t i) {
        const double at_a = std::log(a.result.arms[i].speedup->estimate),
                     at_b = std::log(b.result.arms[i].speedup->estimate);
        const double share = at_a / (at_a - at_b);
        if (a.parameter > 0 && b.parameter > 0) return a.parameter * std::pow(b.parameter / a.parameter, share);
        return std::lerp(a.parameter, b.parameter, share);
    }
};

namespace detail {

/// How a point is called: a number by the fewest digits that read back as it, all else as it prints itself.
template <class Value>
[[nodiscard]] std::string label_of(const Value& value) {
    if constexpr (std::is_floating_point_v<Value>) {
        char buffer[64];
        return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
    } else {
        std::ostringstream label;
        label.imbue(std::locale::classic());
        label << value;
        return label.str();
    }
}

/// Are the sweep's parameters numbers, and not places in a list?
[[nodiscard]] inline bool numeric(const sweep_result& s) {
    return s.points.size() > 1 && std::all_of(s.points.begin(), s.points.end(), [](const sweep_point& point) {
               const auto value = number_in(point.label);
               return value && std::abs(*value - point.parameter) <= 1e-4 * std::abs(*value);
           });
}

/// "fused becomes faster than loop between n = 16 and 64, about 23.5"; where the points are no numbers, that is all.
[[nodiscard]] inline std::string crossover_text(const sweep_result& s, const crossover& x) {
    std::string text = x.arm + " becomes " + (x.faster_after ? "faster" : "slower") + " than " +
                       s.points.front().result.arms.front().name + " between " + s.parameter + " = " + x.before_label +
                       " and " + x.after_label;
    if (numeric(s)) text += ", about " + label_of(number_in(general(x.estimate, 3)).value_or(x.estimate));
    return text;
}

}  // namespace detail

/// Calls `compare_at(value, options)` for each of `values`; it makes its arms and returns `compare(options, arms...)`.
/// The budget and the permitted error are shared out evenly: the confidence holds for the whole table.
///
///     const auto result = sweep({.budget = 5s}, "n", {16, 64, 256}, [](int n, const compare_options& o) {
///         return compare(o, arm{"map", ...}, arm{"vector", ...});
///     });
template <class Values, class CompareAt>
    requires requires(const Values& values) { std::size(values), std::begin(values), std::end(values); }
[[nodiscard]] sweep_result sweep(const compare_options& options, std::string parameter, const Values& values,
                                 CompareAt&& compare_at) {
    const std::size_t count = std::size(values);
    if (count == 0) detail::refuse("sweep: the list of values of " + parameter + " is empty");
    compare_options each = options;
    each.budget /= static_cast<std::int64_t>(count);
    each.confidence = 1 - (1 - options.confidence) / static_cast<double>(count);
    sweep_result result{std::move(parameter), options.confidence, {}};
    for (const auto& value : values) {
        double number = static_cast<double>(result.points.size());
        if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) number = static_cast<double>(value);
        result.points.push_back({detail::label_of(value), number, compare_at(value, std::as_const(each))});
    }
    return result;
}

template <class Value, class CompareAt>
[[nodiscard]] sweep_result sweep(const compare_options& options, std::string parameter,
                                 std::initializer_list<Value> values, CompareAt&& compare_at) {
    return sweep(options, std::move(parameter), std::vector<Value>(values), std::forward<CompareAt>(compare_at));
}

inline std::ostream& operator<<(std::ostream& out, const sweep_result& sweep) {
    if (sweep.points.empty()) return out;
    const std::vector<arm_result>& arms = sweep.points.front().result.arms;
    std::vector<std::vector<std::string>> rows{{sweep.parameter, arms.front().name}};
    std::vector<bool> right{true, true};
    for (std::size_t i = 1; i < arms.size(); ++i) {
        rows[0].insert(rows[0].end(), {arms[i].name, "speed-up", "interval", "verdict"});
        right.insert(right.end(), {true, true, true, false});
    }
    for (const sweep_point& point : sweep.points) {
        std::vector<std::string> row{point.label, detail::duration_text(point.result.arms.front().time.median)};
        for (std::size_t i = 1; i < point.result.arms.size(); ++i) {
            const arm_result& arm = point.result.arms[i];
            const auto cells = detail::speedup_cells(arm.speedup);
            row.insert(row.end(), {detail::duration_text(arm.time.median), cells[0], cells[1], text_of(arm.verdict)});
        }
        rows.push_back(std::move(row));
    }
    detail::write_columns(out, rows, right);
    out << "\nall intervals together hold at " << detail::confidence_text(sweep.confidence) << '\n';
    for (const crossover& x : sweep.crossovers()) out << detail::crossover_text(sweep, x) << '\n';
    return out;
}

}  // namespace headwise
