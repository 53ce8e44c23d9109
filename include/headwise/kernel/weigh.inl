// The weights, softmax of the logits, or the logits themselves: a row tile is computed, finished in the nearest cache
// and written once. Included once for every target, by attention.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

struct weigh_layout {
    std::ptrdiff_t step;                    // from one row of logits to the next: all columns, and a line
    std::ptrdiff_t panels, q_rows, logits;  // two tiles' logits
};

template <class In, class Out>
weigh_layout weigh_layout_of(const attention_arguments<In, Out>& a) {
    using tiles = tiling<In>;
    constexpr std::ptrdiff_t line = 64 / sizeof(sum_of<In>);
    const std::ptrdiff_t padded = round_up(a.columns, most(tiles::width, line)), step = padded + line;
    return {step, padded * entries<typename tiles::vector>(a.depth),
            round_up(tiles::rows * query_step<In>(a.depth), line), tiles::rows * step};
}

template <class In, class Out>
std::ptrdiff_t weigh_workspace(const attention_arguments<In, Out>& a) {
    const weigh_layout space = weigh_layout_of(a);
    return space.panels + space.q_rows + 2 * space.logits;
}

/// out = factor * s, whole lines past the caches where a.stream says so.
template <class In, class Out>
HEADWISE_INLINE void write_row(const attention_arguments<In, Out>& a, const sum_of<In>* s, Out* out,
                               const sum_of<In>& factor) {
    using V = typename tiling<In>::vector;
    using elements = memory<V, Out>;
    const auto scale = V::broadcast(&factor);
    if (a.out.column() != 1) {
        for (std::ptrdiff_t m = 0; m < a.columns; ++m) narrow(out[m * a.out.column()], factor * s[m]);
        return;
    }
    std::ptrdiff_t m = 0;
    if (a.stream)
        for (; m + V::lanes <= a.columns; m += V::lanes) {
            const typename V::vec scaled[1] = {V::mul(V::load(s + m), scale)};
            elements::stream(out + m, scaled);
        }
    else
        for (; m + V::lanes <= a.columns; m += V::lanes) elements::store(out + m, V::mul(V::load(s + m), scale));
    if (m < a.columns) {
        const int left = static_cast<int>(a.columns - m);
        elements::store_first(out + m, V::mul(V::load_first(s + m, left), scale), left);
    }
}

/// Finished rows on their way out: some are written between two panels of the next tile, so that memory and arithmetic
/// work at the same time.
template <class In, class Out>
struct finished_rows {
    const sum_of<In>* s;
    std::ptrdiff_t step;
    Out* out;
    std::ptrdiff_t rows = 0, written = 0;
    sum_of<In> factors[most_tile_rows];

    HEADWISE_INLINE void write(const attention_arguments<In, Out>& a, std::ptrdiff_t count) {
        for (; count > 0 && written < rows; --count, ++written)
            write_row(a, s + written * step, out + written * a.out.row(), factors[written]);
    }
};

/// One row tile: products, then logits or weights. Meanwhile the rows of the last one are written, and then replaced.
template <bool Softmax, class In, class Out>
HEADWISE_NOINLINE void weigh_tile(const attention_arguments<In, Out>& a, const logits_block& block,
                                  const sum_of<In>* panels, sum_of<In>* q_rows, sum_of<In>* logits, std::ptrdiff_t step,
                                  row_state<sum_of<In>>* states, finished_rows<In, Out>& finished) {
    using Sum = sum_of<In>;
    using V = typename tiling<In>::vector;
    constexpr std::ptrdiff_t width = tiling<In>::width;
    const std::ptrdiff_t first = a.visible.first(block.row), last = a.visible.last(block.row + block.rows - 1);
    const std::ptrdiff_t begin = round_down(first, width), end = round_up(most(last, first), width);
    const query_rows<In> q(a, a.q.head(block.batch, block.head) + block.row * a.q.row(), block.rows, q_rows);
    const std::ptrdiff_t share = begin == end ? 0 : (finished.rows * width + end - begin - 1) / (end - begin);
    fetch_ahead ahead = next_rows(a, block, most((end - begin) / width, 1));
    for (std::ptrdiff_t m = begin; m < end; m += width) {
        multiply(a, q, block.rows, panels, block.columns, m / width, m / width + 1, logits, step, &ahead);
        finished.write(a, share);
    }
    finished.write(a, finished.rows);
    finished.s = logits;
    finished.step = step;
    finished.out = a.out.head(block.batch, block.head) + block.row * a.out.row();
    finished.rows = block.rows;
    finished.written = 0;
    if constexpr (Softmax) {
        tile_states<Sum> factors;
        for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
            states[r] = {minus_infinity<Sum>, 0};
            fill<V>(logits + r * step, 0, begin, V::zero());
            fill<V>(logits + r * step, end, a.columns, V::zero());
        }
        soften<typename tiling<Sum>::vector>(a, block, begin, end, logits, step, states, factors);
        for (std::ptrdiff_t r = 0; r < block.rows; ++r) finished.factors[r] = factors.after[r];
    } else {
        for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
            Sum* const s = logits + r * step;
            const seen_columns seen(a, block, r);
            const std::ptrdiff_t from = seen.empty() ? a.columns : seen.from, to = seen.empty() ? a.columns : seen.to;
            if (!seen.empty()) finish_logits(a, block, r, seen, s);
            fill<V>(s, 0, from, constant<V>(minus_infinity<Sum>));
            fill<V>(s, to, a.columns, constant<V>(minus_infinity<Sum>));
            finished.factors[r] = 1;
        }
    }
}

template <bool Softmax, class In, class Out>
HEADWISE_INLINE void weigh_tiles(const attention_arguments<In, Out>& a, const attention_piece& piece,
                                 sum_of<In>* workspace, row_state<sum_of<In>>* states) {
    using Sum = sum_of<In>;
    const weigh_layout space = weigh_layout_of(a);
    const row_split split(a.rows, tiling<In>::rows);
    Sum* const q_rows = workspace + space.panels;
    Sum* logits = q_rows + space.q_rows;
    Sum* other = logits + space.logits;
    {
        HEADWISE_PROBE("pack k");
        pack(workspace, a.k.head(piece.batch, piece.kv_head), a.k.row(), a.k.column(), a.columns, a.depth);
    }
    HEADWISE_PROBE("tiles");
    finished_rows<In, Out> finished;
    for (std::ptrdiff_t member = 0; member < a.group; ++member) {
        std::ptrdiff_t row = piece.first * split.low + least(piece.first, split.higher);
        for (std::ptrdiff_t tile = piece.first; tile < piece.last; row += split.height(tile), ++tile) {
            const std::ptrdiff_t head = piece.kv_head * a.group + member;
            weigh_tile<Softmax>(a, {piece.batch, head, row, split.height(tile), 0, a.columns}, workspace, q_rows,
                                logits, space.step, states + member * a.rows + row, finished);
            Sum* const used = logits;
            logits = other;
            other = used;
        }
    }
    finished.write(a, finished.rows);
    if (a.stream) tiling<In>::vector::fence();
}

template <class In, class Out>
void weigh(const attention_arguments<In, Out>& a, const attention_piece& piece, sum_of<In>* workspace,
           row_state<sum_of<In>>* states) {
    weigh_tiles<true>(a, piece, workspace, states);
}

template <class In, class Out>
void logits(const attention_arguments<In, Out>& a, const attention_piece& piece, sum_of<In>* workspace,
            row_state<sum_of<In>>* states) {
    weigh_tiles<false>(a, piece, workspace, states);
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
