// What a kernel is given: pointers, sizes and strides. No Eigen, no exceptions; everything has been checked.
#pragma once

#include <cstddef>

namespace headwise::kernel {

/// A tensor's address and its four strides, in elements.
template <class Scalar>
struct operand {
    Scalar* data;
    std::ptrdiff_t batch, head, row, column;

    [[nodiscard]] Scalar* at(std::ptrdiff_t b, std::ptrdiff_t h) const noexcept { return data + b * batch + h * head; }
};

/// Counts through the heads of all batches.
struct head_index {
    std::ptrdiff_t b = 0, h = 0, heads;

    head_index(std::ptrdiff_t first, std::ptrdiff_t heads_per_batch) noexcept : heads(heads_per_batch) {
        if (first == 0) return;
        b = first / heads;
        h = first % heads;
    }
    void next() noexcept {
        if (++h == heads) h = 0, ++b;
    }
};

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d].
template <class Scalar>
struct scores_arguments {
    operand<const Scalar> q, k;
    operand<Scalar> out;
    std::ptrdiff_t batches, heads, rows, columns, depth;  // B, H, L, M, D
    Scalar scale;
    bool stream;    // write around the caches; the rows of out are whole, aligned cache lines (but for their tails)
    bool prefetch;  // the operands are not in a near cache: fetch the next head's while computing this one's
};

/// A part of the work: heads [first_head, last_head) of the B*H, rows [first_row, last_row) of L, columns of M.
struct scores_part {
    std::ptrdiff_t first_head, last_head, first_row, last_row, first_column, last_column;

    [[nodiscard]] std::ptrdiff_t rows() const noexcept { return last_row - first_row; }
    [[nodiscard]] std::ptrdiff_t columns() const noexcept { return last_column - first_column; }
};

/// What one target offers for one scalar type.
template <class Scalar>
struct scores_kernel {
    /// A part of at most `most_few` rows; q and k have unit stride along d, out along m. Nothing is packed.
    void (*few)(const scores_arguments<Scalar>&, const scores_part&);
    /// Any part. `workspace` holds `workspace_size(arguments)` scalars, 64-byte aligned.
    void (*packed)(const scores_arguments<Scalar>&, const scores_part&, Scalar* workspace);
    std::ptrdiff_t (*workspace_size)(const scores_arguments<Scalar>&);
    std::ptrdiff_t most_few;
    std::ptrdiff_t tile_rows;  // rows are best split between threads at multiples of it
};

/// The packed block of K, which stays in the L2 cache beside a tile's rows of Q and the output.
inline constexpr std::ptrdiff_t packed_bytes = std::ptrdiff_t{512} << 10;

}  // namespace headwise::kernel
