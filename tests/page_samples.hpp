// Results to draw pages of, ordinary ones and hostile ones; the same on every machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/machine.hpp>
#include <headwise/harness/roofline_point.hpp>
#include <headwise/harness/sweep.hpp>

namespace page_samples {

/// Noise in [0, 1) that no library decides about.
class noise {
public:
    explicit noise(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    double operator()() {
        state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
        return static_cast<double>(state_ >> 11) * 0x1p-53;
    }

private:
    std::uint64_t state_;
};

/// Times about `ns` with a tail, as measured ones have.
inline std::vector<double> times(double ns, std::size_t count, std::uint64_t seed) {
    noise random(seed);
    std::vector<double> all(count);
    for (double& t : all) {
        const double usual = 1 + 0.03 * (random() + random() - 1);
        t = ns * (random() < 0.03 ? usual * (1 + random()) : usual);
    }
    return all;
}

inline headwise::arm_result arm(std::string name, headwise::verdict verdict, std::vector<double> samples) {
    headwise::arm_result a;
    a.name = std::move(name);
    a.verdict = verdict;
    a.verified = verdict != headwise::verdict::mismatch;
    a.time = headwise::statistics::summarise(samples);
    a.spoiled.assign(samples.size(), false);
    for (std::size_t i = 7; i < samples.size(); i += 40) a.spoiled[i] = true;
    a.samples = std::move(samples);
    return a;
}

inline headwise::comparison of(std::vector<headwise::arm_result> arms) {
    headwise::comparison c;
    c.confidence = 0.95, c.margin = 0.01;
    c.calls_per_epoch = 100, c.epochs_per_block = 2, c.blocks = arms.empty() ? 0 : arms[0].samples.size() / 2;
    c.seconds = 0.12, c.budget_seconds = 1;
    c.arms = std::move(arms);
    return c;
}

inline headwise::comparison ordinary(std::size_t samples = 120) {
    using headwise::verdict;
    auto fused = arm("fused", verdict::faster, times(1000, samples, 2));
    fused.speedup = {1.95, 1.94, 1.96};
    fused.detectable = 0.01;
    return of({arm("loop", verdict::baseline, times(1950, samples, 1)), std::move(fused)});
}

inline const std::string hostile_name =
    "</title><script>alert('1')</script> & \"quotes\" \x01\xff and a name that goes on and on and on, far longer than "
    "any column, any screen and any patience has room for, caf\xc3\xa9 \xf0\x9f\x98\x80";

/// NaN, infinities, zero, nothing, a single sample, samples that are all alike, ten powers of ten.
inline headwise::comparison hostile() {
    using headwise::verdict;
    const double nan = std::nan(""), inf = HUGE_VAL;
    auto odd = arm("<&>\"'", verdict::unresolved, {nan, inf, -inf, 0, -5, 1e-300, 1e300, 12, nan, 3});
    odd.speedup = {1.1, 0, inf};
    odd.reason = "5 blocks are too few for an interval";
    auto wrong = arm(hostile_name, verdict::mismatch, times(700, 10, 3));
    wrong.reason = "1 of 1 <elements> differs";
    auto wide = arm("wide", verdict::slower, {1, 1e10, 1e3, 1e6, 1, 1e10, 1e3, 1e6, 1, 1e10});
    wide.speedup = {1e-6, 1e-9, 1e-3};
    auto unmeasured = arm("unmeasured", verdict::unresolved, {});
    unmeasured.verified = false;
    auto c = of({arm("alike", verdict::baseline, std::vector<double>(10, 42.0)), std::move(odd), std::move(wrong),
                 std::move(wide), std::move(unmeasured), arm("one", verdict::unresolved, {5})});
    c.notes = {"a note with <tags> & \"quotes\""};
    return c;
}

inline headwise::sweep_result sweep() {
    headwise::sweep_result s{"n", 0.95, {}};
    for (int i = 0; i < 6; ++i) {
        const double n = std::pow(4.0, i), linear = 12 + n, constant = 60;
        auto second = arm("binary search", linear > constant ? headwise::verdict::faster : headwise::verdict::slower,
                          times(constant, 40, static_cast<std::uint64_t>(i)));
        const double ratio = linear / constant;
        second.speedup = {ratio, ratio / 1.02, ratio * 1.02};
        s.points.push_back({std::to_string(static_cast<int>(n)), n,
                            of({arm("linear search", headwise::verdict::baseline,
                                    times(linear, 40, static_cast<std::uint64_t>(i) + 10)),
                                std::move(second)})});
    }
    return s;
}

inline headwise::machine_report machine() {
    headwise::machine_report m;
    m.identity = {"host <a&b>",
                  "A Processor \"with quotes\"",
                  4,
                  "AVX-512",
                  "GCC 12.2.0",
                  {{1, 48 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 4}}};
    m.measured_on = "2024-02-29";
    for (const int threads : {1, 4}) {
        const double n = threads;
        m.peaks.push_back({"float", threads, 270e9 * n});
        m.peaks.push_back({"double", threads, 135e9 * n});
        for (headwise::machine_level level : headwise::detail::levels_to_measure(m.identity, threads, 0)) {
            const double slower = level.name == "L1" ? 1 : level.name == "L2" ? 2 : level.name == "L3" ? 5 : 13;
            level.read = 500e9 * n / slower, level.write = 260e9 * n / slower;
            level.streaming_write = 180e9 * n / slower, level.triad = 600e9 * n / slower;
            m.levels.push_back(std::move(level));
        }
    }
    return m;
}

inline std::vector<headwise::roofline_point> operations() {
    const headwise::machine_report m = machine();
    const headwise::work small{2e6, 1e5, 3e4}, large{2e9, 3e7, 1.2e8};
    return {{"loop", small, 90e-6, m.limits<float>(1.3e5)},
            {"fused", small, 10e-6, m.limits<float>(1.3e5)},
            {"fused, large", large, 12e-3, m.limits<float>(1.5e8)}};
}

/// No flops, no bytes, no time, no limit, no number; the same place many times; extremes.
inline std::vector<headwise::roofline_point> hostile_operations() {
    const headwise::machine_limits m{1e11, 1e10, 1e10};
    const double nan = std::nan("");
    std::vector<headwise::roofline_point> all{
        {"copy", {0, 1e6, 1e6}, 1e-3, m},        {"registers", {1e9, 0, 0}, 1e-1, m},
        {"no time", {1e9, 1e6, 1e6}, 0, m},      {"no machine", {1e9, 1e6, 1e6}, 1e-2, {}},
        {"no number", {nan, 1e6, nan}, 1e-2, m}, {"beyond", {1e9, 1e6, 1e6}, 1e-4, m},
        {"tiny", {1, 1e9, 1}, 1e3, m},           {hostile_name, {1e15, 1, 1}, 1e6, m}};
    for (int i = 0; i < 12; ++i) all.push_back({"crowd " + std::to_string(i), {1e9, 1e7, 1e7}, 0.02 + 1e-4 * i, m});
    return all;
}

}  // namespace page_samples
