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

/// What of K is fetched while a block of the lanes' rows is read: the same vector of rows further on, and a line of
/// each page still further on, for the sake of its translation. All may lie beyond K, where nothing is read.
template <class V, class Stored>
class fetch_few {
public:
    HEADWISE_INLINE explicit fetch_few(const scores_arguments<Stored, typename V::scalar>& a)
        : row_(a.k.row() * std::ptrdiff_t{sizeof(Stored)}) {
        constexpr std::ptrdiff_t near = 9216, fewest = V::lanes + V::lanes / 8;
        const std::ptrdiff_t rows = near / (a.depth * std::ptrdiff_t{sizeof(Stored)});
        ahead_ = (rows < fewest ? fewest : rows) * row_;
        adjacent_ = a.k.row() == a.depth ? V::lanes * row_ : 0;
    }
    /// Before rows at k are read.
    HEADWISE_INLINE void begin(const Stored* k) const { fetch_pages(address(k, pages_ahead), adjacent_); }
    /// While one vector of each is.
    HEADWISE_INLINE void step(const Stored* k) const {
        std::uintptr_t row = address(k, ahead_);
        HEADWISE_UNROLL
        for (int i = 0; i < V::lanes; ++i) {
            fetch_line(row);
            row += static_cast<std::uintptr_t>(row_);
            HEADWISE_OPAQUE(row);
        }
    }

private:
    static HEADWISE_INLINE std::uintptr_t address(const Stored* k, std::ptrdiff_t ahead) {
        return reinterpret_cast<std::uintptr_t>(k) + static_cast<std::uintptr_t>(ahead);
    }
    std::ptrdiff_t row_, ahead_;
    std::ptrdiff_t adjacent_;  // bytes of a block whose rows touch; of rows apart the first line brings the page
};

/// Fetches nothing.
struct fetch_none {
    template <class Arguments>
    HEADWISE_INLINE explicit fetch_none(const Arguments&) {}
    HEADWISE_INLINE void begin(const void*) const {}
    HEADWISE_INLINE void step(const void*) const {}
};

/// Rows x columns outputs straight from K, which has unit stride along d; q is a row of entries. `Fetch`: K lies in
/// memory, or a far cache.
template <class V, int Rows, class Stored = typename V::scalar, bool Fetch = false>
HEADWISE_NOINLINE void few_rows(const scores_arguments<Stored, typename V::scalar>& a, const typename V::scalar* q,
                                const Stored* k, typename V::scalar* out) {
    constexpr int step = V::lanes * per_entry<V>();
    const std::ptrdiff_t k_row = a.k.row(), q_row = a.q.row();
    const std::conditional_t<Fetch, fetch_few<V, Stored>, fetch_none> ahead(a);
    typename V::vec block[V::lanes], sum[Rows][1];
    for (std::ptrdiff_t left = a.columns;; left -= V::lanes, k += V::lanes * k_row, out += V::lanes) {
        const int valid = left < V::lanes ? static_cast<int>(left) : V::lanes;
        HEADWISE_UNROLL
        for (int r = 0; r < Rows; ++r) sum[r][0] = V::zero();
        ahead.begin(k);
        std::ptrdiff_t d = 0;
        for (; d + step <= a.depth; d += step) {
            ahead.step(k + d);
            load_transposed<V>(block, k + d, k_row, valid, step);
            accumulate<V, Rows>(sum, q + d / per_entry<V>(), q_row, block, V::lanes);
        }
        if (d < a.depth) {
            load_transposed<V>(block, k + d, k_row, valid, static_cast<int>(a.depth - d));
            accumulate<V, Rows>(sum, q + d / per_entry<V>(), q_row, block, entries<V>(a.depth - d));
        }
        write_tile<V, Rows, 1>(sum, out, a.out.row(), a.scale, valid, false);
        if (left <= V::lanes) return;  // before the step: the stride of a single row of K may be anything
    }
}

template <class V, int MostRows, class Stored = typename V::scalar, bool Fetch = false>
struct few_rows_table {
    using scalar = typename V::scalar;
    void (*by_rows[MostRows])(const scores_arguments<Stored, scalar>&, const scalar*, const Stored*, scalar*);

    constexpr few_rows_table() : by_rows{} { fill<MostRows>(); }
    template <int Rows>
    constexpr void fill() {
        by_rows[Rows - 1] = few_rows<V, Rows, Stored, Fetch>;
        if constexpr (Rows > 1) fill<Rows - 1>();
    }
};

/// The function for a call's rows. The shortest register that holds a row of the result computes it: its transposes are
/// the cheapest. For one row or two of more than an L3 cache holds, halves of the longest do: they read eight rows of K
/// at a time, not sixteen, and (1,32,1,4096,128) is 1.12 times as fast; from an L3 cache they would take 1.5 times as
/// long.
template <class Scalar>
HEADWISE_INLINE auto few_function(const scores_arguments<Scalar>& a, std::ptrdiff_t heads) {
    using registers = registers_of<Scalar>;
    using wide = typename registers::wide;
    using half = std::conditional_t<sizeof(typename wide::vec) == 64, typename registers::narrow, wide>;
    constexpr int most = tiling<Scalar>::few;
    static constexpr few_rows_table<wide, most> of_wide;
    static constexpr few_rows_table<typename registers::narrow, most> of_narrow;
    static constexpr few_rows_table<typename registers::narrowest, most> of_narrowest;
    static constexpr few_rows_table<wide, most, Scalar, true> fetching;
    static constexpr few_rows_table<half, 2, Scalar, true> fetching_two;
    const std::ptrdiff_t i = a.rows - 1;
    if (a.columns <= registers::narrowest::lanes) return of_narrowest.by_rows[i];
    if (a.columns <= registers::narrow::lanes) return of_narrow.by_rows[i];
    if (!a.prefetch) return of_wide.by_rows[i];
    constexpr std::ptrdiff_t cached = (std::ptrdiff_t{32} << 20) / std::ptrdiff_t{sizeof(Scalar)};
    return a.rows <= 2 && heads * a.columns * a.depth > cached ? fetching_two.by_rows[i] : fetching.by_rows[i];
}

template <class Scalar>
void few(const scores_arguments<Scalar>& a, head_range range) {
    const auto compute = few_function(a, range.last - range.first);
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
    static constexpr few_rows_table<V, tiling<In>::few, In> near;
    static constexpr few_rows_table<V, tiling<In>::few, In, true> fetching;
    const gathered_layout space = gathered_layout_of(a);
    Sum* const results = workspace + space.q_rows;
    const std::ptrdiff_t rows = a.rows * a.members;
    const auto compute = (a.prefetch ? fetching.by_rows : near.by_rows)[rows - 1];
    const std::ptrdiff_t q_strides[4] = {0, 0, space.q_row, 1}, out_strides[4] = {0, 0, gathered_layout::columns, 1};
    scores_arguments<In, Sum> part{
        {nullptr, q_strides}, a.k, {results, out_strides}, 1, rows, 0, a.depth, a.scale, false, a.prefetch};
    for (head_walk<In, Out> head(a, range); head.more(); head.next()) {
        for (std::ptrdiff_t r = 0; r < rows; ++r)
            gather_row<V>(workspace + r * space.q_row, head.q + r / a.rows * a.q_member + r % a.rows * a.q.row(),
                          a.q.column(), a.depth);
        for (std::ptrdiff_t first = 0; first < a.columns; first += gathered_layout::columns) {
            const std::ptrdiff_t left = a.columns - first;
            part.columns = left < gathered_layout::columns ? left : gathered_layout::columns;
            compute(part, workspace, head.k + first * a.k.row(), results);
            for (std::ptrdiff_t member = 0; member < a.members; ++member)
                write_rows<V>(head.out + member * a.out_member + first * a.out.column(), a.out.row(), a.out.column(),
                              results + member * a.rows * gathered_layout::columns, gathered_layout::columns, a.rows,
                              part.columns);
        }
    }
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
