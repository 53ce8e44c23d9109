// `keep(x)`: the optimiser must produce x, and must forget what it knew about it.
#pragma once

#include <type_traits>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace headwise {

#if defined(__GNUC__) || defined(__clang__)

/// A value that fits a register is produced in one and handed back as if changed; anything else is produced in memory,
/// and all memory that others may see counts as read and written. No instruction is emitted for it.
/// A folded loop ("the compiler computed the answer") is the commonest way for a benchmark to measure nothing.
template <class Value>
inline void keep(Value& value) noexcept {
    if constexpr (std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(void*)) {
        asm volatile("" : "+m,r"(value) : : "memory");
    } else {
        asm volatile("" : "+m"(value) : : "memory");
    }
}

template <class Value>
inline void keep(const Value& value) noexcept {
    if constexpr (std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(void*)) {
        asm volatile("" : : "r,m"(value) : "memory");
    } else {
        asm volatile("" : : "m"(value) : "memory");
    }
}

/// For a call that returns nothing: all memory that others may see counts as read and written.
inline void keep() noexcept { asm volatile("" : : : "memory"); }

#else

template <class Value>
inline void keep(const Value& value) noexcept {
    static const volatile void* volatile sink;
    sink = &value;
    _ReadWriteBarrier();
}

inline void keep() noexcept { _ReadWriteBarrier(); }

#endif

}  // namespace headwise
