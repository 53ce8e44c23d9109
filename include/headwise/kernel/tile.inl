// The register tile: rows x vectors accumulators, a row of a packed panel and a broadcast, all in registers. Included
// once for every target, by scores.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// Results leave the registers, of the last vector of each row only `last_lanes`. No step leads beyond the last row:
/// the stride of a single one may be anything.
template <class V, int Rows, int Vectors, class Out>
HEADWISE_INLINE void write_tile(typename V::vec (&sum)[Rows][Vectors], Out* out, std::ptrdiff_t out_row,
                                const typename V::scalar& factor, int last_lanes, bool stream) {
    using elements = memory<V, Out>;
    if (factor != 1) {
        const auto scale = V::broadcast(&factor);
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = V::mul(sum[r][i], scale);
        }
    }
    if (last_lanes != V::lanes) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i + 1 < Vectors; ++i) elements::store(out + i * V::lanes, sum[r][i]);
            elements::store_first(out + (Vectors - 1) * V::lanes, sum[r][Vectors - 1], last_lanes);
            if (r + 1 < Rows) next_row(out, out_row);
        }
    } else if (stream) {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            elements::stream(out, sum[r]);
            if (r + 1 < Rows) next_row(out, out_row);
        }
    } else {
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) elements::store(out + i * V::lanes, sum[r][i]);
            if (r + 1 < Rows) next_row(out, out_row);
        }
    }
}

/// A row of tiles: some rows of q against `count` panels, side by side in the result.
template <class Scalar, class Out = Scalar>
struct tile_row {
    const Scalar* q;
    const Scalar* panels;
    Out* out;
    std::ptrdiff_t q_row, out_row, depth, count;
    Scalar scale;
    int last_lanes;  // valid lanes in the last vector of the last panel
    bool stream;
    fetch_ahead* ahead;         // what to fetch between two tiles; null for nothing
    std::ptrdiff_t q_step = 1;  // between neighbours of q along d
    bool fetch_out = false;     // the lines of a tile's results, before it is computed
};

/// Rows x (Vectors * lanes) outputs a panel. The loop over d is where the time goes: Vectors loads, Rows broadcasts and
/// Rows * Vectors multiply-adds a step, no spills (tests/assembly looks).
template <class V, int Rows, int Vectors, class Out = typename V::scalar>
HEADWISE_NOINLINE void tile(const tile_row<typename V::scalar, Out>& row) {
    constexpr int step = Rows > 10 ? 1 : 4;  // rows to an addition: as many as an address has multiples for, if few
    const auto* panel = row.panels;
    auto* out = row.out;
    for (std::ptrdiff_t left = row.count; left > 0; --left, out += Vectors * V::lanes) {
        if (row.ahead != nullptr) row.ahead->fetch_slices();
        constexpr std::ptrdiff_t out_bytes = sizeof(Out);
        if (row.fetch_out) fetch_to_write(out, Rows, Vectors * V::lanes * out_bytes, row.out_row * out_bytes);
        typename V::vec sum[Rows][Vectors];
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) sum[r][i] = V::zero();
        }
        const auto* q = row.q;
        HEADWISE_KEEP_ROLLED
        for (std::ptrdiff_t d = row.depth; d > 0; --d, q += row.q_step, panel += Vectors * V::lanes) {
            typename V::vec key[Vectors];
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) key[i] = V::load(panel + i * V::lanes);
            const auto* at = q;
            HEADWISE_UNROLL
            for (int r = 0; r < Rows; ++r) {
                const auto query = V::broadcast(at + r % step * row.q_row);
                if (r % step == step - 1) next_row(at, step * row.q_row);
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) sum[r][i] = V::madd(query, key[i], sum[r][i]);
            }
        }
        write_tile<V, Rows, Vectors>(sum, out, row.out_row, row.scale, left == 1 ? row.last_lanes : V::lanes,
                                     row.stream);
    }
}

/// tile<V, 1>, tile<V, 2>, ... up to the most rows that the registers hold.
template <class V, int Vectors, int MostRows, class Out = typename V::scalar>
struct tile_table {
    void (*by_rows[MostRows])(const tile_row<typename V::scalar, Out>&);

    constexpr tile_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = tile<V, Rows, Vectors, Out>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
