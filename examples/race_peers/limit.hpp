// The limit of a race: the machine's peaks, measured between its rounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <headwise/harness/roofline.hpp>
#include <headwise/harness/statistics.hpp>

#include "rounds.hpp"

namespace race {

/// What multiplying, reading the inputs and writing the outputs alone would take, where the contenders stand: with
/// their clock, after one of them has run and, where the operands are larger than a near cache, over the operands
/// themselves, once. A buffer that is walked again and again keeps what the others push out: for (1,32/8,1,4096,128),
/// 34 MB beside an L3 cache of 32 MiB, its bandwidth is twice what anyone can reach. The median of the looks counts, as
/// it does of the contenders' times; of the flops, which nobody disturbs, the best.
template <class Scalar>
class limit_probe {
public:
    using part = std::span<float>;

    limit_probe(std::vector<part> inputs, std::vector<part> outputs, int threads, bool processor_time)
        : read_(std::move(inputs), threads), written_(std::move(outputs), threads) {
        options_ = {threads, std::chrono::duration<double>(1e-3)};
        if (processor_time) options_.now = [] { return now(true); };
    }

    void look() {
        using headwise::traffic;
        if (reads_.size() < 10)
            flops_ = std::max(flops_, headwise::measure_fma_peak<Scalar>(options_).flops_per_second);
        reads_.push_back(read_.rate(traffic::read, options_));
        writes_.push_back(written_.rate(traffic::write, options_));
        streams_.push_back(written_.rate(traffic::streaming_write, options_));
    }
    [[nodiscard]] headwise::machine_limits seen() const {
        using headwise::statistics::median;
        return {flops_, median(reads_), std::max(median(writes_), median(streams_))};
    }

private:
    /// What is walked: operands, or a buffer of their size where they are so small that a contender, called again and
    /// again, finds them in a near cache.
    class stretch {
    public:
        stretch(std::vector<part> operands, int threads) : parts_(std::move(operands)) {
            constexpr std::size_t large = std::size_t{8} << 20, smallest = std::size_t{16} << 10;  // a loop's own start
            std::size_t bytes = 0;
            for (const part& p : parts_) bytes += p.size_bytes();
            if (bytes >= large) return;
            bytes = std::max(bytes, smallest * static_cast<std::size_t>(threads));
            parts_ = {own_.emplace_back(bytes).floats()};
            passes_ = static_cast<long>(large / bytes) + 1;
        }
        [[nodiscard]] double rate(headwise::traffic kind, headwise::probe_options options) const {
            options.passes = passes_;
            double bytes = 0, seconds = 0;
            for (const part& p : parts_) {
                const headwise::bandwidth found = headwise::measure_bandwidth(kind, p, options);
                if (found.working_set == 0) continue;  // q, of a single row
                bytes += static_cast<double>(found.working_set);
                seconds += static_cast<double>(found.working_set) / found.bytes_per_second;
            }
            return bytes / seconds;
        }

    private:
        std::vector<part> parts_;
        std::vector<headwise::probe_buffer> own_;
        long passes_ = 1;
    };

    stretch read_, written_;
    headwise::probe_options options_;
    double flops_ = 0;
    std::vector<double> reads_, writes_, streams_;
};

/// Memory of a tensor, as the probes walk it.
template <class Tensor>
[[nodiscard]] std::span<float> memory_of(Tensor& t) {
    using scalar = std::remove_reference_t<decltype(*t.data())>;
    return {reinterpret_cast<float*>(t.data()), static_cast<std::size_t>(t.size()) * (sizeof(scalar) / sizeof(float))};
}

}  // namespace race
