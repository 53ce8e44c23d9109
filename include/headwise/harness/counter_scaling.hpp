// What a hardware counter counted between two readings, when it had to share the hardware with others. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace headwise {

/// A counter as the kernel reports it: its value, and for how long it was wanted and really counted (nanoseconds).
struct counter_reading {
    std::uint64_t value = 0, enabled = 0, running = 0;
};

/// Events between two readings. `share` of the time it counted; below 1 the value is scaled up, as an estimate.
struct counted_events {
    double value = 0, share = 1;
};

/// Deltas first, then the scale: the ratio of the totals would answer for the time before `before` too. Differences are
/// modulo 2^64, so a counter that wraps once is right. Empty when it never ran in between, or when the readings cannot
/// be (it ran longer than it was enabled): not counted is not zero.
[[nodiscard]] constexpr std::optional<counted_events> events_between(const counter_reading& before,
                                                                     const counter_reading& after) noexcept {
    const std::uint64_t value = after.value - before.value;
    const std::uint64_t enabled = after.enabled - before.enabled, running = after.running - before.running;
    if (running == 0 || running > enabled) return std::nullopt;
    if (running == enabled) return counted_events{static_cast<double>(value), 1.0};
    // In double: value * enabled overflows 64 bits within seconds.
    const double share = static_cast<double>(running) / static_cast<double>(enabled);
    return counted_events{static_cast<double>(value) / share, share};
}

}  // namespace headwise
