// Weights times values: rows x vectors accumulators in registers, a row of V and broadcast weights. Included once for
// every target, by attention.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// Tiles of so few rows are fed from memory, and fetch ahead.
inline constexpr int few_tile_rows = 4;

/// v is then read so many rows at a time.
inline constexpr std::ptrdiff_t few_rows_of_v = 16;

/// A row tile's weights against all columns of V, side by side in the result.
template <class Scalar, class Stored>
struct values_row {
    const Scalar* weights;  // rows of logits_row
    const Stored* v;        // unit stride along d, whole vectors
    Scalar* out;
    std::ptrdiff_t v_row, out_row;
    std::ptrdiff_t columns;        // of the weights, rows of v
    std::ptrdiff_t groups;         // of `Vectors` vectors of v
    int last_lanes;                // valid lanes in out's last vector
    const Scalar *before, *after;  // factors for each row of what out holds, and of the result; null: nothing yet, none
    rows_ahead ahead;              // what to fetch meanwhile, where rows are few
};

template <class V, int Vectors>
HEADWISE_INLINE void load_row(typename V::vec (&sum)[Vectors], const typename V::scalar* out, int last_lanes) {
    HEADWISE_UNROLL
    for (int i = 0; i + 1 < Vectors; ++i) sum[i] = V::load(out + i * V::lanes);
    const auto* last = out + (Vectors - 1) * V::lanes;
    sum[Vectors - 1] = last_lanes == V::lanes ? V::load(last) : V::load_first(last, last_lanes);
}
template <class V, int Vectors>
HEADWISE_INLINE void store_row(const typename V::vec (&sum)[Vectors], typename V::scalar* out, int last_lanes) {
    HEADWISE_UNROLL
    for (int i = 0; i + 1 < Vectors; ++i) V::store(out + i * V::lanes, sum[i]);
    auto* last = out + (Vectors - 1) * V::lanes;
    if (last_lanes == V::lanes) V::store(last, sum[Vectors - 1]);
    else V::store_first(last, sum[Vectors - 1], last_lanes);
}

/// out = after * (before * out + weights . v), m ascending: one chain of multiply-adds for each element.
template <class V, int Rows, int Vectors, class Stored>
HEADWISE_NOINLINE void values_tile(const values_row<typename V::scalar, Stored>& row) {
    constexpr std::ptrdiff_t vector_bytes = V::lanes * std::ptrdiff_t{sizeof(Stored)}, piece = Vectors * vector_bytes;
    rows_ahead group_ahead = row.ahead;
    const auto* v_group = row.v;
    auto* out_group = row.out;
    for (std::ptrdiff_t left = row.groups; left > 0;
         --left, v_group += Vectors * V::lanes, out_group += Vectors * V::lanes) {
        const int last_lanes = left == 1 ? row.last_lanes : V::lanes;
        typename V::vec sum[Rows][Vectors];
        if (row.before == nullptr) {
            HEADWISE_UNROLL
            for (int r = 0; r < Rows; ++r) {
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) sum[r][i] = V::zero();
            }
        } else {
            auto* out = out_group;
            HEADWISE_UNROLL
            for (int r = 0; r < Rows; ++r) {
                load_row<V, Vectors>(sum[r], out, last_lanes);
                const auto factor = V::broadcast(row.before + r);
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) sum[r][i] = V::mul(sum[r][i], factor);
                next_row(out, row.out_row);
            }
        }
        const auto* weight = row.weights;
        const auto* v = v_group;
        std::uintptr_t ahead = group_ahead.at;
        group_ahead.at += group_ahead.beside(piece, row.columns);
        HEADWISE_KEEP_ROLLED
        for (std::ptrdiff_t m = row.columns; m > 0; --m, ++weight, v += row.v_row) {
            if constexpr (Rows <= few_tile_rows) {
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) fetch_line(ahead + static_cast<std::uintptr_t>(i * vector_bytes));
                ahead += group_ahead.below(piece);
            }
            typename V::vec value[Vectors];
            HEADWISE_UNROLL
            for (int i = 0; i < Vectors; ++i) value[i] = V::hidden(memory<V, Stored>::load(v + i * V::lanes));
            HEADWISE_UNROLL
            for (int r = 0; r < Rows; ++r) {
                const auto w = V::broadcast(weight + r * logits_row<typename V::scalar>);
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) sum[r][i] = V::madd(w, value[i], sum[r][i]);
            }
        }
        auto* out = out_group;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            if (row.after != nullptr) {
                const auto factor = V::broadcast(row.after + r);
                HEADWISE_UNROLL
                for (int i = 0; i < Vectors; ++i) sum[r][i] = V::mul(sum[r][i], factor);
            }
            store_row<V, Vectors>(sum[r], out, last_lanes);
            next_row(out, row.out_row);
        }
    }
}

template <class V, int Vectors, int MostRows, class Stored>
struct values_table {
    void (*by_rows[MostRows])(const values_row<typename V::scalar, Stored>&);

    constexpr values_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = values_tile<V, Rows, Vectors, Stored>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

/// Rows of V as the tiles want them, of type `Stored`: where they lie, or a copy of whole vectors; or pairs of rows,
/// each entry an element of one and the next below it. Where a row of q does not see all of them, those that hold an
/// infinity or a NaN (which times zero is NaN) are zero in it, and listed, to be added apart.
template <class In, class Stored>
struct value_block {
    const Stored* v;
    std::ptrdiff_t row;
    const In* original;  // of the listed
    std::ptrdiff_t original_row, original_column;
    std::ptrdiff_t odd_count = 0;
    std::ptrdiff_t odd[attention_block_columns];
};

template <class In>
HEADWISE_NOINLINE bool is_finite(const In* v, std::ptrdiff_t step, std::ptrdiff_t count) {
    using V = typename tiling<In>::vector;
    using elements = memory<V, In>;
    constexpr int whole = V::lanes * per_entry<V>();
    if (step != 1) {
        sum_of<In> sum = 0;
        for (std::ptrdiff_t d = 0; d < count; ++d) sum += widen(v[d * step]) * 0;
        return sum == 0;
    }
    auto sum = V::zero();
    for (; count >= whole; count -= whole, v += whole) sum = V::madd(elements::load(v), V::zero(), sum);
    if (count > 0) sum = V::madd(elements::load_first(v, static_cast<int>(count)), V::zero(), sum);
    return V::sum(sum) == 0;
}

/// Whole vectors, zeros after the last element. As they are, or widened.
template <class To, class From>
HEADWISE_NOINLINE void copy_row(To* to, const From* from, std::ptrdiff_t step, std::ptrdiff_t count) {
    using V = typename tiling<From>::vector;
    std::ptrdiff_t d = 0;
    if (step == 1) {
        using source = memory<V, From>;
        using target = memory<V, To>;
        for (; d + V::lanes <= count; d += V::lanes) target::store(to + d, source::load(from + d));
        if (d < count) target::store(to + d, source::load_first(from + d, static_cast<int>(count - d)));
        return;
    }
    for (; d < count; ++d) narrow(to[d], widen(from[d * step]));
    for (; d % V::lanes != 0; ++d) to[d] = To{};
}

/// Pairs of neighbouring rows, a last one with zeros; and zeros for those that are listed.
template <class In, class Out, class Stored>
HEADWISE_NOINLINE void copy_pairs(const attention_arguments<In, Out>& a, const In* v, std::ptrdiff_t columns,
                                  Stored* copy, const value_block<In, Stored>& block) {
    using V = typename tiling<In>::vector;
    using elements = memory<V, In>;
    const std::ptrdiff_t depth = a.value_depth, row = a.v.row(), step = a.v.column();
    Stored* to = copy;
    for (std::ptrdiff_t m = 0; m < columns; m += 2, v += 2 * row, to += block.row) {
        const bool two = m + 1 < columns;
        std::ptrdiff_t d = 0;
        if (step == 1) {
            for (; d < depth; d += V::lanes) {
                const int n = static_cast<int>(least(V::lanes, depth - d));
                V::store(to + d, two ? elements::load_pairs(v + d, v + row + d, n) : elements::load_low(v + d, n));
            }
        } else {
            for (; d < depth; ++d) to[d] = pair_of(v[d * step], two ? v[row + d * step] : In{});
            for (; d < block.row; ++d) to[d] = Stored{};
        }
    }
    for (std::ptrdiff_t i = 0; i < block.odd_count; ++i) {
        In* const half = reinterpret_cast<In*>(copy + block.odd[i] / 2 * block.row) + block.odd[i] % 2;
        for (std::ptrdiff_t d = 0; d < block.row; ++d) half[2 * d] = In{};
    }
}

/// `columns` rows of v, which are copied if they are not `Stored` so. `near`: a stretch that is read once and not worth
/// a copy for its stride.
template <class In, class Out, class Stored>
HEADWISE_NOINLINE void prepare_values(const attention_arguments<In, Out>& a, const In* v, std::ptrdiff_t columns,
                                      bool masked, bool near, Stored* copy, value_block<In, Stored>& block) {
    constexpr std::ptrdiff_t lanes = tiling<In>::lanes;
    block.original = v;
    block.original_row = a.v.row();
    block.original_column = a.v.column();
    block.odd_count = 0;
    if (masked)
        for (std::ptrdiff_t m = 0; m < columns; ++m)
            if (!is_finite(v + m * a.v.row(), a.v.column(), a.value_depth)) block.odd[block.odd_count++] = m;
    if constexpr (std::is_same_v<In, Stored>) {
        // Rows far apart share few sets of the caches.
        const bool in_place = a.v.column() == 1 && a.value_depth % lanes == 0 && (near || a.v.row() == a.value_depth);
        if (in_place && block.odd_count == 0) {
            block.v = v;
            block.row = a.v.row();
            return;
        }
    }
    block.v = copy;
    block.row = round_up(a.value_depth, lanes);
    if constexpr (per_entry<typename tiling<In>::vector>() == 2) {
        copy_pairs(a, v, columns, copy, block);
    } else {
        for (std::ptrdiff_t m = 0; m < columns; ++m)
            copy_row(copy + m * block.row, v + m * a.v.row(), a.v.column(), a.value_depth);
        for (std::ptrdiff_t i = 0; i < block.odd_count; ++i)
            for (std::ptrdiff_t d = 0; d < block.row; ++d) copy[block.odd[i] * block.row + d] = Stored{};
    }
}

/// The weight of column m in a row of them.
template <class In>
HEADWISE_INLINE sum_of<In> weight_of(const sum_of<In>* weights, std::ptrdiff_t m) {
    if constexpr (per_entry<typename tiling<In>::vector>() == 2) return widen(reinterpret_cast<const In*>(weights)[m]);
    else return weights[m];
}

/// The listed rows of V, for the rows of q that see them: infinity times a weight of zero is NaN.
template <class In, class Out, class Stored>
HEADWISE_NOINLINE void add_odd_values(const attention_arguments<In, Out>& a, const logits_block& block,
                                      const value_block<In, Stored>& values, std::ptrdiff_t begin, std::ptrdiff_t end,
                                      const sum_of<In>* weights, sum_of<In>* out, std::ptrdiff_t out_row,
                                      const sum_of<In>* after) {
    using Sum = sum_of<In>;
    for (std::ptrdiff_t i = 0; i < values.odd_count; ++i) {
        const std::ptrdiff_t m = values.odd[i];
        const In* const v = values.original + m * values.original_row;
        for (std::ptrdiff_t r = 0; r < block.rows && begin <= m && m < end; ++r) {
            const Sum weight = weight_of<In>(weights + r * logits_row<Sum>, m) * (after != nullptr ? after[r] : 1);
            if (weight == 0 && is_hidden(a, block, r, m)) continue;
            for (std::ptrdiff_t d = 0; d < a.value_depth; ++d)
                out[r * out_row + d] += weight * widen(v[d * values.original_column]);
        }
    }
}

/// out = after * (before * out + weights . v) for a row tile, over the columns [begin, end) of the block, but for the
/// listed ones. `Wide` vectors of v at a time, then the rest one by one.
template <int Wide, int MostRows, class In, class Stored>
HEADWISE_INLINE void add_values(const value_block<In, Stored>& block, std::ptrdiff_t begin, std::ptrdiff_t end,
                                const sum_of<In>* weights, std::ptrdiff_t rows, std::ptrdiff_t depth, sum_of<In>* out,
                                std::ptrdiff_t out_row, const sum_of<In>* before, const sum_of<In>* after) {
    using tiles = tiling<In>;
    static constexpr values_table<typename tiles::vector, Wide, MostRows, Stored> wide;
    static constexpr values_table<typename tiles::vector, 1, MostRows, Stored> narrow;
    constexpr int step = per_entry<typename tiles::vector>();  // columns of an entry
    const std::ptrdiff_t first = begin / step, last = (end + step - 1) / step;
    const std::ptrdiff_t vectors = round_up(depth, tiles::lanes) / tiles::lanes, rest = vectors % Wide;
    constexpr std::ptrdiff_t vector_bytes = tiles::lanes * std::ptrdiff_t{sizeof(Stored)};
    const int last_lanes = static_cast<int>(depth - (vectors - 1) * tiles::lanes);
    values_row<sum_of<In>, Stored> row{weights + first,
                                       block.v + first * block.row,
                                       out,
                                       block.row,
                                       out_row,
                                       last - first,
                                       vectors / Wide,
                                       rest == 0 ? last_lanes : tiles::lanes,
                                       before,
                                       after,
                                       rows_ahead(block.v + first * block.row, few_rows_of_v, vectors * vector_bytes,
                                                  block.row * std::ptrdiff_t{sizeof(Stored)})};
    if (row.groups > 0) wide.by_rows[rows - 1](row);
    if (rest == 0) return;
    row.ahead.at += static_cast<std::uintptr_t>(row.groups) * row.ahead.beside(Wide * vector_bytes, row.columns);
    row.v += row.groups * Wide * tiles::lanes;
    row.out += row.groups * Wide * tiles::lanes;
    row.groups = rest;
    row.last_lanes = last_lanes;
    narrow.by_rows[rows - 1](row);
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
