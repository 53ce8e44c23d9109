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

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d].
template <class Scalar>
struct scores_arguments {
    operand<const Scalar> q, k;
    operand<Scalar> out;
    std::ptrdiff_t batches, heads, rows, columns, depth;  // B, H, L, M, D
    Scalar scale;
    bool stream;  // write around the caches where lines are whole and aligned
};

/// A part of the work: heads [first_head, last_head) of the B*H, rows [first_row, last_row) of L, columns of M.
struct scores_part {
    std::ptrdiff_t first_head, last_head, first_row, last_row, first_column, last_column;
};

}  // namespace headwise::kernel
