// Attention, its weights and its logits: shapes x strides x groups x masks x biases x windows x options, on every
// target, against the loops on dense copies. Either the call is refused and nothing is written; or every result is
// right, nothing else is written, and the outputs' elements were their own.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include <headwise/attention.hpp>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>

#include "arena.hpp"
#include "input.hpp"

using namespace headwise;

namespace {

/// The same value, infinities too, within what another order of summation may bring.
template <class Scalar>
void must_agree(const tensor_view<Scalar>& is, const tensor<Scalar>& expected, const char* what) {
    fuzz::each(is.shape(), [&](auto b, auto h, auto l, auto m) {
        const Scalar x = is(b, h, l, m), y = expected(b, h, l, m);
        fuzz::must(x == y || std::abs(x - y) <= Scalar(2e-3) * std::max(Scalar(1), std::abs(y)), what);
    });
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

/// The views of one call, all in one arena but the mask.
template <class Scalar>
struct call {
    enum class operation { attention, weights, logits } what = operation::attention;
    tensor_view<Scalar> q, k, v, bias, lse, out;
    attention_options<Scalar> options;

    void operator()() const {
        if (what == operation::attention) attention(q, k, v, out, options);
        else if (what == operation::weights) attention_weights(q, k, out, options);
        else attention_logits(q, k, out, options);
    }

    /// The loops, on copies of what was there before.
    void check(const fuzz::arena<Scalar>& memory) const {
        const tensor<Scalar> old_q = memory.old(q), old_k = memory.old(k), old_v = memory.old(v),
                             old_bias = memory.old(bias);
        tensor<Scalar> expected(out.shape()), expected_lse(lse.shape());
        attention_options<Scalar> same = options;
        same.bias = {}, same.lse = {};
        if (bias.data() != nullptr) same.bias = old_bias;
        if (lse.data() != nullptr) same.lse = expected_lse;
        if (what == operation::attention) attention_loop(old_q, old_k, old_v, expected, same);
        else if (what == operation::weights) attention_weights_loop(old_q, old_k, expected, same);
        else attention_logits_loop(old_q, old_k, expected, same);
        must_agree(out, expected, "an output is not the loop's");
        std::vector<tensor_view<Scalar>> outputs{out}, inputs{q, k};
        if (what == operation::attention) inputs.push_back(v);
        if (bias.data() != nullptr) inputs.push_back(bias);
        if (lse.data() != nullptr && what != operation::logits) {
            must_agree(lse, expected_lse, "an lse is not the loop's");
            outputs.push_back(lse);
        }
        if (out.size() == 0 || k.size() == 0 || q.size() == 0) inputs.clear();  // nothing is written, or read
        memory.check_written(outputs, inputs);
    }
};

template <class Scalar>
void run(fuzz::input& in) {
    using operation = typename call<Scalar>::operation;
    const auto extent = [&in] {
        const unsigned chosen = in.byte();
        return static_cast<std::ptrdiff_t>(chosen < 200 ? chosen % 20 : chosen % 80);
    };
    call<Scalar> c;
    c.what = static_cast<operation>(in.between(0, 2));
    const std::ptrdiff_t B = in.between(0, 2), heads = in.between(0, 3), L = extent(), M = extent(), D = extent();
    const std::ptrdiff_t H = heads * in.between(0, 3) + (in.between(0, 31) == 31 ? 1 : 0), Dv = extent();
    const shape4 logits{B, H, L, M};
    fuzz::arena<Scalar> memory(in.byte());
    if (!memory.take(in, {B, H, L, D}, c.q) || !memory.take(in, {B, heads, M, D}, c.k)) return;
    if (!memory.take(in, {B, heads, M, Dv}, c.v)) return;
    if (!memory.take(in, c.what == operation::attention ? shape4{B, H, L, Dv} : logits, c.out)) return;
    const unsigned has = in.byte();
    if ((has & 1) != 0 && !memory.take(in, some_axes(in, logits), c.bias)) return;
    if ((has & 2) != 0 && !memory.take(in, {B, H, L, 1}, c.lse)) return;
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
    c.options.isa = supported_isas()[in.byte() % supported_isas().size()];
    // The memory asked for, and not a byte more.
    std::unique_ptr<std::byte[]> workspace;
    try {
        if (c.what == operation::attention && in.byte() % 2 == 0) {
            const std::size_t bytes = attention_workspace_bytes(c.q, c.k, c.v, c.out, c.options);
            workspace.reset(new std::byte[bytes]);
            c.options.workspace = {workspace.get(), bytes};
        }
        c();
    } catch (const std::invalid_argument&) {
        return fuzz::must(memory.untouched(), "a refused call wrote something");
    }
    fuzz::must(mask_memory.untouched(), "written to the mask");
    c.check(memory);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    if (in.byte() % 2 == 0) run<float>(in);
    else run<double>(in);
    return 0;
}
