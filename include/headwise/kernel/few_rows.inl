// Few rows of q: K is read once, transposed in registers and used at once; nothing is packed. Included once for every
// target, by scores.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

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

/// One line of each of the lanes' rows, 32 rows ahead of where K is read: it may lie beyond K, where nothing is read.
/// (1,32,1,4096,128), from memory: 1.3 times as fast.
template <class V>
HEADWISE_INLINE void fetch_rows(const typename V::scalar* k, std::ptrdiff_t row) {
    constexpr std::ptrdiff_t rows_ahead = 32;
    const std::uintptr_t step = static_cast<std::uintptr_t>(row) * sizeof(typename V::scalar);
    std::uintptr_t address = reinterpret_cast<std::uintptr_t>(k) + rows_ahead * step;
    HEADWISE_UNROLL
    for (int i = 0; i < V::lanes; ++i, address += step) HEADWISE_PREFETCH(reinterpret_cast<const char*>(address));
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
            if (a.prefetch) fetch_rows<V>(k + d, a.k.row());
            load_transposed<V>(block, k + d, a.k.row(), valid, V::lanes);
            accumulate<V, Rows>(sum, q + d, a.q.row(), block, V::lanes);
        }
        if (d < a.depth) {
            const int left = static_cast<int>(a.depth - d);
            load_transposed<V>(block, k + d, a.k.row(), valid, left);
            accumulate<V, Rows>(sum, q + d, a.q.row(), block, left);
        }
        write_tile<V, Rows, 1>(sum, out, a.out.row(), a.scale, valid, false);
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

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
