// Transposing K: rows of K along d become lanes along m. Included once for every target, by scores.inl.

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
    static constexpr int few = registers_of<Scalar>::few_rows;
    static constexpr int most_odd = lanes / 4;  // columns beyond a whole vector that are better computed as few rows
};

/// Loads rows x columns (each 1 ... lanes) elements at k, unit stride along a row, and transposes them. Lanes from
/// `rows` on repeat the last row: they are never stored, and nothing outside of the rows x columns is read.
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

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
