// What becomes of a call of batched scores before a kernel runs: the strides that it likes best, how the work is cut
// for threads, how much memory it needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <headwise/contract.hpp>
#include <headwise/kernel/arguments.hpp>
#include <headwise/parallel.hpp>
#include <headwise/scores_options.hpp>
#include <headwise/tensor.hpp>

namespace headwise::detail {

/// Outputs above this size are streamed: they would push everything else out of the caches on their way to memory. The
/// addresses of their pages are looked up ahead; (32,12,128,128,64): 1.16 times as fast, (16,12,256,256,32): 1.1.
inline constexpr std::ptrdiff_t streaming_bytes = std::ptrdiff_t{8} << 20;
/// Above this size operands and output do not all sit in an L2 cache, and above that one a head's operands are more
/// than the processor fetches ahead by itself: then the next tiles' operands are fetched between the tiles of now.
/// (8,12,197,197,64): 1.1 times as fast; (64,3,49,49,32), with heads of 12 KiB: 0.92 times, so they are left alone.
inline constexpr std::ptrdiff_t prefetch_bytes = std::ptrdiff_t{1} << 20,
                                prefetch_head_bytes = std::ptrdiff_t{24} << 10;
/// Above this size, if it is not streamed, the output is fetched before it is written: no cache has kept it from the
/// last time. (8,12,197,197,64): 1.2 times as fast, (2,16,1024,77,80): 1.1; half of it: 0.98 to 1 times.
inline constexpr std::ptrdiff_t fetch_out_bytes = std::ptrdiff_t{4} << 20;

/// A scalar as the kernels know it.
template <class Scalar>
struct kernel_type {
    using type = Scalar;
};
template <>
struct kernel_type<Eigen::bfloat16> {
    using type = kernel::bfloat16;
};
template <>
struct kernel_type<Eigen::half> {
    using type = kernel::half;
};
template <class Scalar>
using kernel_scalar = typename kernel_type<Scalar>::type;

template <class Scalar>
[[nodiscard]] HEADWISE_INLINE auto* kernel_data(Scalar* data) noexcept {
    if constexpr (std::is_const_v<Scalar>)
        return reinterpret_cast<const kernel_scalar<std::remove_const_t<Scalar>>*>(data);
    else return reinterpret_cast<kernel_scalar<Scalar>*>(data);
}

/// A thread's buffer for packed panels: grows when it must, freed with the thread. It has no destructor of its own: a
/// static object that computes as the program ends does so when this thread's other variables are gone, and must find
/// no buffer here, not one that was freed.
struct workspace {
    void* memory = nullptr;
    std::size_t bytes = 0;

    template <class Scalar>
    [[nodiscard]] Scalar* reserve(std::ptrdiff_t scalars) {
        const std::size_t needed = static_cast<std::size_t>(scalars) * sizeof(Scalar);
        if (needed > bytes) {
            release();
            memory = ::operator new (needed, std::align_val_t{64});
            bytes = needed;
        }
        return static_cast<Scalar*>(memory);
    }
    void release() noexcept {
        if (memory != nullptr) ::operator delete (memory, std::align_val_t{64});
        *this = {};
    }
};

inline workspace& thread_workspace() {
    struct owner {
        workspace& buffer;
        ~owner() { buffer.release(); }
    };
    static constinit thread_local workspace buffer;
    static thread_local const owner freed_with_the_thread{buffer};
    static_cast<void>(freed_with_the_thread);
    return buffer;
}

/// Whether every row of out begins and steps at a multiple of a cache line, so that whole lines can be streamed.
template <class In, class Out>
[[nodiscard]] bool rows_are_lines(const kernel::scores_arguments<In, Out>& a) noexcept {
    const kernel::operand<Out>& out = a.out;
    const std::ptrdiff_t steps = out.strides[0] | out.strides[1] | out.strides[2] | a.out_member;
    return out.column() == 1 && steps % (64 / std::ptrdiff_t{sizeof(Out)}) == 0 &&
           reinterpret_cast<std::uintptr_t>(out.data) % 64 == 0;
}

/// A call's time on one thread, roughly, in nanoseconds.
template <class In, class Out>
[[nodiscard]] double expected_time_of(const kernel::scores_arguments<In, Out>& a, std::ptrdiff_t heads) noexcept {
    const auto columns = static_cast<double>(heads * a.columns), rows = static_cast<double>(a.members * a.rows),
               depth = static_cast<double>(a.depth);
    return expected_nanoseconds(2 * rows * columns * depth, columns * (depth * sizeof(In) + rows * sizeof(Out)));
}

/// Few rows, each head's its own, with unit strides: nothing is packed.
template <class In, class Out>
[[nodiscard]] HEADWISE_INLINE bool is_few(const kernel::scores_kernel<In, Out>& kernel,
                                          const kernel::scores_arguments<In, Out>& a) noexcept {
    return kernel::is_own_sum<In> && a.rows <= kernel.most_few && a.members == 1 && a.q.column() == 1 &&
           a.k.column() == 1 && a.out.column() == 1;
}

/// The arguments of a call, put as the kernels like them best: the heads of q that share one of k are rows of one
/// matrix where the strides allow it, and members of a group where not; q and k change places where out has its unit
/// stride along l. Neither changes a bit (but which of two NaNs comes through), since products commute.
template <class In, class Out>
class scores_call {
    strides4 q_, k_, out_;

public:
    template <class Scalar, class Result>
    scores_call(const kernel::scores_kernel<In, Out>& kernel, const tensor_view<const Scalar>& q,
                const tensor_view<const Scalar>& k, const tensor_view<Result>& out, const scores_options& options)
        : q_(q.strides()),
          k_(k.strides()),
          out_(out.strides()),
          arguments{{kernel_data(q.data()), q_.data()},
                    {kernel_data(k.data()), k_.data()},
                    {kernel_data(out.data()), out_.data()},
                    k.shape()[1],
                    q.shape()[2],
                    k.shape()[2],
                    q.shape()[3],
                    static_cast<kernel::sum_of<In>>(options.scale),
                    false,
                    false},
          heads(k.shape()[0] * k.shape()[1]) {
        settle_units();
        if (const std::ptrdiff_t group = group_size(q.shape(), k.shape()); group > 1) share_heads(group);
        if (arguments.members == 1 && out_[3] != 1 && out_[2] == 1) exchange();
        few = is_few(kernel, arguments);
        choose_memory_use(kernel.most_few, options.stores);
    }
    scores_call(const scores_call&) = delete;
    scores_call& operator=(const scores_call&) = delete;

    kernel::scores_arguments<In, Out> arguments;  // points into this
    std::ptrdiff_t heads;                         // of k, in all batches
    bool few;

private:
    /// An axis of one element takes no step: its stride may as well be one.
    void settle_units() noexcept {
        if (arguments.depth == 1) q_[3] = k_[3] = 1;
        if (arguments.columns == 1) k_[2] = out_[3] = 1;
        if (arguments.rows == 1) q_[2] = out_[2] = 1;
    }

    void share_heads(std::ptrdiff_t group) noexcept {
        const std::ptrdiff_t rows = arguments.rows, q_step = q_[1], out_step = out_[1];
        q_[1] *= group;
        out_[1] *= group;
        if (rows == 1 || (q_[2] == group * q_step && out_[2] == group * out_step)) {  // h after l
            q_[2] = q_step;
            out_[2] = out_step;
        } else if (q_step != rows * q_[2] || out_step != rows * out_[2]) {  // nor l after h
            arguments.members = group;
            arguments.q_member = q_step;
            arguments.out_member = out_step;
            return;
        }
        arguments.rows = rows * group;
    }

    void exchange() noexcept {
        std::swap(arguments.q, arguments.k);
        std::swap(arguments.rows, arguments.columns);
        std::swap(out_[2], out_[3]);
    }

    void choose_memory_use(std::ptrdiff_t most_few, stores how) noexcept {
        kernel::scores_arguments<In, Out>& a = arguments;
        constexpr std::ptrdiff_t bytes = sizeof(In);
        const std::ptrdiff_t rows = a.members * a.rows,
                             written = heads * rows * a.columns * std::ptrdiff_t{sizeof(Out)};
        const std::ptrdiff_t head_bytes = (rows + a.columns) * a.depth * bytes;
        a.prefetch = rows <= most_few
                         ? heads * a.columns * a.depth * bytes > prefetch_bytes
                         : written + heads * head_bytes > prefetch_bytes && head_bytes > prefetch_head_bytes;
        a.stream =
            how != stores::cached && rows_are_lines(a) && (how == stores::streaming || written > streaming_bytes);
        a.fetch_out = !a.stream && written > fetch_out_bytes;
    }
};

/// How a call's work is cut for threads: by heads where there are enough, else each head by the members of its group,
/// then by rows, or, where rows are few, by columns. A cut changes no result: every output is computed whole, in one
/// place.
struct scores_cut {
    std::ptrdiff_t head_step, member_step, row_step, column_step;  // the size of a piece along each
    std::ptrdiff_t heads, members, rows, columns;                  // pieces along each

    [[nodiscard]] std::ptrdiff_t pieces() const noexcept { return heads * members * rows * columns; }

    /// The arguments of piece i.
    template <class In, class Out>
    [[nodiscard]] kernel::scores_arguments<In, Out> piece(kernel::scores_arguments<In, Out> a, std::ptrdiff_t i) const {
        const std::ptrdiff_t column = i % columns * column_step, row = i / columns % rows * row_step,
                             member = i / columns / rows % members * member_step;
        a.q.data += member * a.q_member + row * a.q.row();
        a.k.data += column * a.k.row();
        a.out.data += member * a.out_member + row * a.out.row() + column * a.out.column();
        a.members = std::min(member_step, a.members - member);
        a.rows = std::min(row_step, a.rows - row);
        a.columns = std::min(column_step, a.columns - column);
        return a;
    }
    [[nodiscard]] kernel::head_range heads_of(std::ptrdiff_t i, std::ptrdiff_t all) const noexcept {
        const std::ptrdiff_t first = i / columns / rows / members * head_step;
        return {first, std::min(first + head_step, all)};
    }
};

/// Into some `wanted` pieces. A head is cut along the longer side: each piece packs what it reads of k, so that pieces
/// of columns pack nothing twice.
template <class In, class Out>
scores_cut cut_work(const kernel::scores_arguments<In, Out>& a, std::ptrdiff_t heads,
                    const kernel::scores_kernel<In, Out>& kernel, std::ptrdiff_t wanted) {
    const auto up = [](std::ptrdiff_t n, std::ptrdiff_t by) { return (n + by - 1) / by; };
    constexpr std::ptrdiff_t columns_at_once = 64;  // a multiple of every target's tile
    scores_cut cut{std::max<std::ptrdiff_t>(1, heads / wanted), a.members, a.rows, a.columns, 0, 1, 1, 1};
    cut.heads = up(heads, cut.head_step);
    std::ptrdiff_t per_head = up(wanted, heads);
    const bool few = a.rows * a.members <= kernel.most_few;
    if (!few && a.members > 1) {
        cut.member_step = up(a.members, per_head);
        cut.members = up(a.members, cut.member_step);
        per_head = up(per_head, cut.members);
    }
    if (per_head == 1) return cut;
    if (few || std::min(up(a.columns, columns_at_once), per_head) >= std::min(up(a.rows, kernel.tile_rows), per_head)) {
        cut.column_step = up(up(a.columns, per_head), columns_at_once) * columns_at_once;
        cut.columns = up(a.columns, cut.column_step);
    } else {
        cut.row_step = up(up(a.rows, per_head), kernel.tile_rows) * kernel.tile_rows;
        cut.rows = up(a.rows, cut.row_step);
    }
    return cut;
}

[[noreturn]] HEADWISE_COLD inline void refuse_workspace(std::size_t given, std::size_t needed) {
    refuse("options.workspace has " + std::to_string(given) + " bytes; this call needs " + std::to_string(needed));
}

/// How a call beyond the smallest is run: on how many threads, cut how, with how much memory for each.
template <class In, class Out>
struct scores_plan {
    thread_use threads;
    scores_cut cut;
    std::ptrdiff_t scalars;  // of workspace for each thread, a multiple of 64

    scores_plan(const kernel::scores_kernel<In, Out>& kernel, const scores_call<In, Out>& call,
                const scores_options& options)
        : threads(choose_threads(options.threads, expected_time_of(call.arguments, call.heads), options.pool)),
          cut(cut_work(call.arguments, call.heads, kernel, pieces_for(call))),
          scalars(call.few ? 0 : (kernel.workspace_size(call.arguments) + 63) / 64 * 64) {}

    /// Several for each thread, so that a faster one takes what a slower one leaves, but none below a microsecond.
    [[nodiscard]] std::ptrdiff_t pieces_for(const scores_call<In, Out>& call) const noexcept {
        const double microseconds = expected_time_of(call.arguments, call.heads) / 1000;
        return threads.now == 1
                   ? 1
                   : static_cast<std::ptrdiff_t>(std::clamp<double>(microseconds, threads.now, 4.0 * threads.now));
    }
    /// With room to begin at a multiple of 64 bytes.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return scalars == 0 ? 0 : static_cast<std::size_t>(scalars * threads.most) * sizeof(kernel::sum_of<In>) + 63;
    }
};

/// The memory of a plan: what the caller gave, or this thread's own.
template <class In, class Out>
[[nodiscard]] kernel::sum_of<In>* memory_for(const scores_plan<In, Out>& plan, std::span<std::byte> given) {
    using Scalar = kernel::sum_of<In>;
    if (given.empty() || plan.scalars == 0)
        return thread_workspace().template reserve<Scalar>(plan.scalars * plan.threads.most);
    if (given.size() < plan.bytes()) refuse_workspace(given.size(), plan.bytes());
    const auto misaligned = reinterpret_cast<std::uintptr_t>(given.data()) % 64;
    return reinterpret_cast<Scalar*>(given.data() + (misaligned == 0 ? 0 : 64 - misaligned));
}

}  // namespace headwise::detail
