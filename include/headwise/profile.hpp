// The main job: run the readable and the fused implementation on the same tensors, prove that they agree, time both.
// The one bridge between the operation and the harness.
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
#include <headwise/harness/keep.hpp>
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

    /// How many times as fast the vectorized one is: the median, over the runs, of the loop's time divided by that of
    /// the vectorized call right beside it. Not loop_ms / vectorized_ms: an interruption distorts a mean, not a median.
    /// Empty when the outputs do not match, or there are none: wrong answers have no speed.
    std::optional<double> speedup;

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
    int runs = 0;                                      ///< Timed calls of each.
    headwise::isa isa = headwise::isa::automatic;      ///< What the vectorized one ran on.
    int threads = 1;                                   ///< What it was given; the loop has one.
};

namespace detail {

[[nodiscard]] inline call_times summary_of(std::vector<double> times) {
    if (times.empty()) return {};
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (const double time : times) sum += time;
    const std::size_t n = times.size();
    return {sum / static_cast<double>(n), times.front(), (times[(n - 1) / 2] + times[n / 2]) / 2};
}

/// The median of loop[i] / fused[i]; of an even number the geometric mean of the middle two, so that the arguments
/// exchanged give the reciprocal. Empty where the clock saw too little to divide.
[[nodiscard]] inline std::optional<double> median_ratio(const std::vector<double>& loop,
                                                        const std::vector<double>& fused) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < loop.size(); ++i) {
        if (!(loop[i] > 0 && fused[i] > 0)) return std::nullopt;
        ratios.push_back(loop[i] / fused[i]);
    }
    if (ratios.empty()) return std::nullopt;
    std::sort(ratios.begin(), ratios.end());
    const double low = ratios[(ratios.size() - 1) / 2], high = ratios[ratios.size() / 2];
    return low == high ? low : std::sqrt(low) * std::sqrt(high);
}

/// How far two correct results may lie apart: max(1e-5 + 1e-5·|expected|, 2·γ_D·‖q_l‖·‖k_m‖), γ_D = D·u / (1 - D·u).
///
/// The first is PyTorch's rule with rtol = atol = 1e-5. The second is what rounding alone can do, see `tolerance::dot`:
/// plain 1e-5 rejects correct outputs from D = 128 on.
template <class Scalar>
[[nodiscard]] tolerance scores_tolerance(const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k) {
    return tolerance::dot(q, k).at_least({.rtol = 1e-5, .atol = 1e-5});
}

/// Takes a comparison of the outputs into `result`, which keeps the first that found something.
inline void take_agreement(profile_result& result, close_report report) {
    result.outputs_match = report.matches;
    if (report.greatest_absolute) {
        result.greatest_difference = report.greatest_absolute->absolute;
        result.greatest_difference_at = report.greatest_absolute->index;
    } else if (report.mismatches > 0) {
        result.greatest_difference = std::numeric_limits<double>::quiet_NaN();
        result.greatest_difference_at = report.first[0].index;
    }
    result.agreement = std::move(report);
}

/// Takes the times of the calls into `result`, which knows the shape and whether the outputs match.
inline void take_times(profile_result& result, const std::vector<double>& loop, const std::vector<double>& fused) {
    const call_times loop_took = summary_of(loop), fused_took = summary_of(fused);
    result.loop_ms = loop_took.mean, result.vectorized_ms = fused_took.mean;
    result.loop_minimum_ms = loop_took.minimum, result.loop_median_ms = loop_took.median;
    result.vectorized_minimum_ms = fused_took.minimum, result.vectorized_median_ms = fused_took.median;

    double outputs = 1;  // in double: the extents of an empty output may be of any size
    for (const std::ptrdiff_t extent : {result.b, result.h, result.l, result.m}) outputs *= static_cast<double>(extent);
    const double gflop = 2e-9 * outputs * static_cast<double>(result.d);
    if (loop_took.median > 0) result.loop_gflops = gflop / (loop_took.median / 1e3);
    if (fused_took.median > 0) result.vectorized_gflops = gflop / (fused_took.median / 1e3);
    if (result.outputs_match && outputs > 0) result.speedup = median_ratio(loop, fused);
}

template <class Scalar>
void poison(tensor<Scalar>& out) {
    std::fill_n(out.data(), out.size(), std::numeric_limits<Scalar>::quiet_NaN());
}

/// `profile_and_compare` for any two `f(q, k, out)` whose results must be the scores. `progress(done, total)` is called
/// between the timed calls, never inside one.
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

    const shape4 out_shape = scores_shape(q.shape(), k.shape());
    tensor<Scalar> loop_out(out_shape, uninitialized), fused_out(out_shape, uninitialized);
    const tolerance allowed = scores_tolerance(q, k);

    // Both start from outputs of NaN, so that an element nobody wrote is seen, before the timed calls and after them.
    const auto check = [&] { take_agreement(result, close_report(fused_out, loop_out, allowed)); };
    const auto poison_both = [&] { poison(loop_out), poison(fused_out); };
    poison_both();
    warmup([&] { loop(q, k, loop_out); });
    warmup([&] { fused(q, k, fused_out); });
    check();
    poison_both();

    // Interleaved, each first in every other round: what else the machine does falls on both alike.
    std::vector<double> loop_times, fused_times;
    loop_times.reserve(static_cast<std::size_t>(num_runs)), fused_times.reserve(static_cast<std::size_t>(num_runs));
    const auto time = [&](auto&& f, tensor<Scalar>& out, std::vector<double>& times) {
        const timer stopwatch;
        f(q, k, out);
        keep(out);
        times.push_back(stopwatch.elapsed_ms());
    };
    for (int run = 0; run < num_runs; ++run) {
        if (run % 2 == 0) time(loop, loop_out, loop_times);
        time(fused, fused_out, fused_times);
        if (run % 2 != 0) time(loop, loop_out, loop_times);
        progress(run + 1, num_runs);
    }
    if (result.outputs_match) check();

    take_times(result, loop_times, fused_times);
    return result;
}

}  // namespace detail

/// Runs `batched_scores_loop` and `batched_scores_vectorized` on q (B, H, L, D) and k (B, H, M, D): once each to warm
/// up, then checks that the outputs agree, times `num_runs` calls of each, interleaved, into outputs allocated
/// beforehand, and checks again. Disagreement is an answer, not an error: `outputs_match` is false, `speedup` empty.
///
/// `options` are those of the vectorized one; the loop has no `scale`, so it must be 1. `progress(done, total)` is
/// called after each round, outside the timing. Memory: two outputs. Throws `std::invalid_argument` for q and k that
/// do not fit each other, num_runs <= 0, and options that `batched_scores_vectorized` refuses.
template <class Q, class K, class Progress>
    requires same_scalar<Q, K> && std::invocable<Progress&, int, int>
[[nodiscard]] profile_result profile_and_compare(const Q& q, const K& k, int num_runs, const scores_options& options,
                                                 Progress&& progress) {
    using scalar = scalar_of<Q>;
    if (static_cast<double>(options.scale) != 1.0)
        detail::refuse(std::string("scale ") + std::to_string(options.scale) +
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
         << r.runs << (r.runs == 1 ? " run" : " runs") << " each\n"
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
    if (r.speedup)
        text << "speed-up " << std::setprecision(2) << std::fixed << *r.speedup << "x (median over " << r.runs
             << (r.runs == 1 ? " pair" : " pairs") << " of calls)\n";
    if (!r.outputs_match) text << r.agreement;
    return os << text.str();
}

}  // namespace headwise
