// Memory with a protected page on either side: a kernel that reads or writes one element too many does not go unseen.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#if defined(__unix__) || defined(__APPLE__)
#define HEADWISE_TEST_GUARD_PAGES 1
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace headwise::test {

/// Room for `capacity` scalars between two pages that cannot be touched.
template <class Scalar>
class guarded {
public:
    explicit guarded(std::ptrdiff_t capacity) {
        const std::size_t wanted = static_cast<std::size_t>(capacity) * sizeof(Scalar);
#if defined(HEADWISE_TEST_GUARD_PAGES)
        const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        bytes_ = (wanted + page - 1) / page * page;
        mapping_ = mmap(nullptr, bytes_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping_ == MAP_FAILED) std::abort();
        first_ = static_cast<char*>(mapping_) + page;
        mapped_ = bytes_ + 2 * page;
        if (mprotect(first_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
#else
        bytes_ = wanted;
        mapping_ = first_ = static_cast<char*>(std::malloc(bytes_));
#endif
    }
    guarded(const guarded&) = delete;
    guarded& operator=(const guarded&) = delete;
    ~guarded() {
#if defined(HEADWISE_TEST_GUARD_PAGES)
        munmap(mapping_, mapped_);
#else
        std::free(mapping_);
#endif
    }

    /// `count` scalars that end where the page ends, or begin where it begins.
    [[nodiscard]] Scalar* at_end(std::ptrdiff_t count) const {
        return reinterpret_cast<Scalar*>(first_ + bytes_) - count;
    }
    [[nodiscard]] Scalar* at_start() const { return reinterpret_cast<Scalar*>(first_); }
    [[nodiscard]] Scalar* place(std::ptrdiff_t count, bool end) const { return end ? at_end(count) : at_start(); }

private:
    void* mapping_ = nullptr;
    char* first_ = nullptr;
    std::size_t bytes_ = 0, mapped_ = 0;
};

}  // namespace headwise::test
