// Attention scores, fused: one call, every head, on the best instruction set that the machine has.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include <headwise/contract.hpp>
#include <headwise/kernel/isa.hpp>
#include <headwise/kernel/targets/baseline.hpp>
#if defined(HEADWISE_HAVE_X86_TARGETS)
#include <headwise/kernel/targets/avx2.hpp>
#include <headwise/kernel/targets/avx512.hpp>
#include <headwise/kernel/targets/avx512_bf16.hpp>
#elif defined(HEADWISE_HAVE_NEON_TARGET)
#include <headwise/kernel/targets/neon.hpp>
#endif
#include <headwise/parallel.hpp>
#include <headwise/probe.hpp>
#include <headwise/scores_options.hpp>
#include <headwise/scores_plan.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

namespace detail {

template <class In, class Out = In>
const kernel::scores_kernel<In, Out>& kernel_for(isa chosen) noexcept {
    switch (chosen) {
#if defined(HEADWISE_HAVE_X86_TARGETS)
        case isa::avx512_bf16:
            if constexpr (std::is_same_v<In, kernel::bfloat16>) return kernel::avx512_bf16::scores_entry<In, Out>;
            [[fallthrough]];
        case isa::avx512:
            return kernel::avx512::scores_entry<In, Out>;
        case isa::avx2:
            return kernel::avx2::scores_entry<In, Out>;
#elif defined(HEADWISE_HAVE_NEON_TARGET)
        case isa::neon:
            return kernel::neon::scores_entry<In, Out>;
#endif
        default:
            return kernel::baseline::scores_entry<In, Out>;
    }
}

/// The kernel for operands and an output of these types.
template <class Q, class Out>
[[nodiscard]] HEADWISE_INLINE const auto& scores_kernel_for(isa wanted) {
    using In = kernel_scalar<scalar_of<Q>>;
    if constexpr (std::is_same_v<In, kernel::bfloat16>)
        return kernel_for<In, kernel_scalar<scalar_of<Out>>>(choose_bfloat16_isa(wanted));
    else return kernel_for<In, kernel_scalar<scalar_of<Out>>>(choose_isa(wanted));
}

[[noreturn]] HEADWISE_COLD inline void refuse_options(int threads, stores how) {
    if (threads < 0) refuse("options.threads = " + std::to_string(threads) + ": must be >= 0 (0: all)");
    refuse("options.stores = " + std::to_string(static_cast<int>(how)) + ": none of automatic, cached, streaming");
}

/// Those that say how to run; the kernel's choice checks isa.
HEADWISE_INLINE void check_run_options(const scores_options& options) {
    if (options.threads < 0 || options.stores > stores::streaming) [[unlikely]]
        refuse_options(options.threads, options.stores);
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

/// The sum of no products.
template <class Scalar>
HEADWISE_NOINLINE void write_zeros(const tensor_view<Scalar>& out) noexcept {
    for (std::ptrdiff_t b = 0; b < out.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < out.shape()[1]; ++h)
            for (std::ptrdiff_t l = 0; l < out.shape()[2]; ++l)
                for (std::ptrdiff_t m = 0; m < out.shape()[3]; ++m) out(b, h, l, m) = Scalar(0);
}

/// Everything beyond the smallest calls.
template <class In, class Result, class Q, class K, class Out>
HEADWISE_NOINLINE void run_scores(const kernel::scores_kernel<In, Result>& kernel, const Q& q, const K& k, Out& out,
                                  const scores_options& options) {
    HEADWISE_PROBE("scores");
    using Scalar = const scalar_of<Q>;
    const scores_call<In, Result> call(kernel, tensor_view<Scalar>(as_view(q)), tensor_view<Scalar>(as_view(k)),
                                       as_view(out), options);
    const scores_plan<In, Result> plan(kernel, call, options);
    kernel::sum_of<In>* const memory = memory_for(plan, options.workspace);
    parallel_for(options.pool, plan.threads.now, plan.cut.pieces(), [&](int worker, std::ptrdiff_t i) {
        const kernel::scores_arguments<In, Result> piece = plan.cut.piece(call.arguments, i);
        const kernel::head_range range = plan.cut.heads_of(i, call.heads);
        HEADWISE_PROBE("piece");
        if (call.few) kernel.few(piece, range);
        else kernel.packed(piece, range, memory + worker * plan.scalars);
    });
    note_call(plan.threads);
}

/// Few rows, unit strides, as many heads of q as of k, and too little work for a second thread: nothing to prepare.
template <class Scalar>
[[nodiscard]] HEADWISE_INLINE bool is_small(const kernel::scores_kernel<Scalar>& kernel,
                                            const kernel::scores_arguments<Scalar>& a, std::ptrdiff_t heads,
                                            int threads) noexcept {
    return is_few(kernel, a) && (threads == 1 || expected_time_of(a, heads) < 2 * worth_sharing);
}

/// The views' strides are pointed at: they must live as long as the arguments.
template <class Q, class K, class Out>
[[nodiscard]] HEADWISE_INLINE kernel::scores_arguments<scalar_of<Q>> arguments_of(const Q& q, const K& k,
                                                                                  const Out& out,
                                                                                  double scale) noexcept {
    const std::ptrdiff_t columns = k.shape()[2], depth = q.shape()[3];
    constexpr std::ptrdiff_t bytes = sizeof(scalar_of<Q>);
    const std::ptrdiff_t heads = k.shape()[0] * k.shape()[1];
    return {{q.data(), q.strides().data()},
            {k.data(), k.strides().data()},
            {out.data(), out.strides().data()},
            k.shape()[1],
            q.shape()[2],
            columns,
            depth,
            static_cast<scalar_of<Q>>(scale),
            false,
            heads * columns * depth > prefetch_bytes / bytes};
}

/// The call, once its tensors have been checked.
template <class Q, class K, class Out>
HEADWISE_INLINE void compute_scores(const Q& q_like, const K& k_like, Out& out_like, const scores_options& options) {
    check_run_options(options);
    const auto& kernel = scores_kernel_for<Q, Out>(options.isa);
    if (is_empty(out_like.shape())) return;
    if (q_like.shape()[3] == 0) [[unlikely]]
        return write_zeros(as_view(out_like));
    if constexpr (!is_sixteen_bit<scalar_of<Q>>) {
        if (q_like.shape()[1] == k_like.shape()[1]) [[likely]] {
            const auto& q = strided(q_like);
            const auto& k = strided(k_like);
            const auto& out = strided(out_like);
            const auto a = arguments_of(q, k, out, options.scale);
            const std::ptrdiff_t heads = q.shape()[0] * q.shape()[1];
            if (is_small(kernel, a, heads, options.threads)) return kernel.few(a, {0, heads});
        }
    }
    run_scores(kernel, q_like, k_like, out_like, options);
}

/// What the call needs, likewise.
template <class Q, class K, class Out>
[[nodiscard]] std::size_t workspace_bytes(const Q& q_like, const K& k_like, Out& out_like,
                                          const scores_options& options) {
    check_run_options(options);
    const auto& kernel = scores_kernel_for<Q, Out>(options.isa);
    if (is_empty(out_like.shape()) || q_like.shape()[3] == 0) return 0;
    const tensor_view<const scalar_of<Q>> q = as_view(q_like), k = as_view(k_like);
    const scores_call call(kernel, q, k, as_view(out_like), options);
    return scores_plan(kernel, call, options).bytes();
}

}  // namespace detail

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], that is scale * einsum("bhld,bhmd->bhlm", q, k).
///
/// q (B, H, L, D), k (B, H, M, D), out (B, H, L, M), of float, double, `Eigen::bfloat16` or `Eigen::half`; any strides,
/// any alignment. Unit strides are fast: of q and k along d or along their rows, of out along m or l. k may have fewer
/// heads, Hkv, of which H is a multiple: then head h of q meets head h / (H / Hkv) of k (grouped and multi-query
/// attention; PyTorch's enable_gqa), which is read and packed once for all that share it. `out` shares no memory with q
/// or k, nor does a workspace with any of them; q and k may be the same. D = 0 gives zeros.
///
/// Every output is one chain of multiply-adds, d ascending: the same bits for any threads, batch, grouping, strides and
/// alignment, and on every target with a fused multiply-add. (Where two NaNs meet, either may come through.) Of the
/// sixteen-bit types the sums are floats; out is of the same type, rounded once, to nearest even, or float. On AVX-512
/// BF16, taken for bfloat16 where the machine has it, the chain is one of pairs of products, with denormals as zeros:
/// within gamma_D of the exact sum as well, but with other bits than elsewhere; `.isa = isa::avx512` has those.
///
/// It allocates nothing once the calling thread's workspace has grown, but for the pool's tasks where threads must be
/// woken. Safe to call from several threads at once, and from tasks of the pool.
/// Throws `std::invalid_argument` on anything else, before out is touched; `std::bad_alloc` when there is no memory.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
void batched_scores_vectorized(const Q& q_like, const K& k_like, Out&& out_like, const scores_options& options = {}) {
    {
        HEADWISE_PROBE("check");
        detail::check_scores(q_like, k_like, out_like);
        if (!options.workspace.empty()) [[unlikely]] {
            detail::check_workspace(options.workspace, "q", q_like);
            detail::check_workspace(options.workspace, "k", k_like);
            detail::check_workspace(options.workspace, "out", out_like);
        }
    }
    detail::compute_scores(q_like, k_like, out_like, options);
}

/// The size of `scores_options::workspace` that such a call needs: 0 where nothing is packed.
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && product_output_for<Out, scalar_of<Q>>
[[nodiscard]] std::size_t scores_workspace_bytes(const Q& q_like, const K& k_like, Out&& out_like,
                                                 const scores_options& options = {}) {
    detail::check_scores(q_like, k_like, out_like);
    return detail::workspace_bytes(q_like, k_like, out_like, options);
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
