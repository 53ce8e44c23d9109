// The kernel of batched scores, once for every target: included by each file in targets/, never by itself.
//
// Every output is one chain of multiply-adds, d ascending from zero, whatever the path, the tile, the thread or the
// batch: results are bitwise the same on all of them, and on every target that has a fused multiply-add.
//
//   few_rows   up to `few` rows: K is read once, transposed in registers, never stored
//   pack       K -> panels [d][width], zero-padded, so that lanes run along m
//   tile       rows x width outputs held in registers: broadcast q, multiply-add against a panel row
//   scores     walks heads, blocks of columns that fit the L2 cache, row tiles, panels

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// How a tile's results leave the registers.
template <class Scalar>
struct finish {
    Scalar scale;
    int last_lanes;  // valid lanes in the last vector of each row
    bool stream;
};

template <class Scalar>
struct shape_of_tiles {
    using v = simd<Scalar>;
    static constexpr int lanes = v::lanes;
    static constexpr int vectors = 2;                             // the widest panel, in registers
    static constexpr int rows = v::registers == 32 ? 14 : 6;      // rows x vectors accumulators, all in registers
    static constexpr int few = v::registers == 32 ? 8 : 6;        // rows below which packing K does not pay
    static constexpr int width = vectors * lanes;
};

// ---------------------------------------------------------------------------------------------- transposing K

/// Loads rows x columns (each <= lanes) elements at k as rows of a block, zeros elsewhere, and transposes it.
template <class Scalar>
HEADWISE_INLINE void load_transposed(typename simd<Scalar>::vec (&block)[simd<Scalar>::lanes], const Scalar* k,
                                     std::ptrdiff_t row, std::ptrdiff_t column, int rows, int columns) {
    using v = simd<Scalar>;
    if (column != 1) [[unlikely]] {
        alignas(64) Scalar gathered[v::lanes * v::lanes] = {};
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) gathered[i * v::lanes + j] = k[i * row + j * column];
        HEADWISE_UNROLL
        for (int i = 0; i < v::lanes; ++i) block[i] = v::load(gathered + i * v::lanes);
    } else if (rows == v::lanes && columns == v::lanes) [[likely]] {
        HEADWISE_UNROLL
        for (int i = 0; i < v::lanes; ++i) block[i] = v::load(k + i * row);
    } else {
        HEADWISE_UNROLL
        for (int i = 0; i < v::lanes; ++i) block[i] = i < rows ? v::load_first(k + i * row, columns) : v::zero();
    }
    v::transpose(block);
}

/// One vector's worth of columns of a panel: panel[d * width + i] = k[i * row + d * column], i < rows, zero up to lanes.
template <class Scalar>
HEADWISE_NOINLINE void pack_lanes(Scalar* panel, std::ptrdiff_t width, const Scalar* k, std::ptrdiff_t row,
                                  std::ptrdiff_t column, int rows, std::ptrdiff_t depth) {
    using v = simd<Scalar>;
    typename v::vec block[v::lanes];
    std::ptrdiff_t d = 0;
    for (; d + v::lanes <= depth; d += v::lanes) {
        load_transposed<Scalar>(block, k + d * column, row, column, rows, v::lanes);
        HEADWISE_UNROLL
        for (int j = 0; j < v::lanes; ++j) v::store(panel + (d + j) * width, block[j]);
    }
    if (d == depth) return;
    const int left = static_cast<int>(depth - d);
    load_transposed<Scalar>(block, k + d * column, row, column, rows, left);
    HEADWISE_UNROLL
    for (int j = 0; j < v::lanes; ++j)
        if (j < left) v::store(panel + (d + j) * width, block[j]);
}

// ---------------------------------------------------------------------------------------------- the register tile

template <class Scalar, int Rows, int Vectors>
HEADWISE_INLINE void write_tile(typename simd<Scalar>::vec (&sum)[Rows][Vectors], Scalar* out, std::ptrdiff_t out_row,
                                const finish<Scalar>& how) {
    using v = simd<Scalar>;
    if (how.scale != Scalar(1)) {
        const auto scale = v::broadcast(&how.scale);
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = v::mul(sum[r][i], scale);
        }
    }
    if (how.stream) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) v::stream(out + r * out_row + i * v::lanes, sum[r][i]);
        }
    } else if (how.last_lanes == v::lanes) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) v::store(out + r * out_row + i * v::lanes, sum[r][i]);
        }
    } else {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i + 1 < Vectors; ++i) v::store(out + r * out_row + i * v::lanes, sum[r][i]);
            v::store_first(out + r * out_row + (Vectors - 1) * v::lanes, sum[r][Vectors - 1], how.last_lanes);
        }
    }
}

/// Rows x (Vectors * lanes) outputs: q (Rows, depth), unit stride along d, against one panel.
template <class Scalar, int Rows, int Vectors>
HEADWISE_NOINLINE void tile(const Scalar* q, std::ptrdiff_t q_row, const Scalar* panel, std::ptrdiff_t depth,
                            Scalar* out, std::ptrdiff_t out_row, const finish<Scalar>& how) {
    using v = simd<Scalar>;
    typename v::vec sum[Rows][Vectors];
    HEADWISE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) sum[r][i] = v::zero();
    }
    for (std::ptrdiff_t d = 0; d < depth; ++d) {
        typename v::vec key[Vectors];
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) key[i] = v::load(panel + i * v::lanes);
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const auto query = v::broadcast(q + r * q_row);
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = v::madd(query, key[i], sum[r][i]);
        }
        panel += Vectors * v::lanes;
        ++q;
    }
    write_tile<Scalar, Rows, Vectors>(sum, out, out_row, how);
}

template <class Scalar>
using tile_function = void (*)(const Scalar*, std::ptrdiff_t, const Scalar*, std::ptrdiff_t, Scalar*, std::ptrdiff_t,
                               const finish<Scalar>&);

template <class Scalar, int Vectors>
tile_function<Scalar> tile_for(std::ptrdiff_t rows) {
    static constexpr tile_function<Scalar> by_rows[] = {
        tile<Scalar, 1, Vectors>,  tile<Scalar, 2, Vectors>,  tile<Scalar, 3, Vectors>,  tile<Scalar, 4, Vectors>,
        tile<Scalar, 5, Vectors>,  tile<Scalar, 6, Vectors>,  tile<Scalar, 7, Vectors>,  tile<Scalar, 8, Vectors>,
        tile<Scalar, 9, Vectors>,  tile<Scalar, 10, Vectors>, tile<Scalar, 11, Vectors>, tile<Scalar, 12, Vectors>,
        tile<Scalar, 13, Vectors>, tile<Scalar, 14, Vectors>};
    return by_rows[rows - 1];
}

// ---------------------------------------------------------------------------------------------- few rows

/// Rows x columns outputs straight from K: each block of K is transposed in registers and used at once.
template <class Scalar, int Rows>
HEADWISE_NOINLINE void few_rows(const Scalar* q, std::ptrdiff_t q_row, const Scalar* k, std::ptrdiff_t k_row,
                                std::ptrdiff_t k_column, std::ptrdiff_t columns, std::ptrdiff_t depth, Scalar* out,
                                std::ptrdiff_t out_row, Scalar scale) {
    using v = simd<Scalar>;
    typename v::vec block[v::lanes], sum[Rows][1];
    for (std::ptrdiff_t m = 0; m < columns; m += v::lanes, k += v::lanes * k_row, out += v::lanes) {
        const int valid = columns - m < v::lanes ? static_cast<int>(columns - m) : v::lanes;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) sum[r][0] = v::zero();
        std::ptrdiff_t d = 0;
        for (; d + v::lanes <= depth; d += v::lanes) {
            load_transposed<Scalar>(block, k + d * k_column, k_row, k_column, valid, v::lanes);
            HEADWISE_UNROLL
            for (int j = 0; j < v::lanes; ++j) {
                HEADWISE_UNROLL
                for (int r = 0; r < Rows; ++r)
                    sum[r][0] = v::madd(v::broadcast(q + r * q_row + d + j), block[j], sum[r][0]);
            }
        }
        if (d < depth) {
            const int left = static_cast<int>(depth - d);
            load_transposed<Scalar>(block, k + d * k_column, k_row, k_column, valid, left);
            HEADWISE_UNROLL
            for (int j = 0; j < v::lanes; ++j) {
                if (j >= left) continue;
                HEADWISE_UNROLL
                for (int r = 0; r < Rows; ++r)
                    sum[r][0] = v::madd(v::broadcast(q + r * q_row + d + j), block[j], sum[r][0]);
            }
        }
        write_tile<Scalar, Rows, 1>(sum, out, out_row, {scale, valid, false});
    }
}

template <class Scalar>
using few_rows_function = void (*)(const Scalar*, std::ptrdiff_t, const Scalar*, std::ptrdiff_t, std::ptrdiff_t,
                                   std::ptrdiff_t, std::ptrdiff_t, Scalar*, std::ptrdiff_t, Scalar);

template <class Scalar>
few_rows_function<Scalar> few_rows_for(std::ptrdiff_t rows) {
    static constexpr few_rows_function<Scalar> by_rows[] = {few_rows<Scalar, 1>, few_rows<Scalar, 2>,
                                                            few_rows<Scalar, 3>, few_rows<Scalar, 4>,
                                                            few_rows<Scalar, 5>, few_rows<Scalar, 6>,
                                                            few_rows<Scalar, 7>, few_rows<Scalar, 8>};
    return by_rows[rows - 1];
}

// ---------------------------------------------------------------------------------------------- the walk

template <class Scalar>
HEADWISE_NOINLINE void scores_few(const scores_arguments<Scalar>& a, const scores_part& part) {
    const auto compute = few_rows_for<Scalar>(part.last_row - part.first_row);
    std::ptrdiff_t b = part.first_head / a.heads, h = part.first_head % a.heads;
    for (std::ptrdiff_t head = part.first_head; head < part.last_head; ++head) {
        compute(a.q.at(b, h) + part.first_row * a.q.row, a.q.row, a.k.at(b, h) + part.first_column * a.k.row, a.k.row,
                a.k.column, part.last_column - part.first_column, a.depth,
                a.out.at(b, h) + part.first_row * a.out.row + part.first_column, a.out.row, a.scale);
        if (++h == a.heads) h = 0, ++b;
    }
}

template <class Scalar>
void scores(const scores_arguments<Scalar>& a, const scores_part& part, Scalar* workspace, std::ptrdiff_t block_columns) {
    using tiles = shape_of_tiles<Scalar>;
    const std::ptrdiff_t rows = part.last_row - part.first_row;
    if (rows <= tiles::few) return scores_few(a, part);

    const std::ptrdiff_t row_tiles = (rows + tiles::rows - 1) / tiles::rows;
    const std::ptrdiff_t low = rows / row_tiles, high_tiles = rows % row_tiles;
    std::ptrdiff_t b = part.first_head / a.heads, h = part.first_head % a.heads;
    for (std::ptrdiff_t head = part.first_head; head < part.last_head; ++head) {
        for (std::ptrdiff_t c0 = part.first_column; c0 < part.last_column; c0 += block_columns) {
            const std::ptrdiff_t columns = part.last_column - c0 < block_columns ? part.last_column - c0 : block_columns;
            const Scalar* k = a.k.at(b, h) + c0 * a.k.row;
            // pack
            for (std::ptrdiff_t m = 0; m < columns; m += tiles::width) {
                const std::ptrdiff_t in_panel = columns - m < tiles::width ? columns - m : tiles::width;
                const std::ptrdiff_t vectors = (in_panel + tiles::lanes - 1) / tiles::lanes;
                Scalar* panel = workspace + m * a.depth;
                for (std::ptrdiff_t i = 0; i < vectors; ++i) {
                    const std::ptrdiff_t left = in_panel - i * tiles::lanes;
                    pack_lanes<Scalar>(panel + i * tiles::lanes, vectors * tiles::lanes,
                                       k + (m + i * tiles::lanes) * a.k.row, a.k.row, a.k.column,
                                       static_cast<int>(left < tiles::lanes ? left : tiles::lanes), a.depth);
                }
            }
            std::ptrdiff_t row = part.first_row;
            for (std::ptrdiff_t t = 0; t < row_tiles; ++t) {
                const std::ptrdiff_t tile_rows = low + (t < high_tiles);
                const auto wide = tile_for<Scalar, 2>(tile_rows);
                const auto narrow = tile_for<Scalar, 1>(tile_rows);
                const Scalar* q = a.q.at(b, h) + row * a.q.row;
                Scalar* out = a.out.at(b, h) + row * a.out.row + c0;
                for (std::ptrdiff_t m = 0; m < columns; m += tiles::width) {
                    const std::ptrdiff_t in_panel = columns - m < tiles::width ? columns - m : tiles::width;
                    const Scalar* panel = workspace + m * a.depth;
                    const std::ptrdiff_t tail = in_panel % tiles::lanes;
                    const finish<Scalar> how{a.scale, tail ? static_cast<int>(tail) : tiles::lanes, a.stream && !tail};
                    (in_panel > tiles::lanes ? wide : narrow)(q, a.q.row, panel, a.depth, out + m, a.out.row, how);
                }
                row += tile_rows;
            }
        }
        if (++h == a.heads) h = 0, ++b;
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
