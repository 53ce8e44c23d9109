// The main job: run the readable and the fused implementation on the same tensors, prove that they agree, time both.
// The one bridge between the operation and the harness: a `compare` of two arms.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iomanip>
#include <limits>
#include <locale>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headwise/contract.hpp>
#include <headwise/harness/agreement.hpp>
#include <headwise/harness/compare.hpp>
#include <headwise/harness/timer.hpp>
#include <headwise/parallel.hpp>
#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

/// What one call of one implementation took, over all timed calls; milliseconds of wall time.
struct call_times {
    double mean = 0, minimum = 0, median = 0;
};

/// What `profile_and_compare` found out. Prints itself as a small table.
struct profile_result {
    double loop_ms = 0;        ///< Mean time of a call of `batched_scores_loop`.
    double vectorized_ms = 0;  ///< Mean time of a call of `batched_scores_vectorized`.
    bool outputs_match = false;

    /// How many times as fast the vectorized one is: the loop's time divided by that of the vectorized run right beside
    /// it, and of those ratios the centre (Hodges and Lehmann: the median of all pairs' means, in logarithms). Not
    /// loop_ms / vectorized_ms: an interruption distorts a mean, not that.
    /// Empty when the outputs do not match, or there are none: wrong answers have no speed. Its interval and its
    /// verdict are in `comparison`.
    std::optional<double> speedup;
    headwise::comparison comparison;  ///< Arms "loop" and "vectorized": all samples, the interval, the verdict.

    double loop_minimum_ms = 0, loop_median_ms = 0;
    double vectorized_minimum_ms = 0, vectorized_median_ms = 0;

    /// 2·B·H·L·M·D operations over the median time of a call, in 1e9 per second.
    double loop_gflops = 0, vectorized_gflops = 0;

    /// The greatest |vectorized - loop| and its index (b, h, l, m); among the wrong outputs, if there are any. NaN
    /// where all that is wrong is NaN or infinite. No index when there are no outputs, or no difference.
    double greatest_difference = 0;
    std::optional<std::array<std::ptrdiff_t, 4>> greatest_difference_at;
    close_report agreement;  ///< The whole of the answer: how many differ, by how much, and what that looks like.

    std::ptrdiff_t b = 0, h = 0, l = 0, m = 0, d = 0;  ///< q is (b, h, l, d), k is (b, h, m, d).
    int runs = 0;                                      ///< Timed runs of each, ...
    std::size_t calls = 1;                             ///< ... of so many calls; times are those of one call.
    headwise::isa isa = headwise::isa::automatic;      ///< What the vectorized one ran on.
    int threads = 1;                                   ///< What it was given; the loop has one.
};

namespace detail {

/// Of times in nanoseconds.
[[nodiscard]] inline call_times summary_of(std::vector<double> times) {
    if (times.empty()) return {};
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (const double time : times) sum += time;
    const std::size_t n = times.size();
    return {sum / static_cast<double>(n) / 1e6, times.front() / 1e6, (times[(n - 1) / 2] + times[n / 2]) / 2e6};
}

/// How far two correct results may lie apart: max(1e-5 + 1e-5·|expected|, 2·γ_D·‖q_l‖·‖k_m‖), γ_D = D·u / (1 - D·u).
///
/// The first is PyTorch's rule with rtol = atol = 1e-5. The second is what rounding alone can do, see `tolerance::dot`:
/// plain 1e-5 rejects correct outputs from D = 128 on.
template <class Scalar>
[[nodiscard]] tolerance scores_tolerance(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k) {
    return tolerance::dot(q, k).at_least({.rtol = 1e-5, .atol = 1e-5});
}

/// Takes a report on the outputs into `result`: the last, or the first that found something.
inline void take_agreement(profile_result& result, close_report report) {
    if (result.agreement.total != 0 && !result.agreement.matches) return;
    result.greatest_difference = 0, result.greatest_difference_at.reset();
    if (report.greatest_absolute && report.greatest_absolute->absolute > 0) {
        result.greatest_difference = report.greatest_absolute->absolute;
        result.greatest_difference_at = report.greatest_absolute->index;
    } else if (report.mismatches > 0) {
        result.greatest_difference = std::numeric_limits<double>::quiet_NaN();
        result.greatest_difference_at = report.first[0].index;
    }
    result.agreement = std::move(report);
}

/// Takes what was measured into `result`, which knows the shape.
inline void take_comparison(profile_result& result, comparison found) {
    const call_times loop = summary_of(found.arms[0].samples), fused = summary_of(found.arms[1].samples);
    result.loop_ms = loop.mean, result.vectorized_ms = fused.mean;
    result.loop_minimum_ms = loop.minimum, result.loop_median_ms = loop.median;
    result.vectorized_minimum_ms = fused.minimum, result.vectorized_median_ms = fused.median;

    double outputs = 1;  // in double: the extents of an empty output may be of any size
    for (const std::ptrdiff_t extent : {result.b, result.h, result.l, result.m}) outputs *= static_cast<double>(extent);
    const double gflop = 2e-9 * outputs * static_cast<double>(result.d);
    if (loop.median > 0) result.loop_gflops = gflop / (loop.median / 1e3);
    if (fused.median > 0) result.vectorized_gflops = gflop / (fused.median / 1e3);
    result.outputs_match = found.arms[1].verdict != verdict::mismatch;
    if (outputs > 0 && found.arms[1].speedup) result.speedup = found.arms[1].speedup->estimate;
    result.comparison = std::move(found);
}

/// A clock reading costs some 25 ns and counts in steps of up to 10: a run is a row of calls, if they are so short.
inline constexpr double shortest_run_ms = 0.02;

/// `profile_and_compare` for any two `f(q, k, out)` whose results must be the scores.
template <class Scalar, class Loop, class Fused, class Progress>
[[nodiscard]] profile_result profile_pair(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k,
                                          Loop&& loop, Fused&& fused, int num_runs, Progress&& progress) {
    check_scores_inputs(q.shape(), k.shape());
    if (num_runs <= 0)
        refuse(std::string("num_runs ") + std::to_string(num_runs) + ": at least one timed run is needed");

    profile_result result;
    result.b = q.shape()[0], result.h = q.shape()[1], result.l = q.shape()[2], result.d = q.shape()[3];
    result.m = k.shape()[2];
    result.runs = num_runs;

    // What they refuse, they refuse here: `compare` would wrap it. It also overwrites the outputs with NaN, so that an
    // element nobody wrote is seen.
    const shape4 out_shape = scores_shape(q.shape(), k.shape());
    tensor<Scalar> loop_out(out_shape, uninitialized), fused_out(out_shape, uninitialized);
    loop(q, k, loop_out);
    fused(q, k, fused_out);
    const timer one_call;
    fused(q, k, fused_out);
    result.calls = static_cast<std::size_t>(std::max(1.0, shortest_run_ms / std::max(1e-5, one_call.elapsed_ms())));

    const tolerance allowed = scores_tolerance(q, k);
    const auto agree = [&](const auto& actual, const auto& expected) {
        take_agreement(result, close_report(actual, expected, allowed));
        return result.agreement.matches;
    };
    compare_options options{.inputs = {q, k}, .calls = result.calls, .rounds = static_cast<std::size_t>(num_runs)};
    options.progress = [&](std::size_t done, std::size_t) { progress(static_cast<int>(done), num_runs); };
    const auto writing = [&](auto& f, tensor<Scalar>& out) {
        return [&] {
            f(q, k, out);
            return out.view();
        };
    };
    take_comparison(result, compare(options, agree, arm{"loop", writing(loop, loop_out)},
                                    arm{"vectorized", writing(fused, fused_out)}));
    return result;
}

}  // namespace detail

/// Runs `batched_scores_loop` and `batched_scores_vectorized` on q (B, H, L, D) and k (B, H, M, D): checks that the
/// outputs agree, warms up until the times settle, times `num_runs` calls of each (rows of calls, where they are
/// shorter than some 20 us), interleaved in random order, into outputs allocated beforehand, and checks again.
/// Disagreement is an answer, not an error: `outputs_match` is false, `speedup` empty.
///
/// `options` are those of the vectorized one; the loop has no `scale`, so it must be 1. `progress(done, total)` is
/// called after each round, outside the timing. Memory: two outputs and a copy of the loop's. Throws
/// `std::invalid_argument` for q and k that do not fit each other, num_runs <= 0, and options that
/// `batched_scores_vectorized` refuses.
template <class Q, class K, class Progress>
    requires same_scalar<Q, K> && std::invocable<Progress&, int, int>
[[nodiscard]] profile_result profile_and_compare(const Q& q, const K& k, int num_runs, const scores_options& options,
                                                 Progress&& progress) {
    using scalar = scalar_of<Q>;
    if (static_cast<double>(options.scale) != 1.0)
        detail::refuse(std::string("options.scale = ") + std::to_string(options.scale) +
                       ": the loop computes unscaled scores; it must be 1");
    const tensor_view<const scalar> q_view = as_view(q), k_view = as_view(k);
    profile_result result = detail::profile_pair(
        q_view, k_view, [](const auto& q_in, const auto& k_in, auto& out) { batched_scores_loop(q_in, k_in, out); },
        [&options](const auto& q_in, const auto& k_in, auto& out) {
            batched_scores_vectorized(q_in, k_in, out, options);
        },
        num_runs, progress);
    result.isa = detail::choose_isa(options.isa);
    result.threads = options.threads == 0 ? detail::hardware_threads() : options.threads;
    return result;
}

template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] profile_result profile_and_compare(const Q& q, const K& k, int num_runs = 10,
                                                 const scores_options& options = {}) {
    return profile_and_compare(q, k, num_runs, options, [](int, int) {});
}

/// A table of two rows, and the answer below it. The medians come first: they are what the other figures are made of.
inline std::ostream& operator<<(std::ostream& os, const profile_result& r) {
    std::ostringstream text;  // leaves the stream's own flags alone
    text.imbue(std::locale::classic());
    text << "scores " << detail::text_of({r.b, r.h, r.l, r.d}) << " x " << detail::text_of({r.b, r.h, r.m, r.d}) << ", "
         << r.runs << (r.runs == 1 ? " run" : " runs")
         << (r.calls == 1 ? "" : " of " + std::to_string(r.calls) + " calls") << " each\n"
         << "           median ms     mean ms      min ms     GFLOP/s\n"
         << std::fixed;
    const int digits = std::min(r.loop_median_ms, r.vectorized_median_ms) < 0.01 ? 6 : 4;  // 6: down to a nanosecond
    const auto row = [&](const char* name, double median, double mean, double minimum, double gflops) -> auto& {
        return text << std::left << std::setw(10) << name << std::right << std::setprecision(digits) << std::setw(10)
                    << median << std::setw(12) << mean << std::setw(12) << minimum << std::setprecision(1)
                    << std::setw(12) << gflops;
    };
    row("loop", r.loop_median_ms, r.loop_ms, r.loop_minimum_ms, r.loop_gflops) << "   1 thread\n";
    row("vectorized", r.vectorized_median_ms, r.vectorized_ms, r.vectorized_minimum_ms, r.vectorized_gflops)
        << "   " << r.threads << (r.threads == 1 ? " thread, " : " threads, ") << to_string(r.isa) << '\n'
        << (r.outputs_match ? "outputs match" : "outputs DO NOT match");
    if (!r.greatest_difference_at) text << (r.agreement.total == 0 ? ": there are none" : ", no difference");
    else
        text << ", greatest difference " << std::setprecision(2) << std::scientific << r.greatest_difference << " at "
             << detail::text_of(*r.greatest_difference_at);
    text << '\n';
    if (r.speedup) {
        text << "speed-up " << std::setprecision(2) << std::fixed << *r.speedup << "x (centre of " << r.runs
             << (r.runs == 1 ? " pair" : " pairs") << " of runs";
        if (const auto& range = r.comparison.arms.empty() ? std::nullopt : r.comparison.arms[1].speedup;
            range && range->low > 0)
            text << "; " << detail::confidence_text(r.comparison.confidence) << ": " << range->low << " to "
                 << range->high;
        text << ")\n";
    }
    if (!r.outputs_match) text << r.agreement;
    return os << text.str();
}

}  // namespace headwise
