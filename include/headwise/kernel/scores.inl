// The kernel of batched scores, once for every target: included by each file in targets/, never by itself.
//
// Every output is one chain of multiply-adds, d ascending from zero, whatever the path, the tile, the thread or the
// batch: results are bitwise the same on all of them, and on every target that has a fused multiply-add.
//
//   few_rows   up to `few` rows: K is read once, transposed in registers and used at once
//   pack       K -> panels [d][width], so that lanes run along m
//   tile       rows x width outputs held in registers: broadcast q, multiply-add against a panel row
//   scores     walks heads, blocks of columns that fit the L2 cache, row tiles, panels

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// The register tile: rows x vectors accumulators, a panel row and a broadcast, all in registers.
template <class Scalar>
struct tiling {
    using vector = typename registers_of<Scalar>::wide;
    static constexpr int lanes = vector::lanes;
    static constexpr int vectors = 2;
    static constexpr int width = vectors * lanes;
    static constexpr int rows = registers_of<Scalar>::count == 32 ? 14 : 6;
    static constexpr int few = registers_of<Scalar>::count == 32 ? 8 : 6;
    static constexpr int most_odd = lanes / 4;  // columns beyond a whole vector that are better computed as few rows
};

// ---------------------------------------------------------------------------------------------- transposing K

/// Loads rows x columns (each 1 ... lanes) elements at k, unit stride along a row, and transposes them. Lanes from `rows`
/// on repeat the last row: they are never stored, and nothing outside of the rows x columns is read.
template <class V>
HEADWISE_INLINE void load_transposed(typename V::vec (&block)[V::lanes], const typename V::scalar* k,
                                     std::ptrdiff_t row, int rows, int columns) {
    if (columns != V::lanes) {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) block[i] = V::load_first(k + (i < rows ? i : rows - 1) * row, columns);
    } else if (rows != V::lanes) {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) block[i] = V::load(k + (i < rows ? i : rows - 1) * row);
    } else {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) block[i] = V::load(k + i * row);
    }
    V::transpose(block);
}

/// One vector's worth of columns of a panel: panel[d * width + i] = k[i * row + d] for i < rows.
template <class V>
HEADWISE_NOINLINE void pack_lanes(typename V::scalar* panel, std::ptrdiff_t width, const typename V::scalar* k,
                                  std::ptrdiff_t row, int rows, std::ptrdiff_t depth) {
    typename V::vec block[V::lanes];
    std::ptrdiff_t d = 0;
    for (; d + V::lanes <= depth; d += V::lanes) {
        load_transposed<V>(block, k + d, row, rows, V::lanes);
        HEADWISE_UNROLL
        for (int j = 0; j < V::lanes; ++j) V::store(panel + (d + j) * width, block[j]);
    }
    if (d == depth) return;
    const int left = static_cast<int>(depth - d);
    load_transposed<V>(block, k + d, row, rows, left);
    HEADWISE_UNROLL
    for (int j = 0; j < V::lanes; ++j)
        if (j < left) V::store(panel + (d + j) * width, block[j]);
}

/// The same for any stride along d.
template <class V>
HEADWISE_NOINLINE void gather_lanes(typename V::scalar* panel, std::ptrdiff_t width, const typename V::scalar* k,
                                    std::ptrdiff_t row, std::ptrdiff_t column, int rows, std::ptrdiff_t depth) {
    for (std::ptrdiff_t d = 0; d < depth; ++d)
        for (int i = 0; i < V::lanes; ++i) panel[d * width + i] = k[(i < rows ? i : rows - 1) * row + d * column];
}

/// K's rows (columns of the result) -> panels of `tiling::width`; the last one as narrow as its vectors.
template <class Scalar>
HEADWISE_NOINLINE void pack(Scalar* panels, const Scalar* k, std::ptrdiff_t row, std::ptrdiff_t column,
                            std::ptrdiff_t columns, std::ptrdiff_t depth) {
    using tiles = tiling<Scalar>;
    for (std::ptrdiff_t m = 0; m < columns; m += tiles::lanes) {
        const std::ptrdiff_t in_panel = m % tiles::width, first = m - in_panel;
        const std::ptrdiff_t width = columns - first > tiles::lanes ? tiles::width : tiles::lanes;
        const int rows = columns - m < tiles::lanes ? static_cast<int>(columns - m) : tiles::lanes;
        Scalar* const lanes = panels + first * depth + in_panel;
        if (column == 1) pack_lanes<typename tiles::vector>(lanes, width, k + m * row, row, rows, depth);
        else gather_lanes<typename tiles::vector>(lanes, width, k + m * row, row, column, rows, depth);
    }
}

// ---------------------------------------------------------------------------------------------- the register tile

/// How a tile's results leave the registers.
template <class Scalar>
struct finish {
    Scalar scale;
    int last_lanes;  // valid lanes in the last vector of each row
    bool stream;
};

/// One addition a row: left to itself GCC prepares the addresses of all rows beforehand, and spills them.
template <class Scalar>
HEADWISE_INLINE void next_row(Scalar*& out, std::ptrdiff_t out_row) {
    out += out_row;
    HEADWISE_OPAQUE(out);
}

template <class V, int Rows, int Vectors>
HEADWISE_INLINE void write_tile(typename V::vec (&sum)[Rows][Vectors], typename V::scalar* out, std::ptrdiff_t out_row,
                                const finish<typename V::scalar>& how) {
    if (how.scale != 1) {
        const auto scale = V::broadcast(&how.scale);
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = V::mul(sum[r][i], scale);
        }
    }
    if (how.last_lanes != V::lanes) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i + 1 < Vectors; ++i) V::store(out + i * V::lanes, sum[r][i]);
            V::store_first(out + (Vectors - 1) * V::lanes, sum[r][Vectors - 1], how.last_lanes);
            next_row(out, out_row);
        }
    } else if (how.stream) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) V::stream(out + i * V::lanes, sum[r][i]);
            next_row(out, out_row);
        }
    } else {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) V::store(out + i * V::lanes, sum[r][i]);
            next_row(out, out_row);
        }
    }
}

/// Rows x (Vectors * lanes) outputs: q (Rows, depth), unit stride along d, against one panel.
template <class V, int Rows, int Vectors>
HEADWISE_NOINLINE void tile(const typename V::scalar* q, std::ptrdiff_t q_row, const typename V::scalar* panel,
                            std::ptrdiff_t depth, typename V::scalar* out, std::ptrdiff_t out_row,
                            const finish<typename V::scalar>& how) {
    typename V::vec sum[Rows][Vectors];
    HEADWISE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) sum[r][i] = V::zero();
    }
    HEADWISE_UNROLL_4
    for (std::ptrdiff_t d = 0; d < depth; ++d, ++q, panel += Vectors * V::lanes) {
        typename V::vec key[Vectors];
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) key[i] = V::load(panel + i * V::lanes);
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const auto query = V::broadcast(q + r * q_row);
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = V::madd(query, key[i], sum[r][i]);
        }
    }
    write_tile<V, Rows, Vectors>(sum, out, out_row, how);
}

template <class Scalar>
using tile_function = void (*)(const Scalar*, std::ptrdiff_t, const Scalar*, std::ptrdiff_t, Scalar*, std::ptrdiff_t,
                               const finish<Scalar>&);

/// tile<V, 1>, tile<V, 2>, ... up to the most rows that the registers hold.
template <class V, int Vectors, int MostRows>
struct tile_table {
    tile_function<typename V::scalar> by_rows[MostRows];

    constexpr tile_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = tile<V, Rows, Vectors>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

// ---------------------------------------------------------------------------------------------- few rows

/// sum[r] += q[r][0 ... count) . block: the transposed block of K is used where it lies, in registers.
template <class V, int Rows>
HEADWISE_INLINE void accumulate(typename V::vec (&sum)[Rows][1], const typename V::scalar* q, std::ptrdiff_t q_row,
                                const typename V::vec (&block)[V::lanes], int count) {
    const typename V::scalar* rows[Rows];
    HEADWISE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        rows[r] = q + r * q_row;
        HEADWISE_OPAQUE(rows[r]);  // else GCC adds up every address from scratch
    }
    HEADWISE_UNROLL
    for (int j = 0; j < V::lanes; ++j) {
        if (j >= count) continue;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) sum[r][0] = V::madd(V::broadcast(rows[r] + j), block[j], sum[r][0]);
    }
}

/// Rows x columns outputs straight from K, which has unit stride along d.
template <class V, int Rows>
HEADWISE_NOINLINE void few_rows(const scores_arguments<typename V::scalar>& a, const typename V::scalar* q,
                                const typename V::scalar* k, typename V::scalar* out) {
    typename V::vec block[V::lanes], sum[Rows][1];
    for (std::ptrdiff_t m = 0; m < a.columns; m += V::lanes, k += V::lanes * a.k.row(), out += V::lanes) {
        const int valid = a.columns - m < V::lanes ? static_cast<int>(a.columns - m) : V::lanes;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) sum[r][0] = V::zero();
        std::ptrdiff_t d = 0;
        for (; d + V::lanes <= a.depth; d += V::lanes) {
            load_transposed<V>(block, k + d, a.k.row(), valid, V::lanes);
            accumulate<V, Rows>(sum, q + d, a.q.row(), block, V::lanes);
        }
        if (d < a.depth) {
            const int left = static_cast<int>(a.depth - d);
            load_transposed<V>(block, k + d, a.k.row(), valid, left);
            accumulate<V, Rows>(sum, q + d, a.q.row(), block, left);
        }
        write_tile<V, Rows, 1>(sum, out, a.out.row(), {a.scale, valid, false});
    }
}

template <class V, int MostRows>
struct few_rows_table {
    using scalar = typename V::scalar;
    void (*by_rows[MostRows])(const scores_arguments<scalar>&, const scalar*, const scalar*, scalar*);

    constexpr few_rows_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = few_rows<V, Rows>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

/// The shortest register that holds a row of the result computes it: its transposes are the cheapest.
template <class Scalar>
void few(const scores_arguments<Scalar>& a, head_range range) {
    using registers = registers_of<Scalar>;
    static constexpr few_rows_table<typename registers::wide, tiling<Scalar>::few> wide;
    static constexpr few_rows_table<typename registers::narrow, tiling<Scalar>::few> narrow;
    static constexpr few_rows_table<typename registers::narrowest, tiling<Scalar>::few> narrowest;
    const auto& table = a.columns > registers::narrow::lanes      ? wide.by_rows
                        : a.columns > registers::narrowest::lanes ? narrow.by_rows
                                                                  : narrowest.by_rows;
    const auto compute = table[a.rows - 1];
    for (head_walk<Scalar> head(a, range); head.more(); head.next()) compute(a, head.q, head.k, head.out);
}

// ---------------------------------------------------------------------------------------------- the walk

/// to[r * to_row + c * to_column] = from[r * from_row + c * from_column].
template <class Scalar>
HEADWISE_NOINLINE void copy(Scalar* to, std::ptrdiff_t to_row, std::ptrdiff_t to_column, const Scalar* from,
                            std::ptrdiff_t from_row, std::ptrdiff_t from_column, std::ptrdiff_t rows,
                            std::ptrdiff_t columns) {
    for (std::ptrdiff_t r = 0; r < rows; ++r)
        for (std::ptrdiff_t c = 0; c < columns; ++c)
            to[r * to_row + c * to_column] = from[r * from_row + c * from_column];
}

/// One to four columns beyond the last whole vector of sixteen (one or two of eight): in a tile they would cost as much as
/// all of its lanes. (64,3,49,49,32): 1.09 times as fast with q and k changing places for the 49th.
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
    const std::ptrdiff_t depth = a.depth > 0 ? a.depth : 1;
    std::ptrdiff_t block = packed_bytes / std::ptrdiff_t{sizeof(Scalar)} / depth;
    if (block > a.columns) block = a.columns + tiles::width - 1;
    block = block < tiles::width ? tiles::width : block / tiles::width * tiles::width;
    layout space{block, block * depth};
    // Rows of Q that lie a multiple of 4096 bytes apart share one set of the L1 cache, which has fewer ways than a tile
    // has rows.
    if (a.q.column() != 1 || a.q.row() * std::ptrdiff_t{sizeof(Scalar)} % 4096 == 0)
        space.q_rows = (tiles::rows * depth + 15) / 16 * 16;
    if (a.out.column() != 1) space.results = tiles::rows * block;
    return space;
}

template <class Scalar>
std::ptrdiff_t workspace_size(const scores_arguments<Scalar>& a) {
    return layout_of(a).size();
}

/// What the coming tiles will read: the next tile's rows of Q, the next block of K.
struct fetch_ahead {
    fetch_queue q, k;
    std::ptrdiff_t q_slice = 0, k_slice = 0;  // lines between two tiles

    HEADWISE_INLINE void fetch_slices() noexcept {
        q.fetch(q_slice);
        k.fetch(k_slice);
    }
};

/// One row tile against all panels of a block.
template <class Scalar>
HEADWISE_INLINE void row_of_tiles(const Scalar* q, std::ptrdiff_t q_row, const Scalar* panels, std::ptrdiff_t depth,
                                  Scalar* out, std::ptrdiff_t out_row, std::ptrdiff_t rows, std::ptrdiff_t columns,
                                  Scalar scale, bool stream, fetch_ahead& ahead) {
    using tiles = tiling<Scalar>;
    static constexpr tile_table<typename tiles::vector, 2, tiles::rows> two_vectors;
    static constexpr tile_table<typename tiles::vector, 1, tiles::rows> one_vector;
    const finish<Scalar> whole{scale, tiles::lanes, stream};
    std::ptrdiff_t m = 0;
    for (; m + tiles::width <= columns; m += tiles::width) {
        ahead.fetch_slices();
        two_vectors.by_rows[rows - 1](q, q_row, panels + m * depth, depth, out + m, out_row, whole);
    }
    if (m == columns) return;
    ahead.fetch_slices();
    const int tail = static_cast<int>((columns - m) % tiles::lanes);
    const finish<Scalar> last{scale, tail ? tail : tiles::lanes, stream};
    const auto& table = columns - m > tiles::lanes ? two_vectors.by_rows : one_vector.by_rows;
    table[rows - 1](q, q_row, panels + m * depth, depth, out + m, out_row, last);
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
    constexpr std::ptrdiff_t bytes = sizeof(Scalar);
    Scalar* const panels = workspace;
    Scalar* const q_rows = panels + space.panels;
    Scalar* const results = q_rows + space.q_rows;
    pack(panels, block.k, a.k.row(), a.k.column(), block.columns, a.depth);

    fetch_ahead ahead;
    const std::ptrdiff_t panel_count = (block.columns + tiles::width - 1) / tiles::width;
    if (block.next_q != nullptr) {
        ahead.k = {block.next_k, block.columns, a.depth * bytes, a.k.row() * bytes};
        ahead.k_slice = ahead.k.lines() / (split.tiles * panel_count) + 1;
    }
    const Scalar* q = block.q;
    Scalar* out = block.out;
    for (std::ptrdiff_t t = 0; t < split.tiles; ++t) {
        const std::ptrdiff_t rows = split.height(t);
        if (a.prefetch) {
            const Scalar* const next = t + 1 < split.tiles ? q + rows * a.q.row() : block.next_q;
            ahead.q = {next, next != nullptr ? split.low : 0, a.depth * bytes, a.q.row() * bytes};
            ahead.q_slice = ahead.q.lines() / panel_count + 1;
        }
        const bool gather = space.q_rows != 0, scatter = space.results != 0;
        if (gather) copy(q_rows, a.depth, std::ptrdiff_t{1}, q, a.q.row(), a.q.column(), rows, a.depth);
        row_of_tiles(gather ? q_rows : q, gather ? a.depth : a.q.row(), panels, a.depth, scatter ? results : out,
                     scatter ? space.block_columns : a.out.row(), rows, block.columns, a.scale, a.stream && !scatter,
                     ahead);
        if (scatter)
            copy(out, a.out.row(), a.out.column(), results, space.block_columns, std::ptrdiff_t{1}, rows, block.columns);
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
