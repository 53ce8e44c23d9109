// Attention scores, fused: one call, every head, on the best instruction set that the machine has.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
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
    int threads = 1;                               ///< 1: the calling thread; 0: all the machine has; n: at most n.
    double scale = 1;                              ///< out = scale * (q . k), one rounding after the sum.
    enum isa isa = isa::automatic;                 ///< Refused when the machine lacks it. HEADWISE_ISA overrides automatic.
    enum stores stores = stores::automatic;
    thread_pool* pool = nullptr;                   ///< Whose threads to use when threads != 1; null: a shared pool.
};

namespace detail {

/// Outputs above this size are streamed: they would push everything else out of the caches on their way to memory.
inline constexpr std::ptrdiff_t streaming_bytes = std::ptrdiff_t{8} << 20;
/// The packed block of K that stays in the L2 cache beside a tile's rows of Q and the output.
inline constexpr std::ptrdiff_t packed_bytes = std::ptrdiff_t{512} << 10;
/// A further thread must have this much to do: waking one costs some 10 us.
inline constexpr double flops_per_thread = 1e6;

template <class Scalar>
using scores_kernel = void (*)(const kernel::scores_arguments<Scalar>&, const kernel::scores_part&, Scalar*,
                               std::ptrdiff_t);

template <class Scalar>
scores_kernel<Scalar> kernel_for(isa chosen) noexcept {
    switch (chosen) {
#if defined(HEADWISE_HAVE_X86_TARGETS)
        case isa::avx512: return kernel::avx512::scores<Scalar>;
        case isa::avx2: return kernel::avx2::scores<Scalar>;
#elif defined(HEADWISE_HAVE_NEON_TARGET)
        case isa::neon: return kernel::neon::scores<Scalar>;
#endif
        default: return kernel::baseline::scores<Scalar>;
    }
}

/// A thread's buffer for packed panels: grows when it must, freed with the thread.
class workspace {
public:
    workspace() = default;
    workspace(const workspace&) = delete;
    workspace& operator=(const workspace&) = delete;
    ~workspace() { release(); }

    void* reserve(std::size_t bytes) {
        if (bytes > bytes_) {
            release();
            memory_ = ::operator new(bytes, std::align_val_t{64});
            bytes_ = bytes;
        }
        return memory_;
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

template <class Scalar>
kernel::operand<Scalar> operand_of(const tensor_view<Scalar>& view) noexcept {
    const strides4& s = view.strides();
    return {view.data(), s[0], s[1], s[2], s[3]};
}

}  // namespace detail

/// out[b,h,l,m] = scale * sum over d of q[b,h,l,d] * k[b,h,m,d], that is scale * einsum("bhld,bhmd->bhlm", q, k).
template <class Q, class K, class Out>
    requires same_scalar<Q, K> && output_for<Out, scalar_of<Q>>
void batched_scores_vectorized(const Q& q_like, const K& k_like, Out&& out_like, const scores_options& options = {}) {
    using Scalar = scalar_of<Q>;
    const tensor_view<const Scalar> q = as_view(q_like), k = as_view(k_like);
    const tensor_view<Scalar> out = as_view(out_like);
    detail::check_scores(q, k, out);
    const isa chosen = detail::choose_isa(options.isa);
    if (out.size() == 0) return;

    const auto run = detail::kernel_for<Scalar>(chosen);
    const std::ptrdiff_t B = q.shape()[0], H = q.shape()[1], L = q.shape()[2], M = k.shape()[2], D = q.shape()[3];
    const kernel::scores_arguments<Scalar> arguments{
        detail::operand_of(q), detail::operand_of(k), detail::operand_of(out), B, H, L, M, D,
        static_cast<Scalar>(options.scale), false};
    constexpr std::ptrdiff_t widest = 64;
    std::ptrdiff_t block = detail::packed_bytes / (std::max<std::ptrdiff_t>(D, 1) * std::ptrdiff_t{sizeof(Scalar)});
    block = std::max(widest, std::min(block, M + widest - 1) / widest * widest);
    auto* buffer = static_cast<Scalar*>(
        detail::thread_workspace().reserve(static_cast<std::size_t>(block * std::max<std::ptrdiff_t>(D, 1)) * sizeof(Scalar)));
    run(arguments, {0, B * H, 0, L, 0, M}, buffer, block);
}

/// The same, into a new tensor (B, H, L, M).
template <class Q, class K>
    requires same_scalar<Q, K>
[[nodiscard]] tensor<scalar_of<Q>> batched_scores_vectorized(const Q& q, const K& k, const scores_options& options = {}) {
    detail::check_scores_inputs(q.shape(), k.shape());
    tensor<scalar_of<Q>> out(detail::scores_shape(q.shape(), k.shape()), uninitialized);
    batched_scores_vectorized(q, k, out, options);
    return out;
}

}  // namespace headwise
