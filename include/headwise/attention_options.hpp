// What attention may be asked for, and what it asks of its arguments.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include <headwise/contract.hpp>
#include <headwise/kernel/attention_arguments.hpp>
#include <headwise/kernel/isa.hpp>
#include <headwise/parallel.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

/// Where row l of the L rows of q stands among the M rows of k, for `causal` and `window`: at l + M - L, so that the
/// last row sees the last key (as flash-attn, and a decoder's new tokens), or at l (as torch's is_causal).
enum class causal_alignment : unsigned char { bottom_right, top_left };

/// How far a row sees to the left and to the right of where it stands; -1: all the way. {128, 0} is a sliding window of
/// 129 keys.
struct attention_window {
    std::ptrdiff_t left = -1, right = -1;
};

/// The options of `attention`, `attention_weights` and `attention_logits`. The logit of row l and key m is
///
///     softcap * tanh(scale * (q_l . k_m) / softcap) + bias
///
/// and minus infinity where m is not visible: by the mask, by the window, or because it is causal. Masked means not
/// looked at: whatever k_m and v_m hold there, it does not count. Mask and bias are (B, Hq, L, M) or 1 on some axes.
template <class Scalar = float>
struct attention_options {
    int threads = 1;                   ///< 1: the calling thread; 0: as many as the process may use; n: at most n.
    std::optional<double> scale = {};  ///< Empty: 1 / sqrt(D).
    bool causal = false;               ///< Keys to the right of a row are not visible: window.right = 0.
    causal_alignment alignment = causal_alignment::bottom_right;
    attention_window window = {};
    double softcap = 0;                   ///< 0: none.
    tensor_view<const bool> mask = {};    ///< True: may be seen. Empty view: none.
    tensor_view<const Scalar> bias = {};  ///< Minus infinity hides a key as the mask does. Empty view: none.
    tensor_view<Scalar> lse = {};         ///< Output, (B, Hq, L, 1): log of the sum of e^logit. Empty: not wanted.
    enum isa isa = isa::automatic;        ///< Refused when the machine lacks it. HEADWISE_ISA overrides automatic.
    thread_pool* pool = nullptr;          ///< Whose threads to use when threads != 1; null: a shared pool.
    /// Memory of `attention_workspace_bytes`, for weights and logits `attention_weights_workspace_bytes`, apart from
    /// all tensors; empty: our own.
    std::span<std::byte> workspace = {};
};

/// What attention to tensors of `Scalar` computes in, and has its bias and its lse in: float for sixteen bits.
template <class Scalar>
using attention_scalar = std::conditional_t<is_sixteen_bit<Scalar>, float, Scalar>;
/// The options of attention to such a tensor.
template <class Q>
using attention_options_for = attention_options<attention_scalar<scalar_of<Q>>>;

namespace detail {

/// (B, Hq, L, M), the shape of the logits.
[[nodiscard]] constexpr shape4 logits_shape(const shape4& q, const shape4& k) noexcept {
    return {q[0], q[1], q[2], k[2]};
}
/// (B, Hq, L, Dv), the shape of the result.
[[nodiscard]] constexpr shape4 attention_shape(const shape4& q, const shape4& v) noexcept {
    return {q[0], q[1], q[2], v[3]};
}

HEADWISE_COLD inline void check_attention_inputs(const shape4& q, const shape4& k, const shape4& v) {
    check_grouped_inputs(q, k);
    for (const std::size_t axis : {std::size_t{0}, std::size_t{1}, std::size_t{2}})
        if (k[axis] != v[axis])
            refuse(std::string("k ") + text_of(k) + " and v " + text_of(v) +
                   " must have the same extents but the last");
}

/// Refuses an extent that is neither the result's nor 1.
HEADWISE_COLD inline void check_broadcast(const char* name, const shape4& shape, const shape4& full) {
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (shape[axis] != full[axis] && shape[axis] != 1)
            refuse(std::string(name) + " " + text_of(shape) + " must have the shape (B, Hq, L, M) = " + text_of(full) +
                   ", or 1 on an axis");
}

/// The same elements under the full shape: an axis of one repeats.
template <class Scalar>
[[nodiscard]] tensor_view<Scalar> broadcast_to(const tensor_view<Scalar>& view, const shape4& full) {
    if (view.data() == nullptr) return {};
    strides4 strides = view.strides();
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (view.shape()[axis] == 1) strides[axis] = 0;
    return {view.data(), full, strides};
}

/// An output that shares no element with `input`.
template <class Out, class In>
void check_apart(const char* out_name, const Out& out, const char* name, const In& input) {
    if (overlap(out, input))
        refuse(std::string(out_name) + " " + text_of(out.shape()) + " overlaps the memory of " + name + " " +
               text_of(input.shape()) + "; the result needs memory of its own");
}

/// All of the options but isa and the workspace.
template <class Scalar>
HEADWISE_COLD void check_options(const attention_options<Scalar>& options, const shape4& logits) {
    if (options.threads < 0) refuse("options.threads = " + std::to_string(options.threads) + ": must be >= 0 (0: all)");
    if (options.alignment > causal_alignment::top_left)
        refuse("options.alignment = " + std::to_string(static_cast<int>(options.alignment)) +
               ": none of bottom_right, top_left");
    if (options.scale && !std::isfinite(*options.scale))
        refuse("options.scale = " + std::to_string(*options.scale) + ": must be finite");
    if (!(options.softcap >= 0) || !std::isfinite(options.softcap))
        refuse("options.softcap = " + std::to_string(options.softcap) + ": must be positive and finite, or 0 for none");
    constexpr auto most = static_cast<double>(std::numeric_limits<Scalar>::max()),
                   least = static_cast<double>(std::numeric_limits<Scalar>::denorm_min());
    if (options.scale && std::abs(*options.scale) > most)
        refuse("options.scale = " + std::to_string(*options.scale) + ": must be finite as a float, too");
    if (options.softcap > most || (options.softcap > 0 && options.softcap < least))
        refuse(std::string("options.softcap: too ") + (options.softcap > most ? "great" : "small") +
               " for the floats that are capped");
    if (options.window.left < -1 || options.window.right < -1)
        refuse("options.window = {" + std::to_string(options.window.left) + ", " +
               std::to_string(options.window.right) + "}: each must be >= 0, or -1 for all the way");
    if (options.mask.data() != nullptr) check_broadcast("options.mask", options.mask.shape(), logits);
    if (options.bias.data() != nullptr) check_broadcast("options.bias", options.bias.shape(), logits);
    if (options.lse.data() != nullptr) {
        const shape4 rows{logits[0], logits[1], logits[2], 1};
        if (options.lse.shape() != rows)
            refuse(std::string("options.lse ") + text_of(options.lse.shape()) +
                   " must have the shape (B, Hq, L, 1) = " + text_of(rows));
        if (!elements_are_distinct(options.lse))
            refuse(std::string("options.lse ") + text_of(options.lse.shape()) + " with strides " +
                   text_of(options.lse.strides()) + ": its elements overlap one another");
    }
}

/// The outputs, out and lse, share memory with nothing, nor does the workspace.
template <class Scalar, class Out>
void check_outputs_apart(const attention_options<Scalar>& options, const Out& out, const auto& q, const auto& k,
                         const auto&... v) {
    const auto apart = [&](const char* name, const auto& output) {
        check_apart(name, output, "q", q);
        check_apart(name, output, "k", k);
        (check_apart(name, output, "v", v), ...);
        check_apart(name, output, "options.mask", options.mask);
        check_apart(name, output, "options.bias", options.bias);
    };
    apart("out", out);
    apart("options.lse", options.lse);
    check_apart("out", out, "options.lse", options.lse);
    if (options.workspace.empty()) return;
    check_workspace(options.workspace, "q", q);
    check_workspace(options.workspace, "k", k);
    (check_workspace(options.workspace, "v", v), ...);
    check_workspace(options.workspace, "options.mask", options.mask);
    check_workspace(options.workspace, "options.bias", options.bias);
    check_workspace(options.workspace, "out", out);
    check_workspace(options.workspace, "options.lse", options.lse);
}

/// `options.scale`, or 1 / sqrt(D). Without depth every product is an empty sum, zero whatever the scale.
template <class Scalar>
[[nodiscard]] double scale_of(const attention_options<Scalar>& options, std::ptrdiff_t depth) {
    return depth == 0 ? 1.0 : options.scale ? *options.scale : 1.0 / std::sqrt(static_cast<double>(depth));
}

/// What row l sees by `causal` and `window`.
template <class Scalar>
[[nodiscard]] kernel::visible_range visible_of(const attention_options<Scalar>& options, std::ptrdiff_t rows,
                                               std::ptrdiff_t columns) noexcept {
    // Further than any row can see; where the sum does not fit, no element is read or written.
    constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max();
    const std::ptrdiff_t all = columns > most - rows ? most : rows + columns;
    const auto reach = [all](std::ptrdiff_t n) { return n < 0 || n > all ? all : n; };
    return {reach(options.window.left), options.causal ? 0 : reach(options.window.right),
            options.alignment == causal_alignment::bottom_right ? columns - rows : 0, columns};
}

}  // namespace detail
}  // namespace headwise
