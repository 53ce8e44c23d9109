// Attention scores, fused: one call, every head, on the best instruction set that the machine has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>

#include <headwise/contract.hpp>
#include <headwise/kernel/isa.hpp>
#include <headwise/kernel/targets/baseline.hpp>
#if defined(HEADWISE_HAVE_X86_TARGETS)
#include <headwise/kernel/targets/avx2.hpp>
#include <headwise/kernel/targets/avx512.hpp>
#elif defined(HEADWISE_HAVE_NEON_TARGET)
#include <headwise/kernel/targets/neon.hpp>
#endif
#include <headwise/parallel.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

/// How results are written: `streaming` goes around the caches (for outputs larger than they are, not read at once),
/// `automatic` decides by the size of the output.
enum class stores : unsigned char { automatic, cached, streaming };

struct scores_options {
    int threads = 1;                ///< 1: the calling thread; 0: all the machine has; n: at most n.
    double scale = 1;               ///< out = scale * (q . k), one rounding after the sum.
    enum isa isa = isa::automatic;  ///< Refused when the machine lacks it. HEADWISE_ISA overrides automatic.
    enum stores stores = stores::automatic;
    thread_pool* pool = nullptr;    ///< Whose threads to use when threads != 1; null: a shared pool.
    std::span<std::byte> workspace = {};  ///< Memory to pack in, of `scores_workspace_bytes`; empty: our own.
};

namespace detail {

/// Outputs above this size are streamed: they would push everything else out of the caches on their way to memory.
inline constexpr std::ptrdiff_t streaming_bytes = std::ptrdiff_t{8} << 20;
/// Above this size operands and output do not all sit in an L2 cache, and above that one a head's operands are more
/// than the processor fetches ahead by itself: then the next tiles' operands are fetched between the tiles of now.
/// (8,12,197,197,64): 1.1 times as fast; (64,3,49,49,32), with heads of 12 KiB: 0.92 times, so they are left alone.
inline constexpr std::ptrdiff_t prefetch_bytes = std::ptrdiff_t{1} << 20,
                                prefetch_head_bytes = std::ptrdiff_t{24} << 10;
/// A further thread must have so much to do that its wake-up, some 30 us, is small beside it.
inline constexpr double flops_per_thread = 1.2e7;

template <class Scalar>
const kernel::scores_kernel<Scalar>& kernel_for(isa chosen) noexcept {
    switch (chosen) {
#if defined(HEADWISE_HAVE_X86_TARGETS)
        case isa::avx512: return kernel::avx512::scores_entry<Scalar>;
        case isa::avx2: return kernel::avx2::scores_entry<Scalar>;
#elif defined(HEADWISE_HAVE_NEON_TARGET)
        case isa::neon: return kernel::neon::scores_entry<Scalar>;
#endif
        default: return kernel::baseline::scores_entry<Scalar>;
    }
}

/// A thread's buffer for packed panels: grows when it must, freed with the thread.
class workspace {
public:
    workspace() = default;
    workspace(const workspace&) = delete;
    workspace& operator=(const workspace&) = delete;
    ~workspace() { release(); }

    template <class Scalar>
    [[nodiscard]] Scalar* reserve(std::ptrdiff_t scalars) {
        const std::size_t bytes = static_cast<std::size_t>(scalars) * sizeof(Scalar);
        if (bytes > bytes_) {
            release();
            memory_ = ::operator new(bytes, std::align_val_t{64});
            bytes_ = bytes;
        }
        return static_cast<Scalar*>(memory_);
    }

private:
    void release() noexcept {
        if (memory_ != nullptr) ::operator delete(memory_, std::align_val_t{64});
        memory_ = nullptr;
        bytes_ = 0;
    }
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

inline workspace& thread_workspace() {
    thread_local workspace buffer;
    return buffer;
}

[[noreturn]] HEADWISE_COLD inline void refuse_threads(int threads) {
    refuse("options.threads = " + std::to_string(threads) + ": must be >= 0 (0: all)");
}

/// Where an argument's strides can be pointed at during the call: a view is its own, a tensor gets one.
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE const tensor_view<Scalar>& strided(const tensor_view<Scalar>& view) noexcept {
    return view;
}
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE tensor_view<const Scalar> strided(const tensor<Scalar>& owner) noexcept {
    return owner.view();
}
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE tensor_view<Scalar> strided(tensor<Scalar>& owner) noexcept {
    return owner.view();
}

/// Whether every row of out begins and steps at a multiple of a cache line, so that whole lines can be streamed.
template <class Scalar>
[[nodiscard]] bool rows_are_lines(const kernel::operand<Scalar>& out) noexcept {
    const std::ptrdiff_t steps = out.strides[0] | out.strides[1] | out.strides[2];
    return out.column() == 1 && steps * std::ptrdiff_t{sizeof(Scalar)} % 64 == 0 &&
           reinterpret_cast<std::uintptr_t>(out.data) % 64 == 0;
}

/// How a call's work is cut for threads: by heads where there are enough, else each head by rows, or, where rows are
/// few, by columns. A cut changes no result: every output is computed whole, in one place.
struct scores_cut {
    std::ptrdiff_t head_step, row_step, column_step;  // the size of a piece along each
    std::ptrdiff_t heads, rows, columns;              // pieces along each

    [[nodiscard]] std::ptrdiff_t pieces() const noexcept { return heads * rows * columns; }

    /// The arguments of piece i.
    template <class Scalar>
    [[nodiscard]] kernel::scores_arguments<Scalar> piece(kernel::scores_arguments<Scalar> a, std::ptrdiff_t i) const {
        const std::ptrdiff_t column = i % columns * column_step, row = i / columns % rows * row_step;
        a.q.data += row * a.q.row();
        a.k.data += column * a.k.row();
        a.out.data += row * a.out.row() + column * a.out.column();
        a.rows = std::min(row_step, a.rows - row);
        a.columns = std::min(column_step, a.columns - column);
        return a;
    }
    [[nodiscard]] kernel::head_range heads_of(std::ptrdiff_t i, std::ptrdiff_t all) const noexcept {
        const std::ptrdiff_t first = i / columns / rows * head_step;
        return {first, std::min(first + head_step, all)};
    }
};

template <class Scalar>
scores_cut cut_work(const kernel::scores_arguments<Scalar>& a, std::ptrdiff_t heads,
                    const kernel::scores_kernel<Scalar>& kernel, int threads) {
    const auto up = [](std::ptrdiff_t n, std::ptrdiff_t by) { return (n + by - 1) / by; };
    constexpr std::ptrdiff_t pieces_per_thread = 4;  // what a slower thread leaves, a faster one takes
    const std::ptrdiff_t wanted = threads == 1 ? 1 : threads * pieces_per_thread;
    scores_cut cut{std::max<std::ptrdiff_t>(1, heads / wanted), a.rows, a.columns, 0, 1, 1};
    cut.heads = up(heads, cut.head_step);
    if (const std::ptrdiff_t per_head = up(wanted, heads); per_head > 1) {
        if (a.rows > kernel.most_few) {
            cut.row_step = up(up(a.rows, per_head), kernel.tile_rows) * kernel.tile_rows;
            cut.rows = up(a.rows, cut.row_step);
        } else {
            cut.column_step = up(up(a.columns, per_head), 64) * 64;
            cut.columns = up(a.columns, cut.column_step);
        }
    }
    return cut;
}

template <class Scalar>
[[nodiscard]] double flops_of(const kernel::scores_arguments<Scalar>& a, std::ptrdiff_t heads) noexcept {
    return 2.0 * static_cast<double>(heads * a.rows * a.columns) * static_cast<double>(a.depth);
}

/// How many threads the call is worth: at most `wanted` (0: all), none for less work than its wake-up costs.
[[nodiscard]] inline int worthwhile_threads(int wanted, double flops) noexcept {
    const int most = wanted == 0 ? hardware_threads() : wanted;
    return static_cast<int>(std::clamp(flops / flops_per_thread, 1.0, static_cast<double>(most)));
}

[[noreturn]] HEADWISE_COLD inline void refuse_workspace(std::size_t given, std::size_t needed) {
    refuse("options.workspace has " + std::to_string(given) + " bytes; this call needs " + std::to_string(needed));
}

/// How a call beyond the smallest is run: on how many threads, cut how, with how much memory for each.
template <class Scalar>
struct scores_plan {
    int threads;
    scores_cut cut;
    std::ptrdiff_t scalars;  // of workspace for each thread, a multiple of 64

    scores_plan(const kernel::scores_kernel<Scalar>& kernel, const kernel::scores_arguments<Scalar>& a,
                std::ptrdiff_t heads, bool few, int wanted) {
        threads = wanted == 1 ? 1 : worthwhile_threads(wanted, flops_of(a, heads));
        cut = cut_work(a, heads, kernel, threads);
        scalars = few ? 0 : (kernel.workspace_size(a) + 63) / 64 * 64;
    }

    /// With room to begin at a multiple of 64 bytes.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return scalars == 0 ? 0 : static_cast<std::size_t>(scalars * threads) * sizeof(Scalar) + 63;
    }
};

/// The memory of a plan: what the caller gave, or this thread's own.
template <class Scalar>
[[nodiscard]] Scalar* memory_for(const scores_plan<Scalar>& plan, std::span<std::byte> given) {
    if (given.empty() || plan.scalars == 0)
        return thread_workspace().template reserve<Scalar>(plan.scalars * plan.threads);
    if (given.size() < plan.bytes()) refuse_workspace(given.size(), plan.bytes());
    const auto misaligned = reinterpret_cast<std::uintptr_t>(given.data()) % 64;
    return reinterpret_cast<Scalar*>(given.data() + (misaligned == 0 ? 0 : 64 - misaligned));
}

/// The sum of no products.
template <class Scalar>
HEADWISE_NOINLINE void write_zeros(const tensor_view<Scalar>& out) noexcept {
    for (std::ptrdiff_t b = 0; b < out.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < out.shape()[1]; ++h)
            for (std::ptrdiff_t l = 0; l < out.shape()[2]; ++l)
                for (std::ptrdiff_t m = 0; m < out.shape()[3]; ++m) out(b, h, l, m) = Scalar(0);
}

/// Everything beyond the smallest calls.
template <class Scalar>
HEADWISE_NOINLINE void run_scores(const kernel::scores_kernel<Scalar>& kernel,
                                  const kernel::scores_arguments<Scalar>& call, std::ptrdiff_t heads, bool few,
                                  const scores_options& options) {
    kernel::scores_arguments<Scalar> a = call;
    constexpr std::ptrdiff_t bytes = sizeof(Scalar);
    const std::ptrdiff_t results = heads * a.rows * a.columns;
    const std::ptrdiff_t head_bytes = (a.rows + a.columns) * a.depth * bytes;
    if (!few) a.prefetch = results * bytes + heads * head_bytes > prefetch_bytes && head_bytes > prefetch_head_bytes;
    a.stream = options.stores != stores::cached && rows_are_lines(a.out) &&
               (options.stores == stores::streaming || results * bytes > streaming_bytes);

    const scores_plan<Scalar> plan(kernel, a, heads, few, options.threads);
    Scalar* const memory = memory_for(plan, options.workspace);
    parallel_for(options.pool, plan.threads, plan.cut.pieces(), [&](int worker, std::ptrdiff_t i) {
        if (few) kernel.few(plan.cut.piece(a, i), plan.cut.heads_of(i, heads));
        else kernel.packed(plan.cut.piece(a, i), plan.cut.heads_of(i, heads), memory + worker * plan.scalars);
    });
}

/// Too little work for a second thread.
template <class Scalar>
[[nodiscard]] bool is_small(const kernel::scores_arguments<Scalar>& a, std::ptrdiff_t heads) noexcept {
    return flops_of(a, heads) < 2 * flops_per_thread;
}

/// Unit strides and few rows: nothing is packed.
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE bool is_few(const kernel::scores_kernel<Scalar>& kernel,
                                          const kernel::scores_arguments<Scalar>& a) noexcept {
    return a.rows <= kernel.most_few && a.q.column() == 1 && a.k.column() == 1 && a.out.column() == 1;
}

/// The views' strides are pointed at: they must live as long as the arguments.
template <class Q, class K, class Out>
[[nodiscard]] HEADWISE_INLINE kernel::scores_arguments<scalar_of<Q>> arguments_of(const Q& q, const K& k,
                                                                                  const Out& out,
                                                                                  double scale) noexcept {
    constexpr std::ptrdiff_t bytes = sizeof(scalar_of<Q>);
    const std::ptrdiff_t heads = q.shape()[0] * q.shape()[1], columns = k.shape()[2], depth = q.shape()[3];
    return {{q.data(), q.strides().data()},
            {k.data(), k.strides().data()},
            {out.data(), out.strides().data()},
            q.shape()[1],
            q.shape()[2],
            columns,
            depth,
            static_cast<scalar_of<Q>>(scale),
            false,
            heads * columns * depth > prefetch_bytes / bytes};
}

}  // namespace detail

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], that is scale * einsum("bhld,bhmd->bhlm", q, k).
///
/// q (B, H, L, D), k (B, H, M, D), out (B, H, L, M), float or double; any strides, any alignment. `out` shares no
/// memory with q or k; q and k may be the same. D = 0 gives zeros. Every output is one chain of multiply-adds, d
/// ascending: the same bits for any threads, batch, strides and alignment, and on every target with a fused
/// multiply-add. With threads = 1 it allocates nothing once the calling thread's workspace has grown; more threads cost
/// some small allocations a call, for the pool's tasks. Safe to call from several threads at once, and from tasks of
/// the pool. Throws `std::invalid_argument` on anything else, before out is touched; `std::bad_alloc` when there is no
/// memory.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && output_for<Out, scalar_of<Q>>
void batched_scores_vectorized(const Q& q_like, const K& k_like, Out&& out_like, const scores_options& options = {}) {
    using Scalar = scalar_of<Q>;
    detail::check_scores(q_like, k_like, out_like);
    if (options.threads < 0) [[unlikely]]
        detail::refuse_threads(options.threads);
    const kernel::scores_kernel<Scalar>& kernel = detail::kernel_for<Scalar>(detail::choose_isa(options.isa));
    if (detail::is_empty(out_like.shape())) return;

    const auto& q = detail::strided(q_like);
    const auto& k = detail::strided(k_like);
    const auto& out = detail::strided(out_like);
    const kernel::scores_arguments<Scalar> a = detail::arguments_of(q, k, out, options.scale);
    const std::ptrdiff_t heads = q.shape()[0] * q.shape()[1];
    if (a.depth == 0) [[unlikely]]
        return detail::write_zeros<Scalar>(out);
    const bool few = detail::is_few(kernel, a);
    if (few && (options.threads == 1 || detail::is_small(a, heads))) return kernel.few(a, {0, heads});
    detail::run_scores(kernel, a, heads, few, options);
}

/// The size of `scores_options::workspace` that such a call needs: 0 where nothing is packed.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && output_for<Out, scalar_of<Q>>
[[nodiscard]] std::size_t scores_workspace_bytes(const Q& q_like, const K& k_like, Out&& out_like,
                                                 const scores_options& options = {}) {
    using Scalar = scalar_of<Q>;
    detail::check_scores(q_like, k_like, out_like);
    const kernel::scores_kernel<Scalar>& kernel = detail::kernel_for<Scalar>(detail::choose_isa(options.isa));
    if (detail::is_empty(out_like.shape()) || q_like.shape()[3] == 0) return 0;
    const auto& q = detail::strided(q_like);
    const auto& k = detail::strided(k_like);
    const auto& out = detail::strided(out_like);
    const kernel::scores_arguments<Scalar> a = detail::arguments_of(q, k, out, options.scale);
    const std::ptrdiff_t heads = q.shape()[0] * q.shape()[1];
    return detail::scores_plan<Scalar>(kernel, a, heads, detail::is_few(kernel, a), options.threads).bytes();
}

/// The same, into a new tensor (B, H, L, M).
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> batched_scores_vectorized(const Q& q, const K& k,
                                                             const scores_options& options = {}) {
    detail::check_scores_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::scores_shape(q.shape(), k.shape()), uninitialized);
    batched_scores_vectorized(q, k, out, options);
    return out;
}

}  // namespace headwise
