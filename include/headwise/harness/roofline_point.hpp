// An operation on the roofline: what it had to do, how long it took, and how far that is from what the machine allows.
#pragma once

#include <cmath>
#include <ostream>
#include <string>

#include <headwise/harness/roofline.hpp>
#include <headwise/harness/units.hpp>

namespace headwise {

/// One measured operation under the limits of the machine that it ran on, for the threads and the working set that it
/// had. A value that prints itself:
///
///     roofline_point{"fused", {.flops = 2e9, .bytes_read = 4e7, .bytes_written = 1e8}, 0.0125, machine}
///     fused: 160 GFLOP/s at 14.3 flop/byte, 63 % of what compute allows (253 GFLOP/s)
struct roofline_point {
    std::string name;
    headwise::work work;
    double seconds = 0;  ///< of one call
    machine_limits machine;

    [[nodiscard]] double intensity() const noexcept { return work.intensity(); }
    [[nodiscard]] roofline_limit limit() const noexcept { return limit_of(work, machine); }
    [[nodiscard]] double share() const noexcept { return limit().share(seconds); }

    /// Flops a second; bytes a second of work that has no flops (a copy).
    [[nodiscard]] double rate() const noexcept { return amount() / seconds; }
    [[nodiscard]] double allowed_rate() const noexcept { return amount() / limit().seconds; }
    [[nodiscard]] bool counts_bytes() const noexcept { return !(work.flops > 0); }

    /// Is there something to say: work, a time, and a limit, all of them finite and positive?
    [[nodiscard]] bool known() const noexcept {
        const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
        return positive(amount()) && positive(seconds) && positive(limit().seconds);
    }

private:
    [[nodiscard]] double amount() const noexcept {
        return counts_bytes() ? work.bytes_read + work.bytes_written : work.flops;
    }
};

namespace detail {

[[nodiscard]] inline std::string rate_text(const roofline_point& p, double per_second) {
    return rate_text(per_second, p.counts_bytes() ? "B/s" : "FLOP/s");
}

}  // namespace detail

/// One line, without its end.
inline std::ostream& operator<<(std::ostream& out, const roofline_point& p) {
    if (!p.known()) return out << p.name << ": no limit is known";
    out << p.name << ": " << detail::rate_text(p, p.rate());
    if (!p.counts_bytes() && std::isfinite(p.intensity()))
        out << " at " << detail::three_digits(p.intensity()) << " flop/byte";
    return out << ", " << detail::share_text(p.share()) << " of what "
               << (p.limit().memory_bound ? "memory" : "compute") << " allows ("
               << detail::rate_text(p, p.allowed_rate()) << ")";
}

}  // namespace headwise
