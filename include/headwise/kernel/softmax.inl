// Logits become weights, a row tile of a column block at a time, while it is in the nearest cache. Included once for
// every target, by attention.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// Logits of a row tile lie in rows this far apart: a line more than the most columns, so that rows spread over the
/// sets of the L1 cache; a constant, so that a row is an address offset.
template <class Scalar>
inline constexpr std::ptrdiff_t logits_row = attention_block_columns + std::ptrdiff_t{64 / sizeof(Scalar)};

template <class Scalar>
inline constexpr Scalar minus_infinity = -std::numeric_limits<Scalar>::infinity();

HEADWISE_INLINE std::ptrdiff_t round_down(std::ptrdiff_t n, std::ptrdiff_t by) { return n / by * by; }
HEADWISE_INLINE std::ptrdiff_t round_up(std::ptrdiff_t n, std::ptrdiff_t by) { return (n + by - 1) / by * by; }
HEADWISE_INLINE std::ptrdiff_t least(std::ptrdiff_t a, std::ptrdiff_t b) { return a < b ? a : b; }
HEADWISE_INLINE std::ptrdiff_t most(std::ptrdiff_t a, std::ptrdiff_t b) { return a < b ? b : a; }

template <class V>
HEADWISE_INLINE void fill(typename V::scalar* s, std::ptrdiff_t from, std::ptrdiff_t to, typename V::vec value) {
    for (; from + V::lanes <= to; from += V::lanes) V::store(s + from, value);
    if (from < to) V::store_first(s + from, value, static_cast<int>(to - from));
}

/// n zeros, of as many as V has lanes, and minus infinities.
template <class V>
struct zeros_then_infinities {
    alignas(64) typename V::scalar values[2 * V::lanes];
    constexpr zeros_then_infinities() : values{} {
        for (int i = V::lanes; i < 2 * V::lanes; ++i) values[i] = minus_infinity<typename V::scalar>;
    }
    [[nodiscard]] HEADWISE_INLINE typename V::vec operator()(std::ptrdiff_t n) const {
        return V::load(values + V::lanes - n);
    }
};

/// Minus infinity in s[from, to), where `to` ends a vector. That which is hidden in part is loaded and stored whole: a
/// load of what two stores wrote waits for both to reach the cache. (64,3,49,49,32): 1.08 times as fast.
template <class V>
HEADWISE_INLINE void hide_end(typename V::scalar* s, std::ptrdiff_t from, std::ptrdiff_t to) {
    static constexpr zeros_then_infinities<V> pattern;
    const std::ptrdiff_t seen = from % V::lanes, at = from - seen;
    if (seen != 0) V::store(s + at, V::add(V::load_first(s + at, static_cast<int>(seen)), pattern(seen)));
    fill<V>(s, seen != 0 ? at + V::lanes : at, to, constant<V>(minus_infinity<typename V::scalar>));
}

/// s = softcap tanh(s / softcap).
template <class V>
HEADWISE_NOINLINE void cap(typename V::scalar* s, std::ptrdiff_t count, const typename V::scalar& softcap) {
    const auto limit = V::broadcast(&softcap), inverse = V::div(constant<V>(1), limit);
    for (; count >= V::lanes; count -= V::lanes, s += V::lanes)
        V::store(s, V::mul(limit, tanh<V>(V::mul(V::load(s), inverse))));
    const int left = static_cast<int>(count);
    if (left > 0) V::store_first(s, V::mul(limit, tanh<V>(V::mul(V::load_first(s, left), inverse))), left);
}

template <class V>
HEADWISE_NOINLINE void add_bias(typename V::scalar* s, const typename V::scalar* bias, std::ptrdiff_t step,
                                std::ptrdiff_t count) {
    if (step == 1) {
        for (; count >= V::lanes; count -= V::lanes, s += V::lanes, bias += V::lanes)
            V::store(s, V::add(V::load(s), V::load(bias)));
        const int left = static_cast<int>(count);
        if (left > 0) V::store_first(s, V::add(V::load_first(s, left), V::load_first(bias, left)), left);
    } else {
        for (std::ptrdiff_t m = 0; m < count; ++m) s[m] += bias[m * step];
    }
}

/// Minus infinity where the mask is false.
template <class V>
HEADWISE_NOINLINE void hide(typename V::scalar* s, const bool* mask, std::ptrdiff_t step, std::ptrdiff_t count) {
    if (step == 1) {
        const auto hidden = constant<V>(minus_infinity<typename V::scalar>);
        for (; count >= V::lanes; count -= V::lanes, s += V::lanes, mask += V::lanes)
            V::store(s, V::where(mask, V::load(s), hidden));
    }
    for (std::ptrdiff_t m = 0; m < count; ++m)
        if (!mask[m * step]) s[m] = minus_infinity<typename V::scalar>;
}

/// Rows [row, row + rows) of q, and the columns [first, first + columns) of k that are at hand. The rows go on in the
/// next heads of the group where `head` has no more.
struct logits_block {
    std::ptrdiff_t batch, head, row, rows, first, columns;
};

/// The head and the row in it of row r of a block.
struct row_place {
    std::ptrdiff_t head, l;

    template <class Scalar>
    HEADWISE_INLINE row_place(const logit_rules<Scalar>& a, const logits_block& block, std::ptrdiff_t r)
        : head(block.head), l(block.row + r) {
        if (l < a.rows) return;
        head += l / a.rows;
        l %= a.rows;
    }
};

/// What row r of the block sees of its columns, counted from its first.
struct seen_columns {
    std::ptrdiff_t from, to;

    template <class Scalar>
    HEADWISE_INLINE seen_columns(const logit_rules<Scalar>& a, const logits_block& block, std::ptrdiff_t r)
        : seen_columns(a, block, row_place(a, block, r)) {}
    template <class Scalar>
    HEADWISE_INLINE seen_columns(const logit_rules<Scalar>& a, const logits_block& block, const row_place& at)
        : from(most(a.visible.first(at.l) - block.first, 0)),
          to(least(a.visible.last(at.l) - block.first, block.columns)) {}
    [[nodiscard]] HEADWISE_INLINE bool empty() const { return from >= to; }
};

/// Whether row r of the block may not see its column m. Then its weight there is zero; but so are others.
template <class Scalar>
HEADWISE_NOINLINE bool is_hidden(const logit_rules<Scalar>& a, const logits_block& block, std::ptrdiff_t r,
                                 std::ptrdiff_t m) {
    const row_place at(a, block, r);
    const seen_columns seen(a, block, at);
    if (m < seen.from || seen.to <= m) return true;
    const std::ptrdiff_t column = block.first + m;
    return (a.mask.data != nullptr && !a.mask.at(block.batch, at.head, at.l, column)) ||
           (a.bias.data != nullptr && a.bias.at(block.batch, at.head, at.l, column) == minus_infinity<Scalar>);
}

/// Scaled products become logits: softcap, bias, mask, in this order. s is row r's of the block.
template <class Scalar>
HEADWISE_INLINE void finish_logits(const logit_rules<Scalar>& a, const logits_block& block, std::ptrdiff_t r,
                                   const seen_columns& seen, Scalar* s) {
    using V = typename tiling<Scalar>::vector;
    const std::ptrdiff_t count = seen.to - seen.from, column = block.first + seen.from;
    if (a.softcap != 0) cap<V>(s + seen.from, count, a.softcap);
    if (a.bias.data == nullptr && a.mask.data == nullptr) return;
    const row_place at(a, block, r);
    if (a.bias.data != nullptr)
        add_bias<V>(s + seen.from, a.bias.head(block.batch, at.head) + at.l * a.bias.row() + column * a.bias.column(),
                    a.bias.column(), count);
    if (a.mask.data != nullptr)
        hide<V>(s + seen.from, a.mask.head(block.batch, at.head) + at.l * a.mask.row() + column * a.mask.column(),
                a.mask.column(), count);
}

/// The largest of s[from, to), whole panels' widths, in each lane.
template <class V>
HEADWISE_INLINE typename V::vec largest(const typename V::scalar* s, std::ptrdiff_t from, std::ptrdiff_t to) {
    auto a = constant<V>(minus_infinity<typename V::scalar>), b = a;
    HEADWISE_KEEP_ROLLED
    for (std::ptrdiff_t m = from; m < to; m += 2 * V::lanes) {
        a = V::max(a, V::load(s + m));
        b = V::max(b, V::load(s + m + V::lanes));
    }
    return V::max(a, b);
}

/// Sums of weights: as they are, and rounded (nothing where they are not).
template <class V>
struct weight_sums {
    typename V::vec exact, rounded;
};

/// s = e^(s - most) in [from, to), whole panels' widths, as entries of P; their sums in each lane. A column's place
/// decides in which lane and in which order it is added, so that a row's sum does not depend on what its neighbours
/// see.
template <class V, class P>
HEADWISE_INLINE weight_sums<V> exponentials(typename V::scalar* s, std::ptrdiff_t from, std::ptrdiff_t to,
                                            const typename V::scalar& most) {
    const auto top = V::broadcast(&most);
    auto a = V::zero(), b = a, rounded = a;
    HEADWISE_KEEP_ROLLED
    for (std::ptrdiff_t m = from; m < to; m += 2 * V::lanes) {
        const auto first = exp<V>(V::sub(V::load(s + m), top)), second = exp<V>(V::sub(V::load(s + m + V::lanes), top));
        if constexpr (per_entry<P>() == 2) {
            const auto pairs = P::rounded(first, second);
            P::store(s + m / 2, pairs);
            rounded = P::add_elements(pairs, rounded);
        } else {
            V::store(s + m, first);
            V::store(s + m + V::lanes, second);
        }
        a = V::add(a, first);
        b = V::add(b, second);
    }
    return {V::add(a, b), rounded};
}

/// More than the rows of any tile, and a whole number of lanes.
inline constexpr int most_tile_rows = 16;

/// A vector of each row of a tile, and what they come to: their lanes' largest, or sum, all rows at once.
template <class V>
struct row_vectors {
    using Scalar = typename V::scalar;
    alignas(64) Scalar lanes[most_tile_rows * V::lanes];

    /// Rows that a tile does not have are zeros.
    HEADWISE_INLINE explicit row_vectors(std::ptrdiff_t rows) {
        for (std::ptrdiff_t r = rows; r < most_tile_rows; ++r) set(r, V::zero());
    }
    HEADWISE_INLINE void set(std::ptrdiff_t row, typename V::vec value) { V::store(lanes + row * V::lanes, value); }

    template <bool Largest>
    HEADWISE_INLINE void reduce(Scalar* results) const {
        for (int r = 0; r < most_tile_rows; r += V::lanes) {
            typename V::vec block[V::lanes];
            HEADWISE_UNROLL
            for (int i = 0; i < V::lanes; ++i) block[i] = V::load(lanes + (r + i) * V::lanes);
            V::transpose(block);
            HEADWISE_UNROLL
            for (int half = V::lanes / 2; half > 0; half /= 2) {
                HEADWISE_UNROLL
                for (int i = 0; i < half; ++i)
                    block[i] = Largest ? V::max(block[i], block[i + half]) : V::add(block[i], block[i + half]);
            }
            V::store(results + r, block[0]);
        }
    }
};

/// What a tile's rows go by: their states so far, and how what has been summed up before is to be scaled.
template <class Scalar>
struct tile_states {
    alignas(64) Scalar before[most_tile_rows], after[most_tile_rows];
};

/// Scaled products of a row tile -> weights e^(logit - most), zero where nothing is seen, in the columns [begin, end),
/// whole panels' widths; as entries of P, a row's from its begin on. `states` are brought up to date; `tile.before` is
/// what the sums of earlier blocks must be multiplied by, `tile.after` one over the sum of what is multiplied.
template <class P, class Scalar>
HEADWISE_NOINLINE void soften(const logit_rules<Scalar>& a, const logits_block& block, std::ptrdiff_t begin,
                              std::ptrdiff_t end, Scalar* logits, std::ptrdiff_t row_step, row_state<Scalar>* states,
                              tile_states<Scalar>& tile) {
    HEADWISE_PROBE("softmax");
    using V = typename tiling<Scalar>::vector;
    constexpr std::ptrdiff_t width = tiling<Scalar>::width;
    alignas(64) Scalar tops[most_tile_rows], sums[most_tile_rows], rounded[most_tile_rows];
    row_vectors<V> exact(block.rows);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
        Scalar* const s = logits + r * row_step;
        const seen_columns seen(a, block, r);
        if (seen.empty()) {
            exact.set(r, constant<V>(minus_infinity<Scalar>));
            continue;
        }
        finish_logits(a, block, r, seen, s);
        const std::ptrdiff_t from = round_down(seen.from, width), to = round_up(seen.to, width);
        fill<V>(s, from, seen.from, constant<V>(minus_infinity<Scalar>));
        hide_end<V>(s, seen.to, to);
        exact.set(r, largest<V>(s, from, to));
    }
    exact.template reduce<true>(tops);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) tile.before[r] = states[r].most;
    for (std::ptrdiff_t r = block.rows; r < most_tile_rows; ++r) tile.before[r] = 0;
    for (std::ptrdiff_t r = 0; r < most_tile_rows; r += V::lanes) {
        const auto old = V::load(tile.before + r), top = V::max(V::load(tops + r), old);
        // Finite, else a row that sees nothing would be inf - inf.
        const auto finite = V::max(constant<V>(std::numeric_limits<Scalar>::lowest()), top);
        V::store(sums + r, top);
        V::store(tops + r, finite);
        V::store(tile.before + r, exp<V>(V::sub(old, finite)));
    }
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) states[r].most = sums[r];

    row_vectors<V> of_rounded(per_entry<P>() == 2 ? block.rows : most_tile_rows);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
        Scalar* const s = logits + r * row_step;
        const seen_columns seen(a, block, r);
        const std::ptrdiff_t from = seen.empty() ? end : round_down(seen.from, width),
                             to = seen.empty() ? end : round_up(seen.to, width);
        const auto of_row = exponentials<V, P>(s, from, to, tops[r]);
        fill<V>(s, begin / per_entry<P>(), from / per_entry<P>(), V::zero());
        fill<V>(s, to / per_entry<P>(), end / per_entry<P>(), V::zero());
        exact.set(r, of_row.exact);
        if constexpr (per_entry<P>() == 2) of_rounded.set(r, of_row.rounded);
    }
    exact.template reduce<false>(sums);
    if constexpr (per_entry<P>() == 2) of_rounded.template reduce<false>(rounded);
    for (std::ptrdiff_t r = 0; r < block.rows; ++r) {
        states[r].sum = states[r].sum * tile.before[r] + sums[r];
        if constexpr (per_entry<P>() == 2) states[r].rounded = states[r].rounded * tile.before[r] + rounded[r];
        tile.after[r] = states[r].sum == 0 ? 0 : 1 / (per_entry<P>() == 2 ? states[r].rounded : states[r].sum);
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
