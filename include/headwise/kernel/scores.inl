// The kernel of batched scores, once for every target: included by each file in targets/, never by itself.
//
// Every output is one chain of multiply-adds, d ascending from zero, whatever the path, the tile, the thread or the
// batch: results are bitwise the same on all of them, and on every target that has a fused multiply-add.
//
//   pack.inl      K -> panels [d][width], so that lanes run along m
//   tile.inl      rows x width outputs held in registers: broadcast q, multiply-add against a panel row
//   few_rows.inl  up to `few` rows: K is read once, transposed in registers and used at once
//   here          the walk: heads, blocks of columns that fit the L2 cache, row tiles, panels

#include <headwise/kernel/pack.inl>
#include <headwise/kernel/tile.inl>
#include <headwise/kernel/few_rows.inl>

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// to[r * to_row + c * to_column] = from[r * from_row + c * from_column].
template <class Scalar>
HEADWISE_NOINLINE void copy(Scalar* to, std::ptrdiff_t to_row, std::ptrdiff_t to_column, const Scalar* from,
                            std::ptrdiff_t from_row, std::ptrdiff_t from_column, std::ptrdiff_t rows,
                            std::ptrdiff_t columns) {
    for (std::ptrdiff_t r = 0; r < rows; ++r)
        for (std::ptrdiff_t c = 0; c < columns; ++c)
            to[r * to_row + c * to_column] = from[r * from_row + c * from_column];
}

/// One to four columns beyond the last whole vector of sixteen (one or two of eight): in a tile they would cost as much
/// as all of its lanes. (64,3,49,49,32): 1.06 times as fast with q and k changing places for the 49th.
template <class Scalar>
HEADWISE_INLINE std::ptrdiff_t odd_columns(const scores_arguments<Scalar>& a) {
    const std::ptrdiff_t odd = a.columns % tiling<Scalar>::lanes;
    const bool worthwhile = odd <= tiling<Scalar>::most_odd && a.depth >= tiling<Scalar>::lanes;
    return worthwhile && a.q.column() == 1 && a.k.column() == 1 ? odd : 0;
}

/// The last `odd` columns of one head, lanes running along l: the few rows are K's, what is transposed is Q.
template <class Scalar>
HEADWISE_NOINLINE void swapped(const scores_arguments<Scalar>& a, const head_walk<Scalar>& head, std::ptrdiff_t odd) {
    using tiles = tiling<Scalar>;
    static constexpr few_rows_table<typename tiles::vector, tiles::most_odd> by_columns;
    constexpr std::ptrdiff_t chunk = 4 * tiles::lanes, strides[4] = {0, 0, chunk, 1};
    alignas(64) Scalar results[tiles::most_odd * chunk];
    scores_arguments<Scalar> exchanged = a;
    exchanged.q = a.k;
    exchanged.k = a.q;
    exchanged.out = {results, strides};
    const std::ptrdiff_t first = a.columns - odd;
    for (std::ptrdiff_t row = 0; row < a.rows; row += chunk) {
        exchanged.columns = a.rows - row < chunk ? a.rows - row : chunk;
        by_columns.by_rows[odd - 1](exchanged, head.k + first * a.k.row(), head.q + row * a.q.row(), results);
        copy(head.out + row * a.out.row() + first * a.out.column(), a.out.column(), a.out.row(), results, chunk,
             std::ptrdiff_t{1}, odd, exchanged.columns);
    }
}

/// The rows of a head as tiles of nearly equal height: L = 197 is 15 tiles of 13 or 14 rows, not 14 and a tail of one.
struct row_split {
    std::ptrdiff_t tiles, low, higher;

    HEADWISE_INLINE row_split(std::ptrdiff_t rows, std::ptrdiff_t most)
        : tiles((rows + most - 1) / most), low(rows / tiles), higher(rows % tiles) {}
    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t height(std::ptrdiff_t tile) const {
        return low + (tile < higher ? 1 : 0);
    }
};

/// What lies where in the workspace, in scalars, and what is not needed there.
struct layout {
    std::ptrdiff_t block_columns;  // packed at a time
    std::ptrdiff_t panels;         // packed K
    std::ptrdiff_t q_rows = 0;     // a row tile of Q, gathered
    std::ptrdiff_t results = 0;    // the outputs of a row tile, before they are scattered
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return panels + q_rows + results; }
};

template <class Scalar>
layout layout_of(const scores_arguments<Scalar>& a) {
    using tiles = tiling<Scalar>;
    std::ptrdiff_t block = packed_bytes / std::ptrdiff_t{sizeof(Scalar)} / a.depth;
    if (block > a.columns) block = a.columns + tiles::width - 1;
    block = block < tiles::width ? tiles::width : block / tiles::width * tiles::width;
    layout space{block, block * a.depth};
    // Rows of Q that lie a multiple of 4096 bytes apart share one set of the L1 cache, which has fewer ways than a tile
    // has rows.
    if (a.q.column() != 1 || a.q.row() * std::ptrdiff_t{sizeof(Scalar)} % 4096 == 0)
        space.q_rows = (tiles::rows * a.depth + 15) / 16 * 16;
    if (a.out.column() != 1) space.results = tiles::rows * block;
    return space;
}

template <class Scalar>
std::ptrdiff_t workspace_size(const scores_arguments<Scalar>& a) {
    return layout_of(a).size();
}

/// One head's q against `columns` rows of its k; and what will be read next.
template <class Scalar>
struct column_block {
    const Scalar *q, *k;
    Scalar* out;
    std::ptrdiff_t columns;
    const Scalar *next_q, *next_k;  // null where there is nothing to fetch
};

template <class Scalar>
HEADWISE_INLINE void compute_block(const scores_arguments<Scalar>& a, const layout& space, const row_split& split,
                                   const column_block<Scalar>& block, Scalar* workspace) {
    using tiles = tiling<Scalar>;
    static constexpr tile_table<typename tiles::vector, tiles::vectors, tiles::rows> wide_tiles;
    static constexpr tile_table<typename tiles::vector, 1, tiles::rows> narrow_tiles;
    constexpr std::ptrdiff_t bytes = sizeof(Scalar);
    Scalar* const panels = workspace;
    Scalar* const q_rows = panels + space.panels;
    Scalar* const results = q_rows + space.q_rows;
    pack(panels, block.k, a.k.row(), a.k.column(), block.columns, a.depth);

    // Whole panels, of which the last may have a partial vector; then, for at most one vector more, a narrow one.
    const std::ptrdiff_t rest = block.columns % tiles::width, tail = block.columns % tiles::lanes;
    const bool has_narrow = rest != 0 && rest <= tiles::lanes;
    const std::ptrdiff_t wide_count = (block.columns + tiles::width - 1) / tiles::width - (has_narrow ? 1 : 0);
    const bool gather = space.q_rows != 0, scatter = space.results != 0;
    const int last_lanes = tail != 0 ? static_cast<int>(tail) : tiles::lanes;

    fetch_ahead ahead;
    const std::ptrdiff_t tile_count = wide_count + (has_narrow ? 1 : 0);
    if (block.next_q != nullptr)
        ahead.plan_k(block.next_k, block.columns, a.depth * bytes, a.k.row() * bytes, split.tiles * tile_count);
    tile_row<Scalar> row{block.q,
                         panels,
                         block.out,
                         gather ? a.depth : a.q.row(),
                         scatter ? space.block_columns : a.out.row(),
                         a.depth,
                         wide_count,
                         a.scale,
                         has_narrow ? tiles::lanes : last_lanes,
                         a.stream && !scatter,
                         a.prefetch ? &ahead : nullptr};
    const Scalar* q = block.q;
    Scalar* out = block.out;
    for (std::ptrdiff_t t = 0; t < split.tiles; ++t) {
        const std::ptrdiff_t rows = split.height(t);
        if (a.prefetch)
            ahead.plan_q(t + 1 < split.tiles ? q + rows * a.q.row() : block.next_q, rows, a.depth * bytes,
                         a.q.row() * bytes, tile_count);
        if (gather) copy(q_rows, a.depth, std::ptrdiff_t{1}, q, a.q.row(), a.q.column(), rows, a.depth);
        row.q = gather ? q_rows : q;
        row.out = scatter ? results : out;
        wide_tiles.by_rows[rows - 1](row);
        if (has_narrow) {
            tile_row<Scalar> narrow = row;
            narrow.panels += wide_count * tiles::width * a.depth;
            narrow.out += wide_count * tiles::width;
            narrow.count = 1;
            narrow.last_lanes = last_lanes;
            narrow_tiles.by_rows[rows - 1](narrow);
        }
        if (scatter)
            copy(out, a.out.row(), a.out.column(), results, space.block_columns, std::ptrdiff_t{1}, rows,
                 block.columns);
        q += rows * a.q.row();
        out += rows * a.out.row();
    }
}

template <class Scalar>
void packed(const scores_arguments<Scalar>& a, head_range range, Scalar* workspace) {
    const layout space = layout_of(a);
    const row_split split(a.rows, tiling<Scalar>::rows);
    const std::ptrdiff_t odd = odd_columns(a), even = a.columns - odd;
    for (head_walk<Scalar> head(a, range); head.more(); head.next()) {
        for (std::ptrdiff_t first = 0; first < even; first += space.block_columns) {
            const std::ptrdiff_t left = even - first;
            column_block<Scalar> block{head.q, head.k + first * a.k.row(), head.out + first * a.out.column(),
                                       left < space.block_columns ? left : space.block_columns, nullptr, nullptr};
            if (a.prefetch && left > space.block_columns) {
                block.next_q = head.q;
                block.next_k = block.k + block.columns * a.k.row();
            } else if (a.prefetch) {
                head_walk<Scalar> after = head;
                after.next();
                if (after.more()) block.next_q = after.q, block.next_k = after.k;
            }
            compute_block(a, space, split, block, workspace);
        }
        if constexpr (tiling<Scalar>::most_odd > 0) {
            if (odd != 0) swapped(a, head, odd);
        }
    }
    if (a.stream) tiling<Scalar>::vector::fence();
}

template <class Scalar>
inline constexpr scores_kernel<Scalar> scores_entry{few<Scalar>, packed<Scalar>, workspace_size<Scalar>,
                                                    tiling<Scalar>::few, tiling<Scalar>::rows};

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
