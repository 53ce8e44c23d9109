// Today against then. Two runs of a program cannot be compared call by call: the machine, its frequency and the places
// where code and data came to lie are others. What both runs did measure side by side is each arm's speed-up over arm
// 0, so that is what is kept and compared: arm 0 is the control, measured again. It must be the same code in both runs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/atomic_file.hpp>
#include <headwise/error.hpp>
#include <headwise/harness/comparison.hpp>
#include <headwise/harness/report.hpp>
#include <headwise/text_file.hpp>
#include <headwise/harness/verdict.hpp>

namespace headwise {

struct baseline_options {
    double margin = 0.02;        ///< changes of up to this share count as none
    double between_runs = 0.01;  ///< what another layout of code and data may do to a ratio; neither run can see it
};

/// How an arm's speed-up over arm 0 has changed: `change` is now over then; above 1, the arm has become faster.
struct baseline_change {
    std::string name;
    interval then, now;
    std::optional<interval> change;
    headwise::verdict verdict = headwise::verdict::unresolved;
};

struct baseline_report {
    std::string control;                             ///< arm 0
    double control_then_ns = 0, control_now_ns = 0;  ///< shown, not judged
    std::vector<baseline_change> arms;
    std::vector<std::string> notes;
    double confidence = 0;
    baseline_options options;
};

/// Keeps what a comparison found in a small text file, which is replaced whole or not at all. Refuses an empty
/// comparison and a path that cannot be a file; throws `std::runtime_error` when writing fails. What was there then
/// stays as it was.
inline void save_baseline(const std::string& path, const comparison& c) {
    if (c.arms.empty()) detail::refuse("save_baseline: the comparison is empty");
    std::string text = "headwise baseline 1\nconfidence " + detail::json(c.confidence) + '\n';
    for (const arm_result& arm : c.arms) {
        const bool known = arm.speedup && arm.speedup->low > 0 && detail::is_finite_number(arm.speedup->high);
        const interval ratio = known ? *arm.speedup : interval{1, 1, 1};
        if (&arm != c.arms.data() && !known) continue;
        text += "arm " + detail::json(ratio.estimate) + ' ' + detail::json(ratio.low) + ' ' + detail::json(ratio.high) +
                ' ' + detail::json(arm.time.median) + ' ' + arm.name + '\n';
    }
    detail::write_text(path, text);
}

namespace detail {

struct kept_arm {
    std::string name;
    interval speedup{1, 1, 1};
    double median_ns = 0;
};

struct kept_comparison {
    double confidence = 0;
    std::vector<kept_arm> arms;
};

inline kept_comparison read_baseline(const std::string& path) {
    std::istringstream file(read_text(path).value_or(""));
    std::string line;
    if (!std::getline(file, line)) refuse("compare_to_baseline: cannot read " + path);
    if (line != "headwise baseline 1")
        refuse("compare_to_baseline: " + path + " is not a headwise baseline, version 1");
    kept_comparison kept;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        fields.imbue(std::locale::classic());
        std::string word;
        kept_arm arm;
        if (fields >> word && word == "confidence" && fields >> kept.confidence) continue;
        if (word != "arm" ||
            !(fields >> arm.speedup.estimate >> arm.speedup.low >> arm.speedup.high >> arm.median_ns) ||
            !(arm.speedup.low > 0) || fields.get() != ' ' || !std::getline(fields, arm.name)) {
            refuse(std::string("compare_to_baseline: ").append(path).append(": cannot make sense of '") + line + "'");
        }
        kept.arms.push_back(std::move(arm));
    }
    if (kept.arms.empty()) refuse("compare_to_baseline: " + path + " holds no arm");
    return kept;
}

/// ln(now) - ln(then) of two independent ratios, their intervals combined end by end in quadrature (MOVER, Zou & Donner
/// 2008), and opened by `extra` either way.
inline interval log_change(const interval& then, const interval& now, double extra) {
    const double estimate = std::log(now.estimate / then.estimate);
    return {estimate,
            estimate - std::hypot(std::log(now.estimate / now.low), std::log(then.high / then.estimate)) - extra,
            estimate + std::hypot(std::log(now.high / now.estimate), std::log(then.estimate / then.low)) + extra};
}

}  // namespace detail

/// Compares with what `save_baseline` kept. Refuses a file that is not such, one whose arm 0 has another name, and one
/// whose intervals hold with another confidence.
[[nodiscard]] inline baseline_report compare_to_baseline(const comparison& c, const std::string& path,
                                                         const baseline_options& options = {}) {
    const auto [confidence, kept] = detail::read_baseline(path);
    if (c.arms.empty() || c.arms.front().name != kept.front().name) {
        detail::refuse("compare_to_baseline: arm 0 was '" + kept.front().name + "', and is '" +
                       (c.arms.empty() ? "" : c.arms.front().name) + "': the control must be the same code");
    }
    if (confidence != c.confidence) {
        detail::refuse("compare_to_baseline: the intervals in " + path + " hold with " +
                       detail::confidence_text(confidence) + " confidence, those of this comparison with " +
                       detail::confidence_text(c.confidence) + ": only intervals of one confidence combine");
    }
    baseline_report report;
    report.control = kept.front().name;
    report.control_then_ns = kept.front().median_ns;
    report.control_now_ns = c.arms.front().time.median;
    report.confidence = c.confidence;
    report.options = options;
    for (std::size_t i = 1; i < c.arms.size(); ++i) {
        const arm_result& arm = c.arms[i];
        const auto then =
            std::find_if(kept.begin(), kept.end(), [&](const detail::kept_arm& old) { return old.name == arm.name; });
        if (then == kept.end()) {
            report.notes.push_back(arm.name +
                                   " has no speed-up in the baseline: it is new, or was wrong or not measured then");
        } else if (!arm.speedup || !(arm.speedup->low > 0)) {
            const bool wrong = arm.verdict == verdict::mismatch;
            report.arms.push_back({arm.name, then->speedup, {}, {}, wrong ? verdict::mismatch : verdict::unresolved});
        } else {
            const interval change = detail::log_change(then->speedup, *arm.speedup, std::log1p(options.between_runs));
            report.arms.push_back({arm.name, then->speedup, *arm.speedup, detail::exponential(change),
                                   detail::verdict_of(change, options.margin, 0)});
        }
    }
    for (const detail::kept_arm& arm : kept) {
        const auto named = [&](const arm_result& now) { return now.name == arm.name; };
        if (std::any_of(c.arms.begin(), c.arms.end(), named)) continue;
        report.notes.push_back(arm.name + " is gone: it was not measured");
    }
    return report;
}

inline std::ostream& operator<<(std::ostream& out, const baseline_report& r) {
    const std::string level = detail::confidence_text(r.confidence) + " interval";
    std::vector<std::vector<std::string>> rows{{"arm", "then", "now", "change", level, "verdict"}};
    for (const baseline_change& arm : r.arms) {
        const auto [change, range] = detail::speedup_cells(arm.change);
        const std::string now = arm.change ? detail::ratio_text(arm.now).estimate : "-";
        rows.push_back({arm.name, detail::ratio_text(arm.then).estimate, now, change, range, text_of(arm.verdict)});
    }
    detail::write_columns(out, rows, {false, true, true, true, true, false});
    out << "\nspeed-ups over " << r.control << ", which is taken to be the same code ("
        << detail::duration_text(r.control_then_ns) << " then, " << detail::duration_text(r.control_now_ns)
        << " now);\nanother layout of code and data is taken to shift a ratio by up to "
        << detail::percent_text(r.options.between_runs) << '\n';
    for (const std::string& note : r.notes) out << "note: " << note << '\n';
    return out;
}

}  // namespace headwise
