// What a kernel is given: pointers, sizes and strides. No Eigen, no exceptions; everything has been checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/attributes.hpp>

namespace headwise::kernel {

/// A tensor's address and its four strides, in elements. The strides stay where the view has them: copying them cost a
/// small call more than its arithmetic.
template <class Scalar>
struct operand {
    Scalar* data;
    const std::ptrdiff_t* strides;

    [[nodiscard]] std::ptrdiff_t row() const noexcept { return strides[2]; }
    [[nodiscard]] std::ptrdiff_t column() const noexcept { return strides[3]; }
    [[nodiscard]] Scalar* head(std::ptrdiff_t b, std::ptrdiff_t h) const noexcept {
        return data + b * strides[0] + h * strides[1];
    }
};

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], for every l and m of the heads of one call or, when
/// several threads share it, of one piece: then the addresses and extents are those of the piece.
template <class Scalar>
struct scores_arguments {
    operand<const Scalar> q, k;
    operand<Scalar> out;
    std::ptrdiff_t heads, rows, columns, depth;  // H (of each batch), L, M, D
    Scalar scale;
    bool stream;    // write around the caches; the rows of out are whole, aligned cache lines (but for their tails)
    bool prefetch;  // the operands are not in a near cache: fetch the next head's while computing this one's
};

/// Heads [first, last) of the B*H.
struct head_range {
    std::ptrdiff_t first, last;
};

/// Walks a range of heads: the three matrices of each.
template <class Scalar>
class head_walk {
public:
    HEADWISE_INLINE head_walk(const scores_arguments<Scalar>& a, head_range range) noexcept
        : a_(a), left_(range.last - range.first), q(a.q.data), k(a.k.data), out(a.out.data) {
        if (range.first == 0) return;
        const std::ptrdiff_t b = range.first / a.heads;
        h_ = range.first % a.heads;
        q = a.q.head(b, h_);
        k = a.k.head(b, h_);
        out = a.out.head(b, h_);
    }

    [[nodiscard]] HEADWISE_INLINE bool more() const noexcept { return left_ > 0; }

    HEADWISE_INLINE void next() noexcept {
        if (--left_ == 0) return;
        step(1, 1);
        if (++h_ < a_.heads) return;
        h_ = 0;
        step(0, 1);
        step(1, -a_.heads);
    }

private:
    HEADWISE_INLINE void step(int axis, std::ptrdiff_t times) noexcept {
        q += times * a_.q.strides[axis];
        k += times * a_.k.strides[axis];
        out += times * a_.out.strides[axis];
    }

    const scores_arguments<Scalar>& a_;
    std::ptrdiff_t left_, h_ = 0;

public:
    const Scalar* q;
    const Scalar* k;
    Scalar* out;
};

/// What one target offers for one scalar type.
template <class Scalar>
struct scores_kernel {
    /// At most `most_few` rows; q and k have unit stride along d, out along m. Nothing is packed.
    void (*few)(const scores_arguments<Scalar>&, head_range);
    /// Anything. `workspace` holds `workspace_size(arguments)` scalars, 64-byte aligned.
    void (*packed)(const scores_arguments<Scalar>&, head_range, Scalar* workspace);
    std::ptrdiff_t (*workspace_size)(const scores_arguments<Scalar>&);
    std::ptrdiff_t most_few;
    std::ptrdiff_t tile_rows;  // rows are best split between threads at multiples of it
};

/// The packed block of K, which stays in the L2 cache beside a tile's rows of Q and the output.
inline constexpr std::ptrdiff_t packed_bytes = std::ptrdiff_t{512} << 10;

}  // namespace headwise::kernel
