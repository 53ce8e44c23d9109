// Every operator new of the program counts: for tests of what allocates. In one file of a program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <headwise/attributes.hpp>

namespace {

/// Since the program began.
std::atomic<long> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
    return memory;
}

}  // namespace

// The forms for arrays and for nothrow call these (a sanitizer has its own). Not inline: GCC would see free() meet what
// operator new returned, and warn.
HEADWISE_NOINLINE void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
HEADWISE_NOINLINE void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, static_cast<std::size_t>(alignment));
}
HEADWISE_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
