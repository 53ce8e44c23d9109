// What the attention kernels are given. No Eigen, no exceptions; everything has been checked.
#pragma once

#include <cstddef>

#include <headwise/kernel/arguments.hpp>

namespace headwise::kernel {

/// Which keys a row sees by its place alone: row l the columns [first(l), last(l)), which both grow with l.
struct visible_range {
    std::ptrdiff_t left, right, offset, columns;

    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t first(std::ptrdiff_t l) const noexcept {
        return clamp(l + offset - left);
    }
    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t last(std::ptrdiff_t l) const noexcept {
        return clamp(l + offset + right + 1);
    }
    /// Whether row l sees all of the columns [from, to).
    [[nodiscard]] HEADWISE_INLINE bool sees(std::ptrdiff_t l, std::ptrdiff_t from, std::ptrdiff_t to) const noexcept {
        return first(l) <= from && to <= last(l);
    }

private:
    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t clamp(std::ptrdiff_t m) const noexcept {
        return m < 0 ? 0 : m < columns ? m : columns;
    }
};

/// What becomes of the products: logit[b,h,l,m] = softcap(scale * q . k) + bias, minus infinity where it is not
/// visible.
template <class Sum>
struct logit_rules {
    operand<const Sum> bias;   // no data for none; its strides along axes of one element are 0
    operand<const bool> mask;  // the same
    std::ptrdiff_t rows;
    Sum scale, softcap;  // softcap: 0 for none
    visible_range visible;

    [[nodiscard]] bool is_masked(std::ptrdiff_t l, std::ptrdiff_t from, std::ptrdiff_t to) const noexcept {
        return mask.data != nullptr || bias.data != nullptr || !visible.sees(l, from, to);
    }
};

/// `group` heads of q, next to one another, share a head of k and v.
template <class In, class Out = In>
struct attention_arguments : logit_rules<sum_of<In>> {
    operand<const In> q, k, v;
    operand<Out> out;
    std::ptrdiff_t kv_heads, group;  // of each batch
    std::ptrdiff_t columns, depth, value_depth;
    bool stream = false;  // weights go around the caches; their rows are whole, aligned cache lines
};

/// One head of k and v with its group, and a stretch of the work on it: row tiles, or a chunk of columns.
struct attention_piece {
    std::ptrdiff_t batch, kv_head;
    std::ptrdiff_t first, last;
};

/// What softmax knows of a row: most, sum over m of exp(logit - most), and the same of these weights as they are
/// multiplied with v, where a target rounds them.
template <class Sum>
struct row_state {
    Sum most, sum, rounded = 0;
};

/// What one target offers for one type of operands and one of results. Workspaces are 64-byte aligned and hold what the
/// function of that name says, in scalars of the sums.
template <class In, class Out = In>
struct attention_kernel {
    using arguments = attention_arguments<In, Out>;
    using Sum = sum_of<In>;

    /// Row tiles [first, last) of each of the group's heads -> out; states[(g * rows) + l] for their rows.
    void (*attend)(const arguments&, const attention_piece&, Sum* workspace, row_state<Sum>* states);
    std::ptrdiff_t (*attend_workspace)(const arguments&, std::ptrdiff_t tiles);

    /// Columns [first, last) for all rows of the group's heads, each head's few: `partial` gets group * rows rows of
    /// D_v values, rounded up to whole lanes; `states` are theirs. k and v have unit stride.
    void (*few)(const arguments&, const attention_piece&, Sum* workspace, Sum* partial, row_state<Sum>* states);
    std::ptrdiff_t (*few_workspace)(const arguments&);
    /// The chunks' partial results, `chunks` of them one after another, -> out and the first chunk's states.
    void (*merge)(const arguments&, const attention_piece&, Sum* partial, row_state<Sum>* states,
                  std::ptrdiff_t chunks);

    /// Row tiles [first, last) of the group's heads -> out: weights, or logits.
    void (*weigh)(const arguments&, const attention_piece&, Sum* workspace, row_state<Sum>* states);
    void (*logits)(const arguments&, const attention_piece&, Sum* workspace, row_state<Sum>* states);
    std::ptrdiff_t (*weigh_workspace)(const arguments&);

    std::ptrdiff_t tile_rows;  // a head's rows are cut into ceil(rows / tile_rows) tiles
    std::ptrdiff_t most_few;   // rows of one head
    std::ptrdiff_t lanes;      // rows of `partial` are multiples of it
};

/// The most columns that `few` takes at a time, whatever the number of threads, so that results do not depend on it.
/// (1,32/8,1,4096,128): 1.04 times as fast as with half as many.
inline constexpr std::ptrdiff_t few_chunk = 512;
/// The block of K and V that stays in the L2 cache while all rows pass by, and the most columns of it: a row tile's
/// logits stay in the L1 cache. (1,16,577,577,64): 1.04 times as fast in one block as in two, (8,12,512,512,64) too.
inline constexpr std::ptrdiff_t attention_block_bytes = std::ptrdiff_t{320} << 10, attention_block_columns = 640;

}  // namespace headwise::kernel
