// How a call of attention is run: its arguments for the kernels, how its work is cut for threads, and its memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <headwise/attention_options.hpp>
#include <headwise/kernel/attention_kernels.hpp>
#include <headwise/parallel.hpp>
#include <headwise/scores_plan.hpp>

namespace headwise::detail {

template <class In, class Out>
const kernel::attention_kernel<In, Out>& attention_kernel_for(isa chosen) noexcept {
    switch (chosen) {
#if defined(HEADWISE_HAVE_X86_TARGETS)
        case isa::avx512_bf16:
            if constexpr (std::is_same_v<In, kernel::bfloat16>) return kernel::attention_pairs_entry<Out>;
            [[fallthrough]];
        case isa::avx512:
            return kernel::avx512::attention_entry<In, Out>;
        case isa::avx2:
            return kernel::avx2::attention_entry<In, Out>;
#elif defined(HEADWISE_HAVE_NEON_TARGET)
        case isa::neon:
            return kernel::neon::attention_entry<In, Out>;
#endif
        default:
            return kernel::baseline::attention_entry<In, Out>;
    }
}

/// What a call to operands of this type runs on.
template <class In>
[[nodiscard]] isa attention_isa(isa wanted) {
    return std::is_same_v<In, kernel::bfloat16> ? choose_bfloat16_isa(wanted) : choose_isa(wanted);
}

/// On how many threads, in how many pieces, with how much memory, in scalars.
template <class Sum>
struct attention_plan {
    thread_use threads;
    bool few;  // by chunks of columns, else by row tiles
    std::ptrdiff_t step, first,
        pieces;                     // columns or row tiles of a piece; of one head of k, the first and their number
    std::ptrdiff_t kernel, states;  // of each thread: the kernel's memory; its rows' states
    std::ptrdiff_t wave = 0, partial = 0;  // few: heads of k at a time, and the partial results of one head

    [[nodiscard]] std::size_t bytes() const noexcept {
        const std::ptrdiff_t scalars = threads.most * (kernel + states) + wave * partial;
        return static_cast<std::size_t>(scalars) * sizeof(Sum) + 63;  // room to begin at a multiple of 64 bytes
    }
};

/// The same elements, with no step where there is none to take: the stride of an axis of one may be anything, the
/// address of an empty tensor null, and a kernel adds one to the other.
template <class Scalar>
[[nodiscard]] tensor_view<Scalar> settled(const tensor_view<Scalar>& view) {
    strides4 strides = view.strides();
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (view.shape()[axis] == 1 || view.size() == 0) strides[axis] = axis == 3 ? 1 : 0;
    return {view.data(), view.shape(), strides};
}

/// A call whose arguments have been checked. The views are kept: the kernels point at their strides.
template <class Scalar, class Result>
class attention_call {
public:
    using Sum = attention_scalar<Scalar>;
    using Kernel = kernel::attention_kernel<kernel_scalar<Scalar>, kernel_scalar<Result>>;
    using Arguments = typename Kernel::arguments;
    using View = tensor_view<const Scalar>;

    attention_call(View q, View k, View v, tensor_view<Result> out, const attention_options<Sum>& options)
        : attention_call(q, k, out, options, v.shape()[3]) {
        check_attention_inputs(q.shape(), k.shape(), v.shape());
        check_output(out, attention_shape(q.shape(), v.shape()));
        check_outputs_apart(options, out, q, k, v);
        v_ = settled(v);
    }
    /// Of weights or logits.
    attention_call(View q, View k, tensor_view<Result> out, const attention_options<Sum>& options)
        : attention_call(q, k, out, options, 0) {
        check_output(out, logits_shape(q.shape(), k.shape()));
        check_outputs_apart(options, out, q, k);
    }
    attention_call(const attention_call&) = delete;
    attention_call& operator=(const attention_call&) = delete;

    /// Nothing to write. (lse is written for Dv = 0 too.)
    [[nodiscard]] bool is_empty() const noexcept {
        return q_.shape()[0] == 0 || q_.shape()[1] == 0 || q_.shape()[2] == 0 ||
               (out_.size() == 0 && lse_.data() == nullptr);
    }
    [[nodiscard]] std::ptrdiff_t kv_heads() const noexcept { return k_.shape()[0] * k_.shape()[1]; }

    [[nodiscard]] Arguments arguments() const noexcept {
        return {{{bias_.data(), bias_.strides().data()},
                 {mask_.data(), mask_.strides().data()},
                 q_.shape()[2],
                 scale_,
                 softcap_,
                 visible_},
                {kernel_data(q_.data()), q_.strides().data()},
                {kernel_data(k_.data()), k_.strides().data()},
                {kernel_data(v_.data()), v_.strides().data()},
                {kernel_data(out_.data()), out_.strides().data()},
                k_.shape()[1],
                q_.shape()[1] / k_.shape()[1],
                k_.shape()[2],
                q_.shape()[3],
                value_depth_};
    }

    [[nodiscard]] attention_plan<Sum> plan(const attention_options<Sum>& options) const;
    [[nodiscard]] attention_plan<Sum> plan_weights(const attention_options<Sum>& options) const;

    void write_lse(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, const kernel::row_state<Sum>& row) const {
        if (lse_.data() != nullptr) lse_(b, h, l, 0) = row.most + std::log(row.sum);
    }

private:
    attention_call(View q, View k, tensor_view<Result> out, const attention_options<Sum>& options,
                   std::ptrdiff_t value_depth)
        : kernel(attention_kernel_for<kernel_scalar<Scalar>, kernel_scalar<Result>>(
              attention_isa<kernel_scalar<Scalar>>(options.isa))),
          q_(settled(q)),
          k_(settled(k)),
          out_(settled(out)),
          lse_(options.lse),
          value_depth_(value_depth),
          scale_(static_cast<Sum>(scale_of(options, q.shape()[3]))),
          softcap_(static_cast<Sum>(options.softcap)),
          visible_(visible_of(options, q.shape()[2], k.shape()[2])) {
        const shape4 logits = logits_shape(q.shape(), k.shape());
        check_grouped_inputs(q.shape(), k.shape());
        check_options(options, logits);
        bias_ = broadcast_to(options.bias, logits);
        mask_ = broadcast_to(options.mask, logits);
    }

    /// The thread count that the work is worth, and the row tiles of a piece for it.
    [[nodiscard]] attention_plan<Sum> plan_tiles(const attention_options<Sum>& options, double nanoseconds) const {
        attention_plan<Sum> plan{};
        plan.threads = choose_threads(options.threads, nanoseconds, options.pool);
        const std::ptrdiff_t tiles = up(q_.shape()[2], kernel.tile_rows);
        // Each piece packs k anew: at least so many tiles, that this is little.
        constexpr std::ptrdiff_t pieces_per_thread = 4, fewest_tiles = 4;
        const std::ptrdiff_t wanted =
            plan.threads.most == 1 ? 1 : up(plan.threads.most * pieces_per_thread, kv_heads());
        plan.step = std::min(tiles, std::max(fewest_tiles, up(tiles, wanted)));
        plan.pieces = up(tiles, plan.step);
        constexpr std::ptrdiff_t state = sizeof(kernel::row_state<Sum>) / sizeof(Sum);
        plan.states = up(state * arguments().group * q_.shape()[2], 64) * 64;
        return plan;
    }
    [[nodiscard]] static std::ptrdiff_t up(std::ptrdiff_t n, std::ptrdiff_t by) { return (n + by - 1) / by; }

public:
    const Kernel& kernel;

private:
    View q_, k_, v_;
    tensor_view<const Sum> bias_;
    tensor_view<const bool> mask_;
    tensor_view<Result> out_;
    tensor_view<Sum> lse_;
    std::ptrdiff_t value_depth_;
    Sum scale_, softcap_;
    kernel::visible_range visible_;
};

template <class Scalar, class Result>
auto attention_call<Scalar, Result>::plan(const attention_options<Sum>& options) const -> attention_plan<Sum> {
    const auto a = arguments();
    const auto rows = static_cast<double>(a.group * a.rows), columns = static_cast<double>(kv_heads() * a.columns);
    const auto depths = static_cast<double>(a.depth + a.value_depth);
    attention_plan<Sum> plan = plan_tiles(
        options, expected_nanoseconds(2 * rows * columns * depths, columns * depths * double{sizeof(Scalar)}));
    plan.few = a.rows <= kernel.most_few && a.k.column() == 1 && a.v.column() == 1 && a.columns > 0;
    if (!plan.few) {
        plan.kernel = up(kernel.attend_workspace(a, plan.step), 64) * 64;
        return plan;
    }
    constexpr std::ptrdiff_t most_partial = (std::ptrdiff_t{8} << 20) / std::ptrdiff_t{sizeof(Sum)};
    plan.step = up(up(a.columns, up(a.columns, kernel::few_chunk)), 32) * 32;  // chunks of nearly equal size
    plan.first = a.visible.first(0) / plan.step;  // chunks that no row sees are left out
    plan.pieces = std::max<std::ptrdiff_t>(up(a.visible.last(a.rows - 1), plan.step) - plan.first, 0);
    plan.kernel = up(kernel.few_workspace(a), 64) * 64;
    plan.states = 0;
    plan.partial =
        64 + up(plan.pieces * a.group * a.rows * (up(a.value_depth, kernel.lanes) * kernel.lanes + 3), 64) * 64;
    plan.wave = plan.threads.most == 1 ? 1 : std::clamp<std::ptrdiff_t>(most_partial / plan.partial, 1, kv_heads());
    return plan;
}

template <class Scalar, class Result>
auto attention_call<Scalar, Result>::plan_weights(const attention_options<Sum>& options) const -> attention_plan<Sum> {
    const auto a = arguments();
    const double outputs = static_cast<double>(kv_heads() * a.group) * static_cast<double>(a.rows * a.columns);
    attention_plan<Sum> plan = plan_tiles(options, expected_nanoseconds(2 * outputs * static_cast<double>(a.depth + 16),
                                                                        outputs * double{sizeof(Result)}));
    plan.kernel = up(kernel.weigh_workspace(a), 64) * 64;
    return plan;
}

/// The memory of a plan: what the caller gave, or this thread's own.
template <class Sum>
[[nodiscard]] Sum* attention_memory(const attention_plan<Sum>& plan, std::span<std::byte> given) {
    if (given.empty())
        return thread_workspace().template reserve<Sum>(static_cast<std::ptrdiff_t>(plan.bytes() / sizeof(Sum)));
    if (given.size() < plan.bytes()) refuse_workspace(given.size(), plan.bytes());
    const auto misaligned = reinterpret_cast<std::uintptr_t>(given.data()) % 64;
    return reinterpret_cast<Sum*>(given.data() + (misaligned == 0 ? 0 : 64 - misaligned));
}

/// Piece by piece, each some row tiles of all heads that share one of k; `run` is the kernel's function for it.
template <class Scalar, class Result, class Sum = attention_scalar<Scalar>>
void run_tiles(const attention_call<Scalar, Result>& call, const attention_plan<Sum>& plan,
               const attention_options<Sum>& options, Sum* memory,
               decltype(attention_call<Scalar, Result>::Kernel::attend) run, bool stream = false) {
    auto a = call.arguments();
    a.stream = stream;
    const std::ptrdiff_t tiles = (a.rows + call.kernel.tile_rows - 1) / call.kernel.tile_rows;
    parallel_for(options.pool, plan.threads.now, call.kv_heads() * plan.pieces, [&](int worker, std::ptrdiff_t i) {
        const std::ptrdiff_t head = i / plan.pieces, first = i % plan.pieces * plan.step;
        const kernel::attention_piece piece{head / a.kv_heads, head % a.kv_heads, first,
                                            std::min(first + plan.step, tiles)};
        Sum* const own = memory + worker * (plan.kernel + plan.states);
        auto* const states = reinterpret_cast<kernel::row_state<Sum>*>(own + plan.kernel);
        run(a, piece, own, states);
        const std::ptrdiff_t low = a.rows / tiles, higher = a.rows % tiles;  // as kernel's row_split has it
        const auto row_of = [&](std::ptrdiff_t tile) { return tile * low + std::min(tile, higher); };
        for (std::ptrdiff_t member = 0; member < a.group; ++member)
            for (std::ptrdiff_t l = row_of(piece.first); l < row_of(piece.last); ++l)
                call.write_lse(piece.batch, piece.kv_head * a.group + member, l, states[member * a.rows + l]);
    });
    note_call(plan.threads);
}

/// Few rows: the chunks of some heads at a time, then their merging.
template <class Scalar, class Result, class Sum = attention_scalar<Scalar>>
void run_few(const attention_call<Scalar, Result>& call, const attention_plan<Sum>& plan,
             const attention_options<Sum>& options, Sum* memory) {
    const auto a = call.arguments();
    const std::ptrdiff_t rows = a.group * a.rows, lanes = call.kernel.lanes;
    const std::ptrdiff_t padded = (a.value_depth + lanes - 1) / lanes * lanes;
    Sum* const shared = memory + plan.threads.most * plan.kernel;
    const auto states_of = [&](Sum* partial) {
        return reinterpret_cast<kernel::row_state<Sum>*>(partial + plan.pieces * rows * padded);
    };
    for (std::ptrdiff_t first = 0; first < call.kv_heads(); first += plan.wave) {
        const std::ptrdiff_t heads = std::min(plan.wave, call.kv_heads() - first);
        parallel_for(options.pool, plan.threads.now, heads * plan.pieces, [&](int worker, std::ptrdiff_t i) {
            const std::ptrdiff_t head = first + i / plan.pieces, chunk = i % plan.pieces,
                                 column = (plan.first + chunk) * plan.step;
            Sum* const partial = shared + i / plan.pieces * plan.partial;
            call.kernel.few(a, {head / a.kv_heads, head % a.kv_heads, column, std::min(column + plan.step, a.columns)},
                            memory + worker * plan.kernel, partial + chunk * rows * padded,
                            states_of(partial) + chunk * rows);
        });
        for (std::ptrdiff_t i = 0; i < heads; ++i) {
            const kernel::attention_piece piece{(first + i) / a.kv_heads, (first + i) % a.kv_heads, 0, 0};
            Sum* const partial = shared + i * plan.partial;
            call.kernel.merge(a, piece, partial, states_of(partial), plan.pieces);
            for (std::ptrdiff_t r = 0; r < rows; ++r)
                call.write_lse(piece.batch, piece.kv_head * a.group + r / a.rows, r % a.rows, states_of(partial)[r]);
        }
    }
    note_call(plan.threads);
}

}  // namespace headwise::detail
