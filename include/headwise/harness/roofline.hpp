// What holds an operation back: the machine's peaks, measured. What they mean for a piece of work is in work.hpp.
// The best instruction set is picked at run time; no compiler flag is needed. Every probe runs for about its budget.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <headwise/harness/keep.hpp>
#include <headwise/harness/roofline_targets.hpp>
#include <headwise/harness/work.hpp>

namespace headwise {

struct probe_options {
    int threads = 1;  ///< this many run at once, each on its own data
    std::chrono::duration<double> budget = std::chrono::milliseconds(20);  ///< about
    long passes = 0;            ///< above 0: a bandwidth is that of so many walks, in the state that the caches are in
    double (*now)() = nullptr;  ///< the clock, in seconds; null: wall time
};

struct fma_peak {
    double flops_per_second;
    const char* instruction_set;
    int threads;
};

/// How a stretch of memory is walked.
enum class traffic { read, write, streaming_write, triad };

struct bandwidth {
    double
        bytes_per_second;  ///< of the program's own reads and writes: a write's hidden read of the line is not counted
    traffic kind;
    std::size_t working_set;  ///< bytes, of all threads together
    int threads;
};

namespace detail {

[[nodiscard]] inline double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs `chunk(thread)`, which returns the amount that it did, on `threads` threads at once in five slices of time,
/// each begun together. The rate of the best slice: a peak is what the machine can do when nothing else disturbs it.
/// With `passes`, one chunk in one slice.
template <class Chunk>
double peak_rate(const probe_options& options, const Chunk& chunk) {
    constexpr std::size_t most_slices = 5;
    const std::size_t slices = options.passes > 0 ? 1 : most_slices;
    const double slice = options.passes > 0 ? 0 : options.budget.count() / most_slices;
    const auto clock = options.now != nullptr ? options.now : wall_seconds;
    const int threads = std::max(1, options.threads);
    std::vector<std::array<double, most_slices>> rates(static_cast<std::size_t>(threads));
    std::barrier together(threads);
    const auto run = [&](int thread) {
        for (std::size_t s = 0; s < slices; ++s) {
            if (threads > 1) together.arrive_and_wait();
            const double start = clock();
            double now = start, amount = 0;
            do {
                amount += chunk(thread);
                now = clock();
            } while (now - start < slice);
            rates[static_cast<std::size_t>(thread)][s] = amount / (now - start);
        }
    };
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(run, thread);
    run(0);
    helpers.clear();
    double best = 0;
    for (std::size_t s = 0; s < slices; ++s) {
        double sum = 0;
        for (const auto& of_thread : rates) sum += of_thread[s];
        best = std::max(best, sum);
    }
    return best;
}

}  // namespace detail

/// The most multiply-adds that the machine does, counted as two operations each, `Scalar` float or double.
template <class Scalar>
    requires std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>
[[nodiscard]] fma_peak measure_fma_peak(const probe_options& options = {}) {
    const detail::roofline_kernels& kernels = detail::best_roofline_kernels();
    constexpr bool single = std::is_same_v<Scalar, float>;
    constexpr long rounds = 4096;  // some 10 microseconds between two looks at the clock
    const std::size_t lanes = single ? kernels.float_lanes : kernels.double_lanes;
    const double flops = 2.0 * detail::fma_chains * static_cast<double>(lanes) * static_cast<double>(rounds);
    std::array<Scalar, detail::fma_seeds> seeds{};
    for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = Scalar(1) + Scalar(i) / Scalar(8);
    seeds[detail::fma_chains] = Scalar(0.5);  // x -> x / 2 + 1 stays near 2 for ever
    seeds[detail::fma_chains + 1] = Scalar(1);
    keep(seeds);
    const double rate = detail::peak_rate(options, [&](int) {
        if constexpr (single) keep(kernels.spin_float(rounds, seeds.data()));
        else keep(kernels.spin_double(rounds, seeds.data()));
        return flops;
    });
    return {rate, kernels.instruction_set, std::max(1, options.threads)};
}

/// The bandwidth of one kind of traffic over `buffer`, which every thread walks its own part of, again and again: a
/// buffer that fits a cache tells that cache's bandwidth, and one that almost fits it little about an operation that
/// finds its operands displaced: `options.passes = 1`, between its calls, measures what that could have reached. Its
/// contents are read and overwritten; it should have been written before (fresh pages cost faults) with ordinary
/// numbers. 64-byte aligned, at least 1.5 KiB a thread.
[[nodiscard]] inline bandwidth measure_bandwidth(traffic kind, std::span<float> buffer,
                                                 const probe_options& options = {}) {
    const detail::roofline_kernels& kernels = detail::best_roofline_kernels();
    const auto threads = static_cast<std::size_t>(std::max(1, options.threads));
    const std::size_t stretches = threads * (kind == traffic::triad ? 3 : 1);
    const std::size_t count = buffer.size() / stretches / detail::stretch_granule * detail::stretch_granule;
    if (count == 0) return {0, kind, 0, static_cast<int>(threads)};
    const std::size_t part = buffer.size() / threads / detail::stretch_granule * detail::stretch_granule;
    const double bytes = static_cast<double>(count * sizeof(float) * (kind == traffic::triad ? 3 : 1));
    constexpr double between_looks = 0x40000;  // bytes, at the clock
    const long passes = options.passes > 0 ? options.passes : std::max(1L, static_cast<long>(between_looks / bytes));
    const double rate = detail::peak_rate(options, [&](int thread) {
        float* const data = buffer.data() + static_cast<std::size_t>(thread) * part;
        switch (kind) {
            case traffic::read:
                keep(kernels.read(data, count, passes));
                break;
            case traffic::write:
                kernels.write(data, count, passes, 1.5f);
                break;
            case traffic::streaming_write:
                kernels.streaming_write(data, count, passes, 1.5f);
                detail::streaming_fence();
                break;
            case traffic::triad:
                kernels.triad(data, count, passes, 0.5f);
                break;
        }
        return bytes * static_cast<double>(passes);
    });
    return {rate, kind, count * stretches * sizeof(float), static_cast<int>(threads)};
}

/// Memory for the probes: 64-byte aligned, every page touched.
class probe_buffer {
public:
    explicit probe_buffer(std::size_t bytes)
        : count_(std::max<std::size_t>(bytes / sizeof(float), detail::stretch_granule)),
          data_(static_cast<float*>(::operator new (count_ * sizeof(float), std::align_val_t{64}))) {
        std::fill_n(data_.get(), count_, 1.0f);
    }
    [[nodiscard]] std::span<float> floats() const noexcept { return {data_.get(), count_}; }

private:
    struct release {
        void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
    };
    std::size_t count_;
    std::unique_ptr<float, release> data_;
};

/// The same over a buffer of its own of `working_set` bytes.
[[nodiscard]] inline bandwidth measure_bandwidth(traffic kind, std::size_t working_set,
                                                 const probe_options& options = {}) {
    return measure_bandwidth(kind, probe_buffer(working_set).floats(), options);
}

/// The machine's peaks for work in `Scalar` whose inputs and outputs fill `working_set` bytes; a quarter of the budget
/// each for FMA, reading, writing and streaming.
template <class Scalar>
[[nodiscard]] machine_limits measure_machine(std::size_t working_set, probe_options options = {}) {
    options.budget /= 4;
    const probe_buffer buffer(working_set);
    const auto rate = [&](traffic kind) { return measure_bandwidth(kind, buffer.floats(), options).bytes_per_second; };
    return {measure_fma_peak<Scalar>(options).flops_per_second, rate(traffic::read),
            std::max(rate(traffic::write), rate(traffic::streaming_write))};
}

}  // namespace headwise
