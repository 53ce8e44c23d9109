// Attention for few rows, the step of a decoder: k and v are read once, in the order of memory, for all heads that
// share them. Columns are cut into chunks whose results are merged, so that threads can share one head. Included once
// for every target, by attention.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// sum[i][r] += q[r] . keys[i], one vector of each.
template <class V, int Rows>
HEADWISE_INLINE void add_dots(typename V::vec (&sum)[4][Rows], const typename V::vec (&keys)[4],
                              const typename V::scalar* q, std::ptrdiff_t q_row) {
    HEADWISE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        const auto query = V::load(q + r * q_row);
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) sum[i][r] = V::madd(query, keys[i], sum[i][r]);
    }
}

/// s[r][m] = q[r] . k[m] for `Rows` padded rows of q; k has unit stride along d. Four keys at a time: enough sums
/// to hide the latency of an addition, and lanes are added across for four at once.
template <class V, int Rows, class In>
HEADWISE_NOINLINE void dots(const typename V::scalar* q, std::ptrdiff_t q_row, const In* k, std::ptrdiff_t k_row,
                            std::ptrdiff_t depth, std::ptrdiff_t columns, typename V::scalar* s) {
    using scalar = typename V::scalar;
    using elements = memory<V, In>;
    const std::ptrdiff_t whole = depth / V::lanes * V::lanes;
    const int left = static_cast<int>(depth - whole);
    constexpr std::ptrdiff_t bytes = sizeof(In), piece = V::lanes * bytes;
    rows_ahead ahead(k, 4, depth * bytes, k_row * bytes);
    const std::uintptr_t apart = ahead.below(piece), step = ahead.beside(piece, 4);
    for (std::ptrdiff_t m = 0; m < columns; m += 4, k += 4 * k_row, s += 4) {
        const std::ptrdiff_t count = least(4, columns - m);
        const In* key[4];
        typename V::vec sum[4][Rows], keys[4];
        HEADWISE_UNROLL
        for (int i = 0; i < 4; ++i) {
            key[i] = k + least(i, count - 1) * k_row;
            HEADWISE_UNROLL
            for (int r = 0; r < Rows; ++r) sum[i][r] = V::zero();
        }
        std::uintptr_t fetched = ahead.at;
        ahead.pass(4);
        const scalar* at = q;
        HEADWISE_KEEP_ROLLED
        for (std::ptrdiff_t d = 0; d < whole; d += V::lanes, at += V::lanes) {
            HEADWISE_UNROLL
            for (int i = 0; i < 4; ++i) {
                fetch_line(fetched + static_cast<std::uintptr_t>(i) * apart);
                keys[i] = V::hidden(elements::load(key[i] + d));  // else GCC loads it again for each row
            }
            add_dots<V, Rows>(sum, keys, at, q_row);
            fetched += step;
        }
        if (left > 0) {
            HEADWISE_UNROLL
            for (int i = 0; i < 4; ++i) {
                fetch_line(fetched + static_cast<std::uintptr_t>(i) * apart);
                keys[i] = elements::load_first(key[i] + whole, left);
            }
            add_dots<V, Rows>(sum, keys, at, q_row);
        }
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            // There is a line of room behind the last.
            V::four_sums(s + r * logits_row<scalar>, sum[0][r], sum[1][r], sum[2][r], sum[3][r]);
        }
    }
}

template <class V, int MostRows, class In>
struct dots_table {
    using scalar = typename V::scalar;
    void (*by_rows[MostRows])(const scalar*, std::ptrdiff_t, const In*, std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t,
                              scalar*);

    constexpr dots_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = dots<V, Rows, In>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

/// What lies where in the workspace, in scalars. A copy of V has V's own type: one kind of tile reads either.
struct few_layout {
    std::ptrdiff_t q_rows, logits, values;
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return q_rows + logits + values; }
};

template <class In, class Out>
few_layout few_layout_of(const attention_arguments<In, Out>& a) {
    using Sum = sum_of<In>;
    constexpr std::ptrdiff_t lanes = tiling<In>::lanes, line = 64 / sizeof(Sum);
    constexpr std::ptrdiff_t columns = few_chunk * std::ptrdiff_t{sizeof(In)} / std::ptrdiff_t{sizeof(Sum)};
    return {round_up(few_tile_rows * round_up(a.depth, lanes), line), few_tile_rows * logits_row<Sum>,
            round_up(columns * round_up(a.value_depth, lanes), line)};
}

template <class In, class Out>
std::ptrdiff_t few_workspace(const attention_arguments<In, Out>& a) {
    return few_layout_of(a).size();
}

/// Some rows against one chunk.
template <class In, class Out>
HEADWISE_NOINLINE void attend_few_rows(const attention_arguments<In, Out>& a, const logits_block& block, const In* k,
                                       const value_block<In, In>& values, sum_of<In>* workspace, sum_of<In>* partial,
                                       row_state<sum_of<In>>* states) {
    using Sum = sum_of<In>;
    using tiles = tiling<In>;
    using V = typename tiles::vector;
    static constexpr dots_table<V, few_tile_rows, In> by_rows;
    const std::ptrdiff_t q_padded = round_up(a.depth, tiles::lanes), padded = round_up(a.value_depth, tiles::lanes);
    Sum* const q = workspace;
    Sum* const logits = workspace + few_layout_of(a).q_rows;
    const auto scale = V::broadcast(&a.scale);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
        const row_place at(a, block, r);
        Sum* const row = q + r * q_padded;
        copy_row(row, a.q.head(block.batch, at.head) + at.l * a.q.row(), a.q.column(), a.depth);
        for (std::ptrdiff_t d = 0; d < q_padded; d += V::lanes) V::store(row + d, V::mul(V::load(row + d), scale));
    }
    by_rows.by_rows[block.rows - 1](q, q_padded, k, a.k.row(), a.depth, block.columns, logits);
    constexpr std::ptrdiff_t bytes = sizeof(In);
    rows_ahead::fetch_first(values.v, block.columns, few_rows_of_v, a.value_depth * bytes, values.row * bytes);
    tile_states<Sum> factors;
    soften<V>(a, block, 0, round_up(block.columns, tiles::width), logits, logits_row<Sum>, states, factors);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) factors.before[r] = 1;
    for (std::ptrdiff_t m = 0; m < block.columns; m += few_rows_of_v) {
        add_values<4, few_tile_rows>(values, m, least(m + few_rows_of_v, block.columns), logits, block.rows, padded,
                                     partial, padded, m == 0 ? nullptr : factors.before, nullptr);
    }
    if (values.odd_count > 0) add_odd_values(a, block, values, 0, block.columns, logits, partial, padded, nullptr);
}

template <class In, class Out>
void attend_few(const attention_arguments<In, Out>& a, const attention_piece& piece, sum_of<In>* workspace,
                sum_of<In>* partial, row_state<sum_of<In>>* states) {
    using tiles = tiling<In>;
    const std::ptrdiff_t padded = round_up(a.value_depth, tiles::lanes), columns = piece.last - piece.first;
    const few_layout space = few_layout_of(a);
    In* const copy = reinterpret_cast<In*>(workspace + space.q_rows + space.logits);
    const In* const k = a.k.head(piece.batch, piece.kv_head) + piece.first * a.k.row();
    value_block<In, In> values;
    const bool masked = a.is_masked(0, piece.first, piece.last) || a.is_masked(a.rows - 1, piece.first, piece.last);
    prepare_values(a, a.v.head(piece.batch, piece.kv_head) + piece.first * a.v.row(), columns, masked, true, copy,
                   values);
    const std::ptrdiff_t rows = a.group * a.rows;
    for (std::ptrdiff_t row = 0; row < rows; row += few_tile_rows) {
        const logits_block block{
            piece.batch, piece.kv_head * a.group, row, least(few_tile_rows, rows - row), piece.first, columns};
        for (std::ptrdiff_t r = 0; r < block.rows; ++r) states[row + r] = {minus_infinity<sum_of<In>>, 0};
        attend_few_rows(a, block, k, values, workspace, partial + row * padded, states + row);
    }
}

/// Chunks' results: each row is the sum of theirs, scaled to the largest logit of all.
template <class In, class Out>
void merge_chunks(const attention_arguments<In, Out>& a, const attention_piece& piece, sum_of<In>* partial,
                  row_state<sum_of<In>>* states, std::ptrdiff_t chunks) {
    using Sum = sum_of<In>;
    using V = typename tiling<In>::vector;
    const std::ptrdiff_t padded = round_up(a.value_depth, V::lanes), rows = a.group * a.rows;
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
        Sum top = minus_infinity<Sum>, sum = 0;
        for (std::ptrdiff_t c = 0; c < chunks; ++c)
            top = states[c * rows + r].most > top ? states[c * rows + r].most : top;
        const Sum safe = top == minus_infinity<Sum> ? 0 : top;
        Sum* const whole = partial + r * padded;  // the first chunk's gathers all
        for (std::ptrdiff_t c = 0; c < chunks; ++c) {
            const row_state<Sum>& state = states[c * rows + r];
            alignas(64) Sum factors[V::lanes];
            V::store(factors, exp<V>(constant<V>(state.most - safe)));
            const auto factor = V::broadcast(factors);
            sum += state.sum * factors[0];
            const Sum* const from = whole + c * rows * padded;
            for (std::ptrdiff_t d = 0; d < padded; d += V::lanes)
                V::store(whole + d, c == 0 ? V::mul(V::load(from + d), factor)
                                           : V::madd(V::load(from + d), factor, V::load(whole + d)));
        }
        states[r] = {top, sum};
        const Sum inverse = sum == 0 ? 0 : 1 / sum;
        Out* const out = a.out.head(piece.batch, piece.kv_head * a.group + r / a.rows) + r % a.rows * a.out.row();
        for (std::ptrdiff_t d = 0; d < a.value_depth; ++d)
            narrow(out[d * a.out.column()], sum == 0 ? 0 : whole[d] * inverse);
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
