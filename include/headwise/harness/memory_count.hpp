// What the calling thread has asked operator new for, and given back: filled by memory_hooks.hpp where a program opts
// in, else always zero and said to be unknown.
#pragma once

#include <atomic>
#include <cstdint>

namespace headwise {

/// Allocations and releases, counted apart: neither is ever taken from the other, so none is ever negative. Bytes are
/// what the allocator set aside, which may be a few more than were asked for.
struct memory_count {
    std::int64_t allocations = 0, allocated_bytes = 0, releases = 0, released_bytes = 0;

    constexpr memory_count& operator+=(const memory_count& other) noexcept {
        allocations += other.allocations, allocated_bytes += other.allocated_bytes;
        releases += other.releases, released_bytes += other.released_bytes;
        return *this;
    }
    constexpr memory_count& operator-=(const memory_count& other) noexcept {
        allocations -= other.allocations, allocated_bytes -= other.allocated_bytes;
        releases -= other.releases, released_bytes -= other.released_bytes;
        return *this;
    }
    friend constexpr bool operator==(const memory_count&, const memory_count&) = default;
};

namespace detail {
inline constinit thread_local memory_count thread_memory{};
inline constinit std::atomic<bool> memory_hooked{false};
}  // namespace detail

/// True where one file of the program counts (see memory_hooks.hpp).
[[nodiscard]] inline bool memory_is_counted() noexcept { return detail::memory_hooked.load(std::memory_order_relaxed); }

/// The calling thread's counts since it began.
[[nodiscard]] inline memory_count memory_so_far() noexcept { return detail::thread_memory; }

}  // namespace headwise
