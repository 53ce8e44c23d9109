// Attention, its weights and its logits: types x shapes x strides x groups x masks x biases x windows x options, on
// every target and by the loops, against the definition in double, within the stated bounds. Either the call is refused
// and nothing is written; or every result is right, nothing else is written, and the outputs' elements were their own.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <headwise/attention.hpp>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>

#include "../attention_reference.hpp"
#include "arena.hpp"
#include "input.hpp"

using namespace headwise;

namespace {

/// The same infinity, or within the bound and, of sixteen bits, one rounding more. With AVX-512 BF16 (`pairs`) it has
/// zeros for subnormal numbers.
template <class Out>
void must_agree(const tensor_view<Out>& is, const tensor<double>& expected, const tensor<double>& bound, bool pairs,
                const char* what) {
    using limits = std::numeric_limits<Out>;
    const double u = is_sixteen_bit<Out> ? std::ldexp(1.0, -limits::digits) : 0,
                 least = !is_sixteen_bit<Out> ? 0
                         : pairs              ? static_cast<double>(limits::min())
                                              : static_cast<double>(limits::denorm_min()) / 2;
    fuzz::each(is.shape(), [&](auto b, auto h, auto l, auto m) {
        const double x = static_cast<double>(is(b, h, l, m)), y = expected(b, h, l, m), off = bound(b, h, l, m);
        fuzz::must(x == y || std::abs(x - y) <= off + u * (std::abs(y) + off) + least, what);
    });
}

template <class Scalar>
tensor<attention_scalar<Scalar>> widened(const tensor<Scalar>& t) {
    tensor<attention_scalar<Scalar>> result(t.shape());
    std::transform(t.data(), t.data() + t.size(), result.data(),
                   [](Scalar x) { return static_cast<attention_scalar<Scalar>>(x); });
    return result;
}

/// As the logits' shape, or 1 on some axes.
shape4 some_axes(fuzz::input& in, shape4 shape) {
    const unsigned which = in.byte();
    for (std::size_t axis = 0; axis < 4; ++axis)
        if ((which >> axis & 1) != 0) shape[axis] = 1;
    return shape;
}

std::ptrdiff_t reach(fuzz::input& in) {
    const std::ptrdiff_t chosen = in.between(-2, 40);
    return chosen == 40 ? std::numeric_limits<std::ptrdiff_t>::max() : chosen;
}

/// Of the two arenas, which are one where the sums have the type of the elements, the one that holds such a type.
template <class Scalar>
struct arenas {
    using Sum = attention_scalar<Scalar>;
    fuzz::arena<Scalar>& elements;
    fuzz::arena<Sum>& sums;

    template <class Of>
    [[nodiscard]] fuzz::arena<Of>& of() const {
        if constexpr (std::is_same_v<Of, Sum>) return sums;
        else return elements;
    }
    [[nodiscard]] bool untouched() const { return elements.untouched() && sums.untouched(); }
};

/// The views of one call, all in the arenas but the mask.
template <class Scalar, class Out>
struct call {
    using Sum = attention_scalar<Scalar>;
    enum class operation { attention, weights, logits } what = operation::attention;
    tensor_view<Scalar> q, k, v;
    tensor_view<Sum> bias, lse;
    tensor_view<Out> out;
    attention_options<Sum> options;

    void fused() const {
        if (what == operation::attention) attention(q, k, v, out, options);
        else if (what == operation::weights) attention_weights(q, k, out, options);
        else attention_logits(q, k, out, options);
    }
    void loop() const {
        if (what == operation::attention) attention_loop(q, k, v, out, options);
        else if (what == operation::weights) attention_weights_loop(q, k, out, options);
        else attention_logits_loop(q, k, out, options);
    }
    [[nodiscard]] bool writes_lse() const { return lse.data() != nullptr && what != operation::logits; }

    /// The definition, of copies of what was there before.
    void check(const arenas<Scalar>& memory, bool pairs) const {
        const tensor<Sum> old_q = widened(memory.elements.old(q)), old_k = widened(memory.elements.old(k)),
                          old_bias = memory.sums.old(bias);
        tensor<Sum> old_v({k.shape()[0], k.shape()[1], k.shape()[2], 0});
        if (what == operation::attention) old_v = widened(memory.elements.old(v));
        attention_options<Sum> same = options;
        if (bias.data() != nullptr) same.bias = old_bias;
        test::attention_expected e = test::expect_attention(old_q, old_k, old_v, same);
        if (pairs && what == operation::attention) test::add_rounding_of_weights(e, widened(memory.elements.old(v)));
        if (what == operation::attention) must_agree(out, e.out, e.out_bound, pairs, "an output is not attention's");
        else if (what == operation::weights)
            must_agree(out, e.weights, e.weights_bound, pairs, "a weight is not softmax's");
        else must_agree(out, e.logits, e.logits_bound, pairs, "a logit is not the sum of its products");
        if (writes_lse()) must_agree(lse, e.lse, e.lse_bound, pairs, "an lse is not the logarithm of the sum");
        check_written(memory.elements);
        if constexpr (!std::is_same_v<Scalar, Sum>) check_written(memory.sums);
    }

    template <class Of>
    void check_written(const fuzz::arena<Of>& memory) const {
        std::vector<tensor_view<Of>> outputs, inputs;
        const auto add = [](std::vector<tensor_view<Of>>& list, const auto& view) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(view)>, tensor_view<Of>>) list.push_back(view);
        };
        add(outputs, out);
        if (writes_lse()) add(outputs, lse);
        if (out.size() != 0 && k.size() != 0 && q.size() != 0) {  // else nothing is written, or read
            add(inputs, q), add(inputs, k);
            if (what == operation::attention) add(inputs, v);
            if (bias.data() != nullptr) add(inputs, bias);
        }
        memory.check_written(outputs, inputs);
    }
};

template <class Scalar, class Out>
void run(fuzz::input& in, const arenas<Scalar>& memory) {
    using operation = typename call<Scalar, Out>::operation;
    const auto extent = [&in] {
        const unsigned chosen = in.byte();
        return static_cast<std::ptrdiff_t>(chosen < 200 ? chosen % 20 : chosen % 80);
    };
    call<Scalar, Out> c;
    c.what = static_cast<operation>(in.between(0, 2));
    const std::ptrdiff_t B = in.between(0, 2), heads = in.between(0, 3), L = extent(), M = extent(), D = extent();
    const std::ptrdiff_t H = heads * in.between(0, 3) + (in.between(0, 31) == 31 ? 1 : 0), Dv = extent();
    const shape4 logits{B, H, L, M};
    if (!memory.elements.take(in, {B, H, L, D}, c.q) || !memory.elements.take(in, {B, heads, M, D}, c.k)) return;
    if (!memory.elements.take(in, {B, heads, M, Dv}, c.v)) return;
    const shape4 result = c.what == operation::attention ? shape4{B, H, L, Dv} : logits;
    if (!memory.template of<Out>().take(in, result, c.out)) return;
    const unsigned has = in.byte();
    if ((has & 1) != 0 && !memory.sums.take(in, some_axes(in, logits), c.bias)) return;
    if ((has & 2) != 0 && !memory.sums.take(in, {B, H, L, 1}, c.lse)) return;
    fuzz::arena<bool> mask_memory(in.byte());
    tensor_view<bool> mask;
    if ((has & 4) != 0 && !mask_memory.take(in, some_axes(in, logits), mask)) return;
    c.options.bias = c.bias, c.options.lse = c.lse, c.options.mask = mask;
    c.options.causal = (has & 8) != 0;
    c.options.alignment = (has & 16) != 0 ? causal_alignment::top_left : causal_alignment::bottom_right;
    if ((has & 32) != 0) c.options.window = {reach(in), reach(in)};
    if ((has & 64) != 0) c.options.softcap = static_cast<double>(in.between(-1, 20));
    c.options.scale = static_cast<double>(in.between(-8, 8)) / 64;  // of logits up to 64 * 79
    if ((has & 128) != 0) c.options.scale = {};
    c.options.threads = static_cast<int>(in.between(0, 3));
    // The targets there are, that for pairs, and the loop.
    std::vector<isa> targets(supported_isas().begin(), supported_isas().end());
    if (supports(isa::avx512_bf16)) targets.push_back(isa::avx512_bf16);
    const std::size_t chosen = in.byte() % (targets.size() + 1);
    const bool fused = chosen != targets.size();
    if (fused) c.options.isa = targets[chosen];
    // The memory asked for, and not a byte more.
    std::unique_ptr<std::byte[]> workspace;
    try {
        if (fused && c.what == operation::attention && in.byte() % 2 == 0) {
            const std::size_t bytes = attention_workspace_bytes(c.q, c.k, c.v, c.out, c.options);
            workspace.reset(new std::byte[bytes]);
            c.options.workspace = {workspace.get(), bytes};
        }
        fused ? c.fused() : c.loop();
    } catch (const std::invalid_argument&) {
        return fuzz::must(memory.untouched(), "a refused call wrote something");
    }
    fuzz::must(mask_memory.untouched(), "written to the mask");
    c.check(memory, std::is_same_v<Scalar, Eigen::bfloat16> && fused && c.options.isa == isa::avx512_bf16);
}

/// The memory of a call whose results have the type of its elements, or of its sums.
template <class Scalar>
void run(fuzz::input& in, bool widely) {
    using Sum = attention_scalar<Scalar>;
    fuzz::arena<Scalar> elements(in.byte());
    if constexpr (std::is_same_v<Scalar, Sum>) return run<Scalar, Scalar>(in, {elements, elements});
    else {
        fuzz::arena<Sum> sums(in.byte());
        if (widely) run<Scalar, Sum>(in, {elements, sums});
        else run<Scalar, Scalar>(in, {elements, sums});
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    const unsigned chosen = in.byte();
    const bool widely = (chosen & 4) != 0;
    if (chosen % 4 == 0) run<float>(in, widely);
    else if (chosen % 4 == 1) run<double>(in, widely);
    else if (chosen % 4 == 2) run<Eigen::bfloat16>(in, widely);
    else run<Eigen::half>(in, widely);
    return 0;
}
