// What a kernel is given: pointers, sizes and strides. No Eigen, no exceptions; everything has been checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/attributes.hpp>
#include <headwise/kernel/storage.hpp>

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
    [[nodiscard]] Scalar& at(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, std::ptrdiff_t m) const noexcept {
        return head(b, h)[l * row() + m * column()];
    }
};

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], for every l and m of the heads of one call or, when
/// several threads share it, of one piece: then the addresses and extents are those of the piece. With `members` above
/// one, each head of k has so many of q and out, `q_member` and `out_member` elements apart.
template <class In, class Out = In>
struct scores_arguments {
    operand<const In> q, k;
    operand<Out> out;
    std::ptrdiff_t heads, rows, columns, depth;  // H of k (of each batch), L, M, D
    sum_of<In> scale;
    bool stream;    // write around the caches; the rows of out are whole, aligned cache lines (but for their tails)
    bool prefetch;  // the operands are not in a near cache: fetch the next head's while computing this one's
    std::ptrdiff_t members = 1, q_member = 0, out_member = 0;
    bool fetch_out = false;  // nor is out, and it is not streamed: fetch a tile's lines before it is computed
};

/// Heads [first, last) of the B*H of k.
struct head_range {
    std::ptrdiff_t first, last;
};

/// Walks a range of heads: the three matrices of each, of several members those of the first.
template <class In, class Out = In>
class head_walk {
public:
    HEADWISE_INLINE head_walk(const scores_arguments<In, Out>& a, head_range range) noexcept
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
        if (++h_ < a_.heads) return step(1, 1);
        h_ = 0;
        step(0, 1);
        step(1, 1 - a_.heads);  // never along an axis of one, whose stride may be anything
    }

private:
    HEADWISE_INLINE void step(int axis, std::ptrdiff_t times) noexcept {
        q += times * a_.q.strides[axis];
        k += times * a_.k.strides[axis];
        out += times * a_.out.strides[axis];
    }

    const scores_arguments<In, Out>& a_;
    std::ptrdiff_t left_, h_ = 0;

public:
    const In* q;
    const In* k;
    Out* out;
};

/// What one target offers for one type of operands and one of results.
template <class In, class Out = In>
struct scores_kernel {
    using arguments = scores_arguments<In, Out>;
    /// At most `most_few` rows, no groups; q and k have unit stride along d, out along m. Nothing is packed. Null where
    /// what is stored is not what is summed.
    void (*few)(const arguments&, head_range);
    /// Anything. `workspace` holds `workspace_size(arguments)` scalars, 64-byte aligned.
    void (*packed)(const arguments&, head_range, sum_of<In>* workspace);
    std::ptrdiff_t (*workspace_size)(const arguments&);
    std::ptrdiff_t most_few;
    std::ptrdiff_t tile_rows;  // rows are best split between threads at multiples of it
};

/// The packed block of K, which stays in the L2 cache beside a tile's rows of Q and the output.
inline constexpr std::ptrdiff_t packed_bytes = std::ptrdiff_t{512} << 10;

}  // namespace headwise::kernel
