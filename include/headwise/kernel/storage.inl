// How elements in memory become the lanes of a register, and back. Included once for every target, before its own
// instructions for the sixteen-bit formats, if it has any.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// Of V's own scalars as V does it; of sixteen-bit ones one at a time.
template <class V, class Stored>
struct memory {
    static HEADWISE_INLINE typename V::vec load(const Stored* p) {
        if constexpr (is_own_sum<Stored>) return V::load(p);
        else return load_first(p, V::lanes);
    }
    static HEADWISE_INLINE typename V::vec load_first(const Stored* p, int n) {
        if constexpr (is_own_sum<Stored>) return V::load_first(p, n);
        else {
            typename V::scalar lanes[V::lanes] = {};
            for (int i = 0; i < n; ++i) lanes[i] = widen(p[i]);
            return V::load(lanes);
        }
    }
    static HEADWISE_INLINE void store(Stored* p, typename V::vec v) {
        if constexpr (is_own_sum<Stored>) V::store(p, v);
        else store_first(p, v, V::lanes);
    }
    /// Neighbours, around the caches where that is possible.
    template <int Vectors>
    static HEADWISE_INLINE void stream(Stored* p, const typename V::vec (&v)[Vectors]) {
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i)
            if constexpr (is_own_sum<Stored>) V::stream(p + i * V::lanes, v[i]);
            else store(p + i * V::lanes, v[i]);
    }
    static HEADWISE_INLINE void store_first(Stored* p, typename V::vec v, int n) {
        if constexpr (is_own_sum<Stored>) V::store_first(p, v, n);
        else {
            typename V::scalar lanes[V::lanes];
            V::store(lanes, v);
            for (int i = 0; i < n; ++i) narrow(p[i], lanes[i]);
        }
    }
};

/// How many elements along d one entry of a panel holds: one, or two where a target multiplies pairs.
template <class V>
constexpr int per_entry() {
    if constexpr (requires { V::per_entry; }) return V::per_entry;
    else return 1;
}
template <class V>
constexpr std::ptrdiff_t entries(std::ptrdiff_t depth) {
    return (depth + per_entry<V>() - 1) / per_entry<V>();
}

/// The entry of elements p[0], p[step] of the `left` that there are.
template <class V, class Stored>
HEADWISE_INLINE typename V::scalar entry(const Stored* p, [[maybe_unused]] std::ptrdiff_t step,
                                         [[maybe_unused]] std::ptrdiff_t left) {
    if constexpr (per_entry<V>() == 2) return pair_of(p[0], left > 1 ? p[step] : Stored{});
    else return widen(p[0]);
}

/// A block of results, `from_row` apart, into rows of out.
template <class V, class Stored>
HEADWISE_NOINLINE void write_rows(Stored* out, std::ptrdiff_t row, std::ptrdiff_t column,
                                  const typename V::scalar* from, std::ptrdiff_t from_row, std::ptrdiff_t rows,
                                  std::ptrdiff_t columns) {
    for (; rows > 0; --rows, out += row, from += from_row) {
        std::ptrdiff_t m = 0;
        if (column == 1) {
            for (; m + V::lanes <= columns; m += V::lanes) memory<V, Stored>::store(out + m, V::load(from + m));
            if (m < columns)
                memory<V, Stored>::store_first(out + m, V::load_first(from + m, static_cast<int>(columns - m)),
                                               static_cast<int>(columns - m));
        } else {
            for (; m < columns; ++m) narrow(out[m * column], from[m]);
        }
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
