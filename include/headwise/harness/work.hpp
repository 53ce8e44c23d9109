// A piece of work, a machine's peaks, and the limit that these set to that: what a roofline is made of.
//
// The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009) with reading and writing apart, because they
// are not the same speed: t >= max(flops / peak, bytes read / read bandwidth + bytes written / write bandwidth).
#pragma once

namespace headwise {

/// A piece of work: floating-point operations (an FMA is two), and the bytes that must be read and written at least
/// once.
struct work {
    double flops = 0, bytes_read = 0, bytes_written = 0;

    /// Flops per byte moved; infinite when nothing is moved.
    [[nodiscard]] constexpr double intensity() const noexcept { return flops / (bytes_read + bytes_written); }
};

/// A machine's peaks, for a number of threads and a working set. All per second.
struct machine_limits {
    double flops = 0, bytes_read = 0;
    double bytes_written = 0;  ///< the better of ordinary and streaming stores
};

/// What bounds a piece of work.
struct roofline_limit {
    double seconds = 0;  ///< no implementation is faster
    bool memory_bound = false;

    /// The share of the limit that a run of `measured` seconds reaches: 1 is as fast as can be.
    [[nodiscard]] constexpr double share(double measured) const noexcept { return seconds / measured; }
};

[[nodiscard]] constexpr roofline_limit limit_of(const work& w, const machine_limits& machine) noexcept {
    const auto time = [](double amount, double rate) { return amount > 0 ? amount / rate : 0.0; };
    const double compute = time(w.flops, machine.flops);
    const double memory = time(w.bytes_read, machine.bytes_read) + time(w.bytes_written, machine.bytes_written);
    return {memory > compute ? memory : compute, memory > compute};
}

}  // namespace headwise
