// The kernels of attention, once for every target: included by attention_kernels.hpp, never by itself.
//
//   exp.inl      e^x and tanh
//   softmax.inl  a row tile's logits of one column block become weights, in the nearest cache
//   values.inl   weights . v, the accumulators in registers
//   decode.inl   few rows of q: k and v are read once, in order, at the memory's speed
//   weigh.inl    the weights, or the logits, themselves
//   here         the walk of attention: column blocks, the heads that share them, row tiles
//
// The scheme is FlashAttention's (Dao et al., NeurIPS 2022): the columns are taken in blocks that fit the L2 cache; of
// each row only its largest logit so far, its sum and its result are kept, and scaled anew when the largest grows. The
// blocks are the outer loop: a packed block of k serves all rows of all heads that share it, and out holds the
// unfinished rows, or where it cannot, memory beside it.
//
// Sixteen-bit elements become floats, or pairs for a target that multiplies those, with the copies that are made of
// them: k as it is packed, v of a block, q of a row tile; where few rows read k and v once, in registers. Results
// become sixteen bits as they leave.
//
// Blocks and row tiles depend on the shapes alone, and every row is summed in the order of its columns: results are
// bitwise the same for any number of threads, any batch, strides and alignment.

#include <headwise/kernel/exp.inl>
#include <headwise/kernel/softmax.inl>
#include <headwise/kernel/values.inl>

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// From one row of a copy of Q to the next.
template <class In>
HEADWISE_INLINE std::ptrdiff_t query_step(std::ptrdiff_t depth) {
    const std::ptrdiff_t step = whole_vectors<typename tiling<In>::vector>(depth);
    return step * std::ptrdiff_t{sizeof(sum_of<In>)} % 4096 == 0 ? step + tiling<In>::lanes : step;
}

/// Rows of Q as the tiles want them, of the type of the sums, with unit stride and not a multiple of 4096 bytes apart,
/// which would put all of a tile's rows into one set of the L1 cache: where they lie, or a copy.
template <class In>
struct query_rows {
    const sum_of<In>* q;
    std::ptrdiff_t row;

    template <class Out>
    HEADWISE_INLINE query_rows(const attention_arguments<In, Out>& a, const In* from, std::ptrdiff_t rows,
                               sum_of<In>* copy)
        : q(copy), row(query_step<In>(a.depth)) {
        if constexpr (is_own_sum<In>) {
            if (a.q.column() == 1 && a.q.row() * std::ptrdiff_t{sizeof(In)} % 4096 != 0) {
                q = from;
                row = a.q.row();
                return;
            }
        }
        for (std::ptrdiff_t r = 0; r < rows; ++r)
            gather_row<typename tiling<In>::vector>(copy + r * row, from + r * a.q.row(), a.q.column(), a.depth);
    }
};

/// The scaled products of a row tile with the panels [begin, end) of a packed block of `columns`, and between two of
/// them some of what `ahead` has to fetch, if it is not null.
template <class In, class Out>
HEADWISE_INLINE void multiply(const attention_arguments<In, Out>& a, const query_rows<In>& from, std::ptrdiff_t rows,
                              const sum_of<In>* panels, std::ptrdiff_t columns, std::ptrdiff_t begin,
                              std::ptrdiff_t end, sum_of<In>* logits, std::ptrdiff_t logits_step, fetch_ahead* ahead) {
    using tiles = tiling<In>;
    static constexpr tile_table<typename tiles::vector, tiles::vectors, tiles::rows> wide;
    static constexpr tile_table<typename tiles::vector, 1, tiles::rows> narrow;
    const std::ptrdiff_t depth = entries<typename tiles::vector>(a.depth);
    const std::ptrdiff_t rest = columns % tiles::width, all = round_up(columns, tiles::width) / tiles::width;
    const bool has_narrow = end == all && rest != 0 && rest <= tiles::lanes;  // as `pack` leaves the last panel
    tile_row<sum_of<In>> row{from.q,
                             panels + begin * tiles::width * depth,
                             logits + begin * tiles::width,
                             from.row,
                             logits_step,
                             depth,
                             end - begin - (has_narrow ? 1 : 0),
                             a.scale,
                             tiles::lanes,
                             false,
                             ahead};
    if (row.count > 0) wide.by_rows[rows - 1](row);
    if (!has_narrow) return;
    row.panels = panels + (end - 1) * tiles::width * depth;
    row.out = logits + (end - 1) * tiles::width;
    row.count = 1;
    narrow.by_rows[rows - 1](row);
}

/// The next tile's rows of Q, to be fetched while this one meets `across` panels: they would be waited for several
/// times over, line after line. With the rows of out 1.02 to 1.07 times as fast at (8,12,512,512,64) and
/// (1,8,2048,2048,128).
template <class In, class Out>
HEADWISE_INLINE fetch_ahead next_rows(const attention_arguments<In, Out>& a, const logits_block& block,
                                      std::ptrdiff_t across) {
    const std::ptrdiff_t next = block.row + block.rows, rows = least(block.rows, a.rows - next);
    fetch_ahead ahead;
    if (rows > 0)
        ahead.plan_q(a.q.head(block.batch, block.head) + next * a.q.row(),
                     {a.q.row(), a.q.column(), rows, a.depth, sizeof(In)}, across);
    return ahead;
}

/// What lies where in the workspace, in scalars.
struct attend_layout {
    std::ptrdiff_t block_columns, value_padded;
    std::ptrdiff_t panels, values, q_rows, logits, results;
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return panels + values + q_rows + logits + results; }
};

template <class In, class Out>
attend_layout attend_layout_of(const attention_arguments<In, Out>& a, std::ptrdiff_t piece_tiles) {
    using tiles = tiling<In>;
    constexpr std::ptrdiff_t bytes = sizeof(sum_of<In>), line = 64 / bytes;
    constexpr bool may_gather_in_out = std::is_same_v<Out, sum_of<In>>;
    constexpr int pairs = per_entry<typename tiles::vector>();
    const std::ptrdiff_t depth = entries<typename tiles::vector>(a.depth);
    std::ptrdiff_t block = attention_block_bytes / bytes / (depth + a.value_depth / pairs + 1);
    block = most(round_down(least(block, attention_block_columns), tiles::width), tiles::width);
    const std::ptrdiff_t blocks = most((a.columns + block - 1) / block, 1);  // of nearly equal size
    block = most(round_up((a.columns + blocks - 1) / blocks, tiles::width), tiles::width);
    const std::ptrdiff_t padded = round_up(a.value_depth, tiles::lanes);
    const std::ptrdiff_t results =
        may_gather_in_out && a.out.column() == 1 ? 0 : a.group * piece_tiles * tiles::rows * padded;
    return {block,
            padded,
            round_up(block * depth, line),
            round_up(block / pairs * padded, line),
            round_up(tiles::rows * query_step<In>(a.depth), line),
            tiles::rows * logits_row<sum_of<In>>,
            round_up(results, line)};
}

template <class In, class Out>
std::ptrdiff_t attend_workspace(const attention_arguments<In, Out>& a, std::ptrdiff_t piece_tiles) {
    return attend_layout_of(a, piece_tiles).size();
}

/// One row tile of one head, the columns that some row of it sees, and where its results gather.
template <class Sum>
struct attend_tile {
    std::ptrdiff_t head, row, rows;
    std::ptrdiff_t first, last;
    Sum* out;
    std::ptrdiff_t out_row;
};

/// A row tile against a packed block.
template <class In, class Out>
HEADWISE_NOINLINE void attend_block(const attention_arguments<In, Out>& a, const attend_layout& space,
                                    const attend_tile<sum_of<In>>& tile, const logits_block& block,
                                    const value_block<In, sum_of<In>>& values, sum_of<In>* workspace,
                                    row_state<sum_of<In>>* states) {
    using Sum = sum_of<In>;
    constexpr std::ptrdiff_t width = tiling<In>::width;
    Sum* const q_rows = workspace + space.panels + space.values;
    Sum* const logits = q_rows + space.q_rows;
    const std::ptrdiff_t begin = round_down(most(tile.first - block.first, 0), width);
    const std::ptrdiff_t seen = least(tile.last - block.first, block.columns), end = round_up(seen, width);
    const query_rows<In> q(a, a.q.head(block.batch, block.head) + block.row * a.q.row(), block.rows, q_rows);
    const bool starts = tile.first >= block.first, ends = tile.last <= block.first + block.columns;
    fetch_ahead ahead = next_rows(a, block, (end - begin) / width);
    if (starts)
        ahead.plan_k(tile.out, {tile.out_row, 1, block.rows, a.value_depth, sizeof(Sum)}, (end - begin) / width);
    multiply(a, q, block.rows, workspace, block.columns, begin / width, end / width, logits, logits_row<Sum>, &ahead);
    tile_states<Sum> factors;
    soften<typename tiling<In>::vector>(a, block, begin, end, logits, logits_row<Sum>, states, factors);
    add_values<tiling<In>::vectors, tiling<In>::rows>(values, begin, seen, logits, block.rows, a.value_depth, tile.out,
                                                      tile.out_row, starts ? nullptr : factors.before,
                                                      ends ? factors.after : nullptr);
    if (values.odd_count > 0)
        add_odd_values(a, block, values, begin, seen, logits, tile.out, tile.out_row, ends ? factors.after : nullptr);
}

/// The tiles of a piece: of each head of the group, some of its row tiles.
template <class In, class Out>
class attend_walk {
public:
    using Sum = sum_of<In>;

    HEADWISE_INLINE attend_walk(const attention_arguments<In, Out>& a, const attend_layout& space,
                                const attention_piece& piece, Sum* results)
        : a_(a), space_(space), piece_(piece), split_(a.rows, tiling<In>::rows), results_(results) {
        restart();
    }
    HEADWISE_INLINE void restart() {
        member_ = 0;
        begin_member();
    }
    [[nodiscard]] HEADWISE_INLINE bool more() const { return member_ < a_.group; }
    HEADWISE_INLINE void next() {
        row_ += split_.height(tile_);
        if (++tile_ < piece_.last) return;
        ++member_;
        begin_member();
    }
    [[nodiscard]] HEADWISE_INLINE attend_tile<Sum> tile() const {
        const std::ptrdiff_t rows = split_.height(tile_), head = piece_.kv_head * a_.group + member_;
        attend_tile<Sum> here{head,
                              row_,
                              rows,
                              a_.visible.first(row_),
                              a_.visible.last(row_ + rows - 1),
                              results_ + ((member_ * (piece_.last - piece_.first) + tile_ - piece_.first) *
                                          tiling<In>::rows * space_.value_padded),
                              space_.value_padded};
        if constexpr (std::is_same_v<Out, Sum>) {
            if (space_.results == 0) {
                here.out = a_.out.head(piece_.batch, head) + row_ * a_.out.row();
                here.out_row = a_.out.row();
            }
        }
        return here;
    }
    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t state() const { return member_ * a_.rows + row_; }

private:
    HEADWISE_INLINE void begin_member() {
        tile_ = piece_.first;
        row_ = tile_ * split_.low + least(tile_, split_.higher);
    }
    const attention_arguments<In, Out>& a_;
    const attend_layout& space_;
    const attention_piece& piece_;
    row_split split_;
    Sum* results_;
    std::ptrdiff_t member_ = 0, tile_ = 0, row_ = 0;
};

/// Rows that see nothing; and results that gathered elsewhere, to where they belong.
template <class In, class Out>
HEADWISE_NOINLINE void finish_tiles(const attention_arguments<In, Out>& a, const attend_layout& space,
                                    attend_walk<In, Out>& walk, const attention_piece& piece) {
    for (walk.restart(); walk.more(); walk.next()) {
        const auto tile = walk.tile();
        Out* const to = a.out.head(piece.batch, tile.head) + tile.row * a.out.row();
        if (tile.first >= tile.last) {
            for (std::ptrdiff_t r = 0; r < tile.rows; ++r)
                for (std::ptrdiff_t d = 0; d < a.value_depth; ++d) to[r * a.out.row() + d * a.out.column()] = Out{};
        } else if (space.results != 0) {
            write_rows<typename tiling<In>::vector>(to, a.out.row(), a.out.column(), tile.out, tile.out_row, tile.rows,
                                                    a.value_depth);
        }
    }
}

template <class In, class Out>
void attend(const attention_arguments<In, Out>& a, const attention_piece& piece, sum_of<In>* workspace,
            row_state<sum_of<In>>* states) {
    using Sum = sum_of<In>;
    const attend_layout space = attend_layout_of(a, piece.last - piece.first);
    Sum* const copy = workspace + space.panels;
    attend_walk<In, Out> walk(a, space, piece, copy + space.values + space.q_rows + space.logits);
    std::ptrdiff_t first_seen = a.columns, last_seen = 0, first_row = a.rows, last_row = 0;
    for (; walk.more(); walk.next()) {
        const attend_tile<Sum> tile = walk.tile();
        first_row = least(first_row, tile.row);
        last_row = most(last_row, tile.row + tile.rows - 1);
        first_seen = least(first_seen, tile.first);
        last_seen = most(last_seen, tile.last);
        for (std::ptrdiff_t r = 0; r < tile.rows; ++r) states[walk.state() + r] = {minus_infinity<Sum>, 0};
    }
    const In* const k = a.k.head(piece.batch, piece.kv_head);
    const In* const v = a.v.head(piece.batch, piece.kv_head);
    value_block<In, Sum> values;
    for (std::ptrdiff_t first = round_down(first_seen, space.block_columns); first < last_seen;
         first += space.block_columns) {
        const std::ptrdiff_t columns = least(space.block_columns, a.columns - first), end = first + columns;
        {
            HEADWISE_PROBE("pack k and v");
            pack(workspace, k + first * a.k.row(), a.k.row(), a.k.column(), columns, a.depth);
            prepare_values(a, v + first * a.v.row(), columns,
                           a.is_masked(first_row, first, end) || a.is_masked(last_row, first, end), false, copy,
                           values);
        }
        HEADWISE_PROBE("tiles");
        for (walk.restart(); walk.more(); walk.next()) {
            const attend_tile<Sum> tile = walk.tile();
            if (most(tile.first, first) >= least(tile.last, end)) continue;
            attend_block(a, space, tile, {piece.batch, tile.head, tile.row, tile.rows, first, columns}, values,
                         workspace, states + walk.state());
        }
    }
    finish_tiles(a, space, walk, piece);
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END

#include <headwise/kernel/decode.inl>
#include <headwise/kernel/weigh.inl>

namespace headwise::kernel::HEADWISE_TARGET {

template <class In, class Out = In>
inline constexpr attention_kernel<In, Out> attention_entry{
    attend<In, Out>,        attend_workspace<In, Out>, attend_few<In, Out>,
    few_workspace<In, Out>, merge_chunks<In, Out>,     weigh<In, Out>,
    logits<In, Out>,        weigh_workspace<In, Out>,  tiling<In>::rows,
    few_tile_rows,          tiling<In>::lanes};

}  // namespace headwise::kernel::HEADWISE_TARGET
