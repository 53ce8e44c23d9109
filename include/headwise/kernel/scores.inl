// The kernel of batched scores, once for every target: included by each file in targets/, never by itself.
//
// Every output is one chain of multiply-adds, d ascending from zero, whatever the path, the tile, the thread or the
// batch: results are bitwise the same on all of them, and on every target that has a fused multiply-add.
//
//   storage.inl   elements in memory <-> lanes
//   pack.inl      K -> panels [d][width], so that lanes run along m
//   tile.inl      rows x width outputs held in registers: broadcast q, multiply-add against a panel row
//   few_rows.inl  up to `few` rows: K is read once, transposed in registers and used at once
//   here          the walk: heads, blocks of columns that fit the L2 cache, row tiles, panels

#include <headwise/kernel/pack.inl>
#include <headwise/kernel/tile.inl>
#include <headwise/kernel/few_rows.inl>

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// One to four columns beyond the last whole vector of sixteen (one or two of eight): in a tile they would cost as much
/// as all of its lanes. (64,3,49,49,32): 1.06 times as fast with q and k changing places for the 49th.
template <class In, class Out>
HEADWISE_INLINE std::ptrdiff_t odd_columns(const scores_arguments<In, Out>& a) {
    const std::ptrdiff_t odd = a.columns % tiling<In>::lanes;
    const bool worthwhile = odd <= tiling<In>::most_odd && a.depth >= tiling<In>::lanes;
    return is_own_sum<In> && worthwhile && a.q.column() == 1 && a.k.column() == 1 ? odd : 0;
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
    for (std::ptrdiff_t member = 0; member < a.members; ++member) {
        const Scalar* const q = head.q + member * a.q_member;
        Scalar* const out = head.out + member * a.out_member + first * a.out.column();
        for (std::ptrdiff_t row = 0; row < a.rows; row += chunk) {
            exchanged.columns = a.rows - row < chunk ? a.rows - row : chunk;
            by_columns.by_rows[odd - 1](exchanged, head.k + first * a.k.row(), q + row * a.q.row(), results);
            write_rows<typename tiles::vector>(out + row * a.out.row(), a.out.column(), a.out.row(), results, chunk,
                                               odd, exchanged.columns);
        }
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

/// The most rows of a tile: a narrow panel, which has half as many sums a row, needs more of them.
template <class In>
HEADWISE_INLINE std::ptrdiff_t tile_height(std::ptrdiff_t columns) {
    using tiles = tiling<In>;
    return columns <= tiles::width + tiles::lanes ? tiles::rows : tiles::usual_rows;
}

/// What lies where in the workspace, in scalars, and what is not needed there.
struct layout {
    std::ptrdiff_t block_columns;  // packed at a time
    std::ptrdiff_t panels;         // packed K
    std::ptrdiff_t q_tile = 0;     // a row tile of Q: rows `q_row` apart, or (0) a panel
    std::ptrdiff_t q_row = 0;
    std::ptrdiff_t results = 0;  // the outputs of a row tile, before they are scattered
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return panels + q_tile + results; }
};

template <class In, class Out>
layout layout_of(const scores_arguments<In, Out>& a) {
    using tiles = tiling<In>;
    using V = typename tiles::vector;
    const std::ptrdiff_t depth = entries<V>(a.depth);
    std::ptrdiff_t block = packed_bytes / std::ptrdiff_t{sizeof(sum_of<In>)} / depth;
    if (block > a.columns) block = a.columns + tiles::width - 1;
    block = block < tiles::width ? tiles::width : block / tiles::width * tiles::width;
    layout space{block, block * depth};
    // Rows of Q that lie a multiple of 4096 bytes apart share one set of the L1 cache, which has fewer ways than a tile
    // has rows.
    if (!is_own_sum<In> || a.q.column() != 1 || a.q.row() * std::ptrdiff_t{sizeof(In)} % 4096 == 0) {
        space.q_row = a.q.column() != 1 ? 0 : whole_vectors<V>(a.depth);
        if (space.q_row % (4096 / std::ptrdiff_t{sizeof(sum_of<In>)}) == 0 && a.q.column() == 1)
            space.q_row += V::lanes;
        space.q_tile = a.q.column() != 1 ? tiles::q_width * depth : tiles::rows * space.q_row;
    }
    if (a.out.column() != 1) space.results = tiles::rows * block;
    return space;
}

template <class In, class Out>
std::ptrdiff_t workspace_size(const scores_arguments<In, Out>& a) {
    return are_few(a) ? gathered_layout_of(a).size() : layout_of(a).size();
}

/// One head's q, of the group's first member, against `columns` rows of its k; and what will be read next.
template <class In, class Out>
struct column_block {
    const In *q, *k;
    Out* out;
    std::ptrdiff_t columns;
    const In *next_q, *next_k;  // null where there is nothing to fetch
};

/// How the columns of a block become panels: whole ones, of which the last may have a partial vector; then, for at most
/// one vector more, a narrow one.
template <class In>
struct panel_split {
    using tiles = tiling<In>;
    std::ptrdiff_t wide;
    bool has_narrow;
    int last_lanes, last_wide_lanes;

    HEADWISE_INLINE explicit panel_split(std::ptrdiff_t columns) {
        const std::ptrdiff_t rest = columns % tiles::width, tail = columns % tiles::lanes;
        has_narrow = rest != 0 && rest <= tiles::lanes;
        wide = (columns + tiles::width - 1) / tiles::width - (has_narrow ? 1 : 0);
        last_lanes = tail != 0 ? static_cast<int>(tail) : tiles::lanes;
        last_wide_lanes = has_narrow ? tiles::lanes : last_lanes;
    }
    [[nodiscard]] HEADWISE_INLINE std::ptrdiff_t tiles_across() const { return wide + (has_narrow ? 1 : 0); }
};

/// Results of a row of tiles, to where each belongs.
template <class Out>
HEADWISE_NOINLINE void scatter_rows(Out* out, const operand<Out>& strides, const Out* results, std::ptrdiff_t row,
                                    std::ptrdiff_t rows, std::ptrdiff_t columns) {
    for (std::ptrdiff_t r = 0; r < rows; ++r)
        for (std::ptrdiff_t m = 0; m < columns; ++m)
            out[r * strides.row() + m * strides.column()] = results[r * row + m];
}

/// One row of tiles.
template <class In, class Out>
HEADWISE_INLINE void compute_row(const tile_row<sum_of<In>, Out>& row, const panel_split<In>& across,
                                 std::ptrdiff_t rows) {
    using tiles = tiling<In>;
    static constexpr tile_table<typename tiles::vector, tiles::vectors, tiles::rows, Out> wide_tiles;
    static constexpr tile_table<typename tiles::vector, 1, tiles::rows, Out> narrow_tiles;
    wide_tiles.by_rows[rows - 1](row);
    if (!across.has_narrow) return;
    tile_row<sum_of<In>, Out> narrow = row;
    narrow.panels += across.wide * tiles::width * row.depth;
    narrow.out += across.wide * tiles::width;
    narrow.count = 1;
    narrow.last_lanes = across.last_lanes;
    narrow_tiles.by_rows[rows - 1](narrow);
}

template <class In, class Out>
HEADWISE_INLINE void compute_block(const scores_arguments<In, Out>& a, const layout& space, const row_split& split,
                                   const column_block<In, Out>& block, sum_of<In>* workspace) {
    using tiles = tiling<In>;
    using V = typename tiles::vector;
    constexpr std::ptrdiff_t bytes = sizeof(In), out_bytes = sizeof(Out);
    sum_of<In>* const q_tile = workspace + space.panels;
    Out* const results = reinterpret_cast<Out*>(q_tile + space.q_tile);
    {
        HEADWISE_PROBE("pack k");
        pack(workspace, block.k, a.k.row(), a.k.column(), block.columns, a.depth);
    }
    HEADWISE_PROBE("tiles");
    const panel_split<In> across(block.columns);
    const bool gather = space.q_tile != 0, scatter = space.results != 0;
    const bool as_panel = gather && space.q_row == 0;
    fetch_ahead ahead;
    if (a.prefetch)
        ahead.plan_k(block.next_k, {a.k.row(), a.k.column(), block.columns, a.depth, bytes},
                     a.members * split.tiles * across.tiles_across());
    tile_row<sum_of<In>, Out> row{q_tile,
                                  workspace,
                                  results,
                                  as_panel ? 1
                                  : gather ? space.q_row
                                           : a.q.row(),
                                  scatter ? space.block_columns : a.out.row(),
                                  entries<V>(a.depth),
                                  across.wide,
                                  a.scale,
                                  across.last_wide_lanes,
                                  a.stream && !scatter,
                                  a.prefetch ? &ahead : nullptr,
                                  as_panel ? tiles::q_width : 1,
                                  a.fetch_out && !scatter};
    for (std::ptrdiff_t member = 0; member < a.members; ++member) {
        const In* q = block.q + member * a.q_member;
        Out* out = block.out + member * a.out_member;
        const In* const next_member = member + 1 < a.members ? q + a.q_member : block.next_q;
        for (std::ptrdiff_t t = 0; t < split.tiles; ++t) {
            const std::ptrdiff_t rows = split.height(t);
            if (a.prefetch)
                ahead.plan_q(t + 1 < split.tiles ? q + rows * a.q.row() : next_member,
                             {a.q.row(), a.q.column(), rows, a.depth, bytes}, across.tiles_across());
            if (as_panel) pack_panel<V, tiles::q_width>(q_tile, q, a.q.row(), a.q.column(), rows, a.depth);
            else if (gather)
                for (std::ptrdiff_t r = 0; r < rows; ++r)
                    gather_row<V>(q_tile + r * space.q_row, q + r * a.q.row(), std::ptrdiff_t{1}, a.depth);
            if constexpr (is_own_sum<In>) row.q = gather ? q_tile : q;
            row.out = scatter ? results : out;
            if (row.stream) fetch_pages(out, rows, block.columns * out_bytes, a.out.row() * out_bytes);
            compute_row<In, Out>(row, across, rows);
            if (scatter) scatter_rows(out, a.out, results, space.block_columns, rows, block.columns);
            q += rows * a.q.row();
            out += rows * a.out.row();
        }
    }
}

template <class In, class Out>
void packed(const scores_arguments<In, Out>& a, head_range range, sum_of<In>* workspace) {
    if (are_few(a)) return few_gathered(a, range, workspace);
    const layout space = layout_of(a);
    const std::ptrdiff_t odd = odd_columns(a), even = a.columns - odd;
    const row_split split(a.rows, tile_height<In>(even));
    for (head_walk<In, Out> head(a, range); head.more(); head.next()) {
        for (std::ptrdiff_t first = 0; first < even; first += space.block_columns) {
            const std::ptrdiff_t left = even - first;
            column_block<In, Out> block{head.q,
                                        head.k + first * a.k.row(),
                                        head.out + first * a.out.column(),
                                        left < space.block_columns ? left : space.block_columns,
                                        nullptr,
                                        nullptr};
            if (a.prefetch && left > space.block_columns) {
                block.next_q = head.q;
                block.next_k = block.k + block.columns * a.k.row();
            } else if (a.prefetch) {
                head_walk<In, Out> after = head;
                after.next();
                if (after.more()) block.next_q = after.q, block.next_k = after.k;
            }
            compute_block(a, space, split, block, workspace);
        }
        if constexpr (is_own_sum<In> && tiling<In>::most_odd > 0) {
            if (odd != 0) swapped(a, head, odd);
        }
    }
    if (a.stream) tiling<In>::vector::fence();
}

/// Null where a call cannot go without a workspace.
template <class In, class Out>
constexpr auto few_or_null() {
    if constexpr (is_own_sum<In>) return few<In>;
    else return nullptr;
}

template <class In, class Out = In>
inline constexpr scores_kernel<In, Out> scores_entry{few_or_null<In, Out>(), packed<In, Out>, workspace_size<In, Out>,
                                                     tiling<In>::few, tiling<In>::rows};

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
