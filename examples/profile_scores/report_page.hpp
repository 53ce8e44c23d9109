// What profile_scores shows on a page: the findings under the limits of the machine that they were made on.
#pragma once

#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/machine_file.hpp>
#include <headwise/harness/page_profile.hpp>
#include <headwise/headwise.hpp>

#include "options.hpp"
#include "report.hpp"

namespace profile_scores {

/// The machine's peaks with one thread, the loop's, and with those of the fused routine; from the file if one is named.
inline headwise::machine_report machine_for(const options& o) {
    const int threads = o.scores.threads == 0 ? headwise::detail::hardware_threads() : o.scores.threads;
    const headwise::machine_options asked{.threads = {1, threads}};
    if (o.machine_file.empty()) return headwise::measure_machine(asked);
    headwise::known_machine known = headwise::recall_machine(o.machine_file, asked);
    std::cerr << "profile_scores: " << known.note << '\n';
    return std::move(known.report);
}

inline headwise::work work_of(const headwise::profile_result& r) {
    const auto b = static_cast<double>(r.b), h = static_cast<double>(r.h), l = static_cast<double>(r.l);
    const auto m = static_cast<double>(r.m), d = static_cast<double>(r.d);
    return {2 * b * h * l * m * d, sizeof(float) * b * h * (l + m) * d, sizeof(float) * b * h * l * m};
}

inline std::string shape_of(const headwise::profile_result& r) {
    std::string text(1, '(');
    for (const std::ptrdiff_t n : {r.b, r.h, r.l, r.m, r.d}) text += std::to_string(n) + ", ";
    return text.replace(text.size() - 2, 2, ")");
}

/// One operation of each implementation, none where nothing was timed.
inline std::vector<headwise::roofline_point> operations_of(const finding& f, const headwise::machine_report& machine) {
    const headwise::profile_result& r = f.result;
    const headwise::work work = work_of(r);
    const double bytes = work.bytes_read + work.bytes_written;
    if (!(work.flops > 0)) return {};
    return {{f.name + " loop", work, r.loop_median_ms / 1e3, machine.limits<float>(bytes, 1)},
            {f.name + " vectorized", work, r.vectorized_median_ms / 1e3, machine.limits<float>(bytes, r.threads)}};
}

inline headwise::page_case case_of(const finding& f, const headwise::machine_report& machine) {
    const headwise::profile_result& r = f.result;
    const std::string calls = r.calls == 1 ? " runs" : " runs of " + std::to_string(r.calls) + " calls";
    headwise::comparison found = r.comparison;
    if (r.outputs_match && !r.speedup) {  // nothing was computed, so nothing was fast
        found.arms[1].verdict = headwise::verdict::unresolved;
        found.arms[1].speedup.reset();
        found.arms[1].reason = "there are no outputs";
    }
    return {.name = f.name,
            .remark = "(B, H, L, M, D) = " + shape_of(r) + "; " + std::to_string(r.runs) + calls +
                      " each; vectorized: " + std::string(headwise::to_string(r.isa)) + ", " +
                      headwise::detail::threads_text(r.threads),
            .comparison = std::move(found),
            .agreement = r.agreement.text(),
            .operations = operations_of(f, machine)};
}

inline std::string page(const std::vector<finding>& findings, const headwise::machine_report& machine, format as) {
    std::ostringstream text;
    if (as == format::svg) {
        std::vector<headwise::roofline_point> operations;
        for (const finding& f : findings) {
            for (headwise::roofline_point& p : operations_of(f, machine)) operations.push_back(std::move(p));
        }
        headwise::write_svg(text, operations);
        return text.str();
    }
    std::vector<headwise::page_case> cases;
    for (const finding& f : findings) cases.push_back(case_of(f, machine));
    headwise::write_html(text, cases,
                         {.title = "Attention scores, loop against vectorized",
                          .machine = &machine,
                          .footer = "headwise " HEADWISE_EXAMPLE_VERSION ", profile_scores"});
    return text.str();
}

}  // namespace profile_scores
