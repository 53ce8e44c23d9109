// Fetching ahead: what the next tiles will read is brought into the L1 cache in slices, between the tiles of now.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/attributes.hpp>

namespace headwise::kernel {

/// A line that is not read: it may lie beyond an array.
HEADWISE_INLINE void fetch_line(std::uintptr_t at) noexcept {
    HEADWISE_PREFETCH(reinterpret_cast<const char*>(at));  // NOLINT(performance-no-int-to-ptr)
}

/// A line of each page that begins in the `bytes` at `from`, for the sake of its translation: where rows are fetched a
/// few KiB ahead, each new page would hold up the first that needs it.
HEADWISE_INLINE void fetch_pages(std::uintptr_t from, std::ptrdiff_t bytes) noexcept {
    constexpr std::uintptr_t page = 4096;
    const std::uintptr_t to = from + static_cast<std::uintptr_t>(bytes);
    for (std::uintptr_t at = (from + page - 1) / page * page; at < to; at += page) fetch_line(at);
}

/// How far ahead: far enough for a walk through the tables of pages, near enough to be still known when it is read.
inline constexpr std::ptrdiff_t pages_ahead = 32768;

/// The cache lines of a matrix, fetched some at a time.
class fetch_queue {
public:
    HEADWISE_INLINE fetch_queue() noexcept = default;

    /// `rows` rows of `row_bytes`, `stride` bytes apart; rows that touch are one run. No rows: nothing to fetch.
    HEADWISE_INLINE fetch_queue(const void* first, std::ptrdiff_t rows, std::ptrdiff_t row_bytes,
                                std::ptrdiff_t stride) noexcept
        : row_(static_cast<const char*>(first)), bytes_(row_bytes), stride_(stride), rows_(rows) {
        if (stride != row_bytes || rows == 0) return;
        bytes_ = rows * row_bytes;
        rows_ = 1;
    }

    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t lines() const noexcept { return rows_ * ((bytes_ + line - 1) / line); }

    HEADWISE_INLINE void fetch(std::ptrdiff_t count) noexcept {
        for (; count > 0 && rows_ > 0; --count) {
            HEADWISE_PREFETCH(row_ + at_);
            at_ += line;
            if (at_ < bytes_) continue;
            at_ = 0;
            row_ += stride_;
            --rows_;
        }
    }

private:
    static constexpr std::ptrdiff_t line = 64;

    const char* row_ = nullptr;
    std::ptrdiff_t bytes_ = 0, stride_ = 0, rows_ = 0, at_ = 0;
};

/// What is fetched while rows are read once: their like, as many rows on as fill 12 KiB. Pieces of rows are read one
/// below the other, then those beside them; but where rows touch, what is fetched follows the order of memory, for then
/// the processor's own fetching joins in. Decoding (1,32/8,1,4096,128): 1.2 times as fast.
class rows_ahead {
public:
    std::uintptr_t at;  // what to fetch now

    /// Rows of `bytes`, `stride` bytes apart, so many of them read `together`.
    HEADWISE_INLINE rows_ahead(const void* rows, std::ptrdiff_t together, std::ptrdiff_t bytes,
                               std::ptrdiff_t stride) noexcept
        : at(reinterpret_cast<std::uintptr_t>(rows)),
          stride_(static_cast<std::uintptr_t>(stride)),
          touch_(stride == bytes) {
        pass(between(together, bytes));
    }
    /// So many rows have been read.
    HEADWISE_INLINE void pass(std::ptrdiff_t rows) noexcept { at += static_cast<std::uintptr_t>(rows) * stride_; }
    /// The rows before those, of `rows` in all, while there is other work.
    static HEADWISE_INLINE void fetch_first(const void* first, std::ptrdiff_t rows, std::ptrdiff_t together,
                                            std::ptrdiff_t bytes, std::ptrdiff_t stride) noexcept {
        const std::ptrdiff_t before = between(together, bytes);
        fetch_queue queue(first, rows < before ? rows : before, bytes, stride);
        queue.fetch(queue.lines());
    }
    /// From a piece to the next one of its column.
    [[nodiscard]] HEADWISE_INLINE std::uintptr_t below(std::ptrdiff_t piece) const noexcept {
        return touch_ ? static_cast<std::uintptr_t>(piece) : stride_;
    }
    /// From a column of so many pieces to the one beside it.
    [[nodiscard]] HEADWISE_INLINE std::uintptr_t beside(std::ptrdiff_t piece, std::ptrdiff_t pieces) const noexcept {
        return static_cast<std::uintptr_t>(touch_ ? pieces * piece : piece);
    }

private:
    static HEADWISE_INLINE std::ptrdiff_t between(std::ptrdiff_t together, std::ptrdiff_t bytes) noexcept {
        constexpr std::ptrdiff_t distance = 12288;
        const std::ptrdiff_t fewest = together + together / 8, rows = bytes > 0 ? distance / bytes : 0;
        return rows < fewest ? fewest : rows;
    }
    std::uintptr_t stride_;
    bool touch_;
};

/// The runs of memory that hold a matrix: its rows or, where those lie side by side, its columns. None (rows = 0) where
/// neither has a unit stride.
struct runs {
    std::ptrdiff_t rows, bytes, stride;
    std::ptrdiff_t first;  // byte to fetch: of a run that may lie across two lines the last, whose line comes later
    HEADWISE_INLINE runs(std::ptrdiff_t row, std::ptrdiff_t column, std::ptrdiff_t rows_, std::ptrdiff_t columns,
                         std::ptrdiff_t scalar_bytes) noexcept
        : rows(column == 1 ? rows_
               : row == 1  ? columns
                           : 0),
          bytes((column == 1 ? columns : rows_) * scalar_bytes),
          stride((column == 1 ? row : column) * scalar_bytes),
          first(bytes <= 64 ? bytes - scalar_bytes : 0) {}
};

/// What the coming tiles will read: the next tile's rows of Q, the next block of K; and how much of it is fetched
/// between two of the `tiles` tiles until then. Null: nothing.
struct fetch_ahead {
    HEADWISE_INLINE void plan_q(const void* q, const runs& of, std::ptrdiff_t tiles) noexcept {
        q_ = q == nullptr ? fetch_queue()
                          : fetch_queue(static_cast<const char*>(q) + of.first, of.rows, of.bytes, of.stride);
        q_slice_ = q_.lines() / tiles + 1;
    }
    HEADWISE_INLINE void plan_k(const void* k, const runs& of, std::ptrdiff_t tiles) noexcept {
        k_ = {k, k != nullptr ? of.rows : 0, of.bytes, of.stride};
        k_slice_ = k_.lines() / tiles + 1;
    }
    HEADWISE_INLINE void fetch_slices() noexcept {
        q_.fetch(q_slice_);
        k_.fetch(k_slice_);
    }

private:
    fetch_queue q_, k_;
    std::ptrdiff_t q_slice_ = 0, k_slice_ = 0;
};

/// The lines of `rows` rows of `bytes`, `stride` bytes apart, that are about to be written: else each store waits until
/// its line has been read.
HEADWISE_INLINE void fetch_to_write(const void* first, std::ptrdiff_t rows, std::ptrdiff_t bytes,
                                    std::ptrdiff_t stride) noexcept {
    const char* row = static_cast<const char*>(first);
    for (; rows > 0; --rows, row += stride) {
        for (std::ptrdiff_t at = 0; at < bytes; at += 64) HEADWISE_PREFETCH_TO_WRITE(row + at);
        HEADWISE_PREFETCH_TO_WRITE(row + bytes - 1);
    }
}

/// A line of each page that such rows lie in: stores around the caches wait for nothing but a page's address.
HEADWISE_INLINE void fetch_pages(const void* first, std::ptrdiff_t rows, std::ptrdiff_t bytes,
                                 std::ptrdiff_t stride) noexcept {
    if (stride == bytes) bytes *= rows, rows = 1;
    const char* row = static_cast<const char*>(first);
    for (; rows > 0; --rows, row += stride) {
        HEADWISE_PREFETCH(row);
        fetch_pages(reinterpret_cast<std::uintptr_t>(row), bytes);
    }
}

}  // namespace headwise::kernel
