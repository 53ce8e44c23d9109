// Panels: rows become lanes. K's rows, along m, and the rows of Q that are not read where they lie. Included once for
// every target, by scores.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// The register tile: rows x vectors accumulators, a panel row and a broadcast, all in registers.
template <class Scalar>
struct tiling {
    using vector = typename registers_of<Scalar>::wide;
    static constexpr int lanes = vector::lanes;
    static constexpr int vectors = 2;
    static constexpr int width = vectors * lanes;
    static constexpr int rows = registers_of<Scalar>::tile_rows;
    // The sums of a tile leave the registers at once; the more there are, the longer the next tile waits. With
    // registers of 64 bytes up to ten rows make (8,1,1024,1024,16) 1.06 times as fast as up to fourteen,
    // (16,12,256,256,32) 1.04.
    static constexpr int usual_rows = lanes > 4 && rows > 10 ? 10 : rows;
    static constexpr int few = registers_of<Scalar>::few_rows;
    static constexpr int most_odd = lanes / 4;  // columns beyond a whole vector that are better computed as few rows
    static constexpr int q_width = (rows + lanes - 1) / lanes * lanes;  // of a panel of a tile's rows of Q
};

/// One addition a row: left to itself GCC prepares the addresses of all rows beforehand, and spills them.
template <class Scalar>
HEADWISE_INLINE void next_row(Scalar*& row, std::ptrdiff_t step) {
    row += step;
    HEADWISE_OPAQUE(row);
}

/// Loads rows x columns (1 ... lanes, 1 ... lanes entries) elements at k, unit stride along a row, and transposes them.
/// Lanes from `rows` on repeat the last row: they are never stored, and nothing outside of the rows x columns is read.
template <class V, class Stored = typename V::scalar>
HEADWISE_INLINE void load_transposed(typename V::vec (&block)[V::lanes], const Stored* k, std::ptrdiff_t row, int rows,
                                     int columns) {
    using elements = memory<V, Stored>;
    if constexpr (V::lanes > 8) HEADWISE_OPAQUE(row);  // else GCC keeps the addresses of all rows, in memory
    if (columns != V::lanes * per_entry<V>()) {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) {
            block[i] = elements::load_first(k, columns);
            next_row(k, i + 1 < rows ? row : 0);
        }
    } else if (rows != V::lanes) {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) {
            block[i] = elements::load(k);
            next_row(k, i + 1 < rows ? row : 0);  // the last row again
        }
    } else {
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) {
            block[i] = elements::load(k);
            if constexpr (V::lanes > 8) next_row(k, row);
            else k += row;  // so few addresses fit the registers
        }
    }
    V::transpose(block);
}

/// One vector's worth of columns of a panel: panel[d * Width + i] = k[i * row + d] for i < rows, entry for entry.
template <class V, int Width, class Stored = typename V::scalar>
HEADWISE_NOINLINE void pack_lanes(typename V::scalar* panel, const Stored* k, std::ptrdiff_t row, int rows,
                                  std::ptrdiff_t depth) {
    constexpr int step = V::lanes * per_entry<V>();
    typename V::vec block[V::lanes];
    for (; depth >= step; depth -= step, k += step, panel += V::lanes * Width) {
        load_transposed<V>(block, k, row, rows, step);
        HEADWISE_UNROLL
        for (int j = 0; j < V::lanes; ++j) V::store(panel + j * Width, block[j]);
    }
    if (depth == 0) return;
    load_transposed<V>(block, k, row, rows, static_cast<int>(depth));
    HEADWISE_UNROLL
    for (int j = 0; j < V::lanes; ++j)
        if (j < entries<V>(depth)) V::store(panel + j * Width, block[j]);
}

/// The same where the rows lie side by side: panel[d * Width + i] = k[i + d * column]. Lanes from `rows` on are zero.
template <class V, int Width, class Stored>
HEADWISE_NOINLINE void copy_lanes(typename V::scalar* panel, const Stored* k, std::ptrdiff_t column, int rows,
                                  std::ptrdiff_t depth) {
    using elements = memory<V, Stored>;
    if constexpr (per_entry<V>() == 2) {
        for (; depth > 1; depth -= 2, panel += Width, k += 2 * column)
            V::store(panel, elements::load_pairs(k, k + column, rows));
        if (depth == 1) V::store(panel, elements::load_low(k, rows));
    } else if (rows == V::lanes) {
        for (; depth > 0; --depth, panel += Width, k += column) V::store(panel, elements::load(k));
    } else {
        for (; depth > 0; --depth, panel += Width, k += column) V::store(panel, elements::load_first(k, rows));
    }
}

/// The same for any strides.
template <class V, int Width, class Stored>
HEADWISE_NOINLINE void gather_lanes(typename V::scalar* panel, const Stored* k, std::ptrdiff_t row,
                                    std::ptrdiff_t column, int rows, std::ptrdiff_t depth) {
    constexpr int step = per_entry<V>();
    for (; depth > 0; depth -= step, panel += Width, k += step * column)
        for (int i = 0; i < V::lanes; ++i) panel[i] = entry<V>(k + (i < rows ? i : rows - 1) * row, column, depth);
}

/// `count` rows become one panel of `Width`, a multiple of the lanes.
template <class V, int Width, class Stored>
HEADWISE_INLINE void pack_panel(typename V::scalar* panel, const Stored* k, std::ptrdiff_t row, std::ptrdiff_t column,
                                std::ptrdiff_t count, std::ptrdiff_t depth) {
    for (std::ptrdiff_t i = 0; i < count; i += V::lanes) {
        const int rows = count - i < V::lanes ? static_cast<int>(count - i) : V::lanes;
        if (column == 1) pack_lanes<V, Width>(panel + i, k + i * row, row, rows, depth);
        else if (row == 1) copy_lanes<V, Width>(panel + i, k + i, column, rows, depth);
        else gather_lanes<V, Width>(panel + i, k + i * row, row, column, rows, depth);
    }
}

/// The entries of a row, in whole vectors.
template <class V>
constexpr std::ptrdiff_t whole_vectors(std::ptrdiff_t depth) {
    return (entries<V>(depth) + V::lanes - 1) / V::lanes * V::lanes;
}

/// One row as it is, entry after entry: `whole_vectors` are written.
template <class V, class Stored>
HEADWISE_NOINLINE void gather_row(typename V::scalar* to, const Stored* from, std::ptrdiff_t column,
                                  std::ptrdiff_t depth) {
    constexpr int step = V::lanes * per_entry<V>();
    if (column == 1) {
        for (; depth >= step; depth -= step, to += V::lanes, from += step) V::store(to, memory<V, Stored>::load(from));
        if (depth > 0) V::store(to, memory<V, Stored>::load_first(from, static_cast<int>(depth)));
    } else {
        for (; depth > 0; depth -= per_entry<V>(), ++to, from += per_entry<V>() * column)
            *to = entry<V>(from, column, depth);
    }
}

/// K's rows (columns of the result) -> panels of `tiling::width`; the last one as narrow as its vectors.
template <class Stored>
HEADWISE_NOINLINE void pack(sum_of<Stored>* panels, const Stored* k, std::ptrdiff_t row, std::ptrdiff_t column,
                            std::ptrdiff_t columns, std::ptrdiff_t depth) {
    using tiles = tiling<Stored>;
    using V = typename tiles::vector;
    for (std::ptrdiff_t m = 0; m < columns; m += tiles::width, k += tiles::width * row) {
        const std::ptrdiff_t left = columns - m, count = left < tiles::width ? left : tiles::width;
        sum_of<Stored>* const panel = panels + m * entries<V>(depth);
        if (count > tiles::lanes) pack_panel<V, tiles::width>(panel, k, row, column, count, depth);
        else pack_panel<V, tiles::lanes>(panel, k, row, column, count, depth);
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
