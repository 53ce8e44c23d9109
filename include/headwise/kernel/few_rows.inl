// Few rows of q: K is read once, transposed in registers and used at once; nothing is packed. Included once for every
// target, by scores.inl.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

/// sum[r] += q[r][0 ... count) . block: the transposed block of K is used where it lies, in registers.
template <class V, int Rows>
HEADWISE_INLINE void accumulate(typename V::vec (&sum)[Rows][1], const typename V::scalar* q, std::ptrdiff_t q_row,
                                const typename V::vec (&block)[V::lanes], std::ptrdiff_t count) {
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
template <class V, class Stored>
HEADWISE_INLINE void fetch_rows(const Stored* k, std::ptrdiff_t row) {
    constexpr std::ptrdiff_t rows_ahead = 32;
    const std::uintptr_t step = static_cast<std::uintptr_t>(row) * sizeof(Stored);
    std::uintptr_t address = reinterpret_cast<std::uintptr_t>(k) + rows_ahead * step;
    HEADWISE_UNROLL
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that may lie beyond the array, and is not read
    for (int i = 0; i < V::lanes; ++i, address += step) HEADWISE_PREFETCH(reinterpret_cast<const char*>(address));
}

/// Rows x columns outputs straight from K, which has unit stride along d; q is a row of entries.
template <class V, int Rows, class Stored = typename V::scalar>
HEADWISE_NOINLINE void few_rows(const scores_arguments<Stored, typename V::scalar>& a, const typename V::scalar* q,
                                const Stored* k, typename V::scalar* out) {
    constexpr int step = V::lanes * per_entry<V>();
    typename V::vec block[V::lanes], sum[Rows][1];
    for (std::ptrdiff_t m = 0; m < a.columns; m += V::lanes, k += V::lanes * a.k.row(), out += V::lanes) {
        const int valid = a.columns - m < V::lanes ? static_cast<int>(a.columns - m) : V::lanes;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) sum[r][0] = V::zero();
        std::ptrdiff_t d = 0;
        for (; d + step <= a.depth; d += step) {
            if (a.prefetch) fetch_rows<V>(k + d, a.k.row());
            load_transposed<V>(block, k + d, a.k.row(), valid, step);
            accumulate<V, Rows>(sum, q + d / per_entry<V>(), a.q.row(), block, V::lanes);
        }
        if (d < a.depth) {
            load_transposed<V>(block, k + d, a.k.row(), valid, static_cast<int>(a.depth - d));
            accumulate<V, Rows>(sum, q + d / per_entry<V>(), a.q.row(), block, entries<V>(a.depth - d));
        }
        write_tile<V, Rows, 1>(sum, out, a.out.row(), a.scale, valid, false);
    }
}

template <class V, int MostRows, class Stored = typename V::scalar>
struct few_rows_table {
    using scalar = typename V::scalar;
    void (*by_rows[MostRows])(const scores_arguments<Stored, scalar>&, const scalar*, const Stored*, scalar*);

    constexpr few_rows_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = few_rows<V, Rows, Stored>;
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

/// Whether the rows of Q, of all members together, are few and K can be read where it lies.
template <class In, class Out>
HEADWISE_INLINE bool are_few(const scores_arguments<In, Out>& a) {
    return a.rows * a.members <= tiling<In>::few && a.k.column() == 1;
}

/// Few rows that do not lie as `few` wants them, or are not stored as they are multiplied: they are gathered into rows
/// of entries, those of all members of a group, so that K is read from memory once; and the results are scattered.
struct gathered_layout {
    static constexpr std::ptrdiff_t columns = 64;  // of results at a time
    std::ptrdiff_t q_row, q_rows, results;
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return q_rows + results; }
};

template <class In, class Out>
HEADWISE_INLINE gathered_layout gathered_layout_of(const scores_arguments<In, Out>& a) {
    using V = typename tiling<In>::vector;
    const std::ptrdiff_t row = whole_vectors<V>(a.depth);
    return {row, row * a.rows * a.members, gathered_layout::columns * a.rows * a.members};
}

template <class In, class Out>
HEADWISE_NOINLINE void few_gathered(const scores_arguments<In, Out>& a, head_range range, sum_of<In>* workspace) {
    using Sum = sum_of<In>;
    using V = typename tiling<In>::vector;
    static constexpr few_rows_table<V, tiling<In>::few, In> table;
    const gathered_layout space = gathered_layout_of(a);
    Sum* const results = workspace + space.q_rows;
    const std::ptrdiff_t rows = a.rows * a.members;
    const std::ptrdiff_t q_strides[4] = {0, 0, space.q_row, 1}, out_strides[4] = {0, 0, gathered_layout::columns, 1};
    scores_arguments<In, Sum> part{{nullptr, q_strides}, a.k,     {results, out_strides}, 1,    rows, 0,
                                   a.depth,              a.scale, false,                  a.prefetch};
    for (head_walk<In, Out> head(a, range); head.more(); head.next()) {
        for (std::ptrdiff_t r = 0; r < rows; ++r)
            gather_row<V>(workspace + r * space.q_row, head.q + r / a.rows * a.q_member + r % a.rows * a.q.row(),
                          a.q.column(), a.depth);
        for (std::ptrdiff_t first = 0; first < a.columns; first += gathered_layout::columns) {
            const std::ptrdiff_t left = a.columns - first;
            part.columns = left < gathered_layout::columns ? left : gathered_layout::columns;
            table.by_rows[rows - 1](part, workspace, head.k + first * a.k.row(), results);
            for (std::ptrdiff_t member = 0; member < a.members; ++member)
                write_rows<V>(head.out + member * a.out_member + first * a.out.column(), a.out.row(), a.out.column(),
                              results + member * a.rows * gathered_layout::columns, gathered_layout::columns, a.rows,
                              part.columns);
        }
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
