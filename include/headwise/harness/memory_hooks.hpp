// Counting memory, for profiles. In ONE file of the program:
//
//     #define HEADWISE_COUNT_ALLOCATIONS
//     #include <headwise/harness/memory_hooks.hpp>
//
// replaces operator new and delete in all their forms by ones that count and call malloc and free. Not counted: what
// calls malloc itself (C libraries, Eigen's own buffers, std::stacktrace), and memory that never comes from the heap.
// A release is counted for the thread that releases. Without the macro this header is memory_count.hpp.
#pragma once

#include <headwise/harness/memory_count.hpp>

#if defined(HEADWISE_COUNT_ALLOCATIONS)

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__APPLE__)
#include <malloc/malloc.h>
#elif defined(__FreeBSD__)
#include <malloc_np.h>
#elif defined(__linux__)
#include <malloc.h>
#else
#error "HEADWISE_COUNT_ALLOCATIONS: this system does not tell how large a block is"
#endif

#include <headwise/attributes.hpp>

namespace headwise::detail {

[[nodiscard]] inline std::int64_t block_bytes(void* block) noexcept {
#if defined(__APPLE__)
    return static_cast<std::int64_t>(malloc_size(block));
#else
    return static_cast<std::int64_t>(malloc_usable_size(block));
#endif
}

/// Null when there is no memory and no new-handler that finds some.
inline void* allocate_counted(std::size_t bytes, std::size_t alignment) {
    if (bytes == 0) bytes = 1;
    for (;;) {
        void* block = nullptr;
        if (alignment <= alignof(std::max_align_t)) block = std::malloc(bytes);
        else if (posix_memalign(&block, alignment, bytes) != 0) block = nullptr;
        if (block != nullptr) {
            ++thread_memory.allocations;
            thread_memory.allocated_bytes += block_bytes(block);
            return block;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) return nullptr;
        handler();
    }
}

inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const block = allocate_counted(bytes, alignment);
#if defined(__cpp_exceptions)
    if (block == nullptr) throw std::bad_alloc();
#else
    if (block == nullptr) std::abort();
#endif
    return block;
}

inline void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
#if defined(__cpp_exceptions)
    try {
        return allocate_counted(bytes, alignment);
    } catch (...) {  // a new-handler may throw
        return nullptr;
    }
#else
    return allocate_counted(bytes, alignment);
#endif
}

inline void release_counted(void* block) noexcept {
    if (block == nullptr) return;
    ++thread_memory.releases;
    thread_memory.released_bytes += block_bytes(block);
    std::free(block);
}

namespace {
[[maybe_unused]] const bool hooks_are_here = (memory_hooked.store(true, std::memory_order_relaxed), true);
}

inline constexpr std::size_t plain_alignment = alignof(std::max_align_t);

}  // namespace headwise::detail

// Not inline, as the standard demands; not inlined either, or GCC sees free() meet what operator new returned, and
// warns.
HEADWISE_NOINLINE void* operator new(std::size_t bytes) {
    return headwise::detail::allocate_or_throw(bytes, headwise::detail::plain_alignment);
}
HEADWISE_NOINLINE void* operator new[](std::size_t bytes) {
    return headwise::detail::allocate_or_throw(bytes, headwise::detail::plain_alignment);
}
HEADWISE_NOINLINE void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return headwise::detail::allocate_or_null(bytes, headwise::detail::plain_alignment);
}
HEADWISE_NOINLINE void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return headwise::detail::allocate_or_null(bytes, headwise::detail::plain_alignment);
}
HEADWISE_NOINLINE void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return headwise::detail::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
HEADWISE_NOINLINE void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return headwise::detail::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
HEADWISE_NOINLINE void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return headwise::detail::allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
HEADWISE_NOINLINE void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return headwise::detail::allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}

HEADWISE_NOINLINE void operator delete(void* block) noexcept { headwise::detail::release_counted(block); }
HEADWISE_NOINLINE void operator delete[](void* block) noexcept { headwise::detail::release_counted(block); }
HEADWISE_NOINLINE void operator delete(void* block, std::size_t) noexcept { headwise::detail::release_counted(block); }
HEADWISE_NOINLINE void operator delete[](void* block, std::size_t) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete(void* block, std::align_val_t) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete[](void* block, std::align_val_t) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete(void* block, const std::nothrow_t&) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete[](void* block, const std::nothrow_t&) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    headwise::detail::release_counted(block);
}
HEADWISE_NOINLINE void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    headwise::detail::release_counted(block);
}

#endif
