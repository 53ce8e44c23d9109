// Formulas with several indices of one kind, "bld,dhe->blhe": as one batched product, or few.
//
// Neighbouring axes that step as one, in every operand that has them, become one axis: (b,l) of a dense tensor are b*l
// rows. What is left beyond one row, column and depth is a batch for which the operand that lacks it has stride 0; what
// is left beyond two batches is looped over here. Nothing is copied.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <headwise/attributes.hpp>
#include <headwise/einsum_check.hpp>
#include <headwise/einsum_formula.hpp>
#include <headwise/scores.hpp>
#include <headwise/tensor.hpp>

namespace headwise::detail {

/// An axis of a product: its extent, and its steps in q, k and out, 0 in one that lacks it.
struct product_axis {
    std::ptrdiff_t extent = 1, q = 1, k = 1, out = 1;

    /// Whether one step of this axis is as long as all of `inner`, in every operand. (No overflow: the extents are 2 or
    /// more, so a product is at most twice the reach of a view of two-byte elements or longer.)
    [[nodiscard]] bool is_around(const product_axis& inner) const noexcept {
        return q == inner.extent * inner.q && k == inner.extent * inner.k && out == inner.extent * inner.out;
    }
};

/// The axes of one kind, no two of which step as one, none of extent 1.
class axis_group {
public:
    void add(product_axis axis) noexcept {
        if (axis.extent == 1) return;
        for (std::size_t i = 0; i < count_; ++i) {
            const bool inside = axes_[i].is_around(axis);
            if (!inside && !axis.is_around(axes_[i])) continue;
            product_axis merged = inside ? axis : axes_[i];
            merged.extent = axis.extent * axes_[i].extent;
            axes_[i] = axes_[--count_];
            return add(merged);  // which may now step as one with another
        }
        axes_[count_++] = axis;
    }

    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// Takes out the axis that goes before all others; of an empty group, one of extent 1.
    template <class Before>
    [[nodiscard]] product_axis take_first(Before before) noexcept {
        if (count_ == 0) return {};
        std::size_t first = 0;
        for (std::size_t i = 1; i < count_; ++i)
            if (before(axes_[i], axes_[first])) first = i;
        std::swap(axes_[first], axes_[--count_]);
        return axes_[count_];
    }
    [[nodiscard]] product_axis take_longest() noexcept {
        return take_first([](const product_axis& x, const product_axis& y) { return x.extent > y.extent; });
    }
    /// The one with the shortest steps in the result.
    [[nodiscard]] product_axis take_innermost() noexcept {
        const auto length = [](std::ptrdiff_t step) { return step < 0 ? -step : step; };
        return take_first([&](const product_axis& x, const product_axis& y) { return length(x.out) < length(y.out); });
    }

private:
    std::array<product_axis, 4> axes_;
    std::size_t count_ = 0;
};

[[noreturn]] HEADWISE_COLD inline void refuse_depth(const einsum_formula& formula, strides4 a, strides4 b) {
    std::string summed;
    for (const char index : formula.a)
        if (index != '\0' && has(formula.b, index) && !has(formula.out, index))
            summed += (summed.empty() ? "'" : ", '") + std::string(1, index) + "'";
    refuse(formula_text(formula.text) + "the summed indices " + summed + " do not step as one axis in a, strides " +
           text_of(a) + ", and in b, strides " + text_of(b) + ": make a dense copy first");
}

/// The axes of a product by kind.
struct product_axes {
    axis_group batch, rows, columns, depth;

    template <class Scalar, class Result>
    product_axes(const einsum_formula& formula, const tensor_view<const Scalar>& q, const tensor_view<const Scalar>& k,
                 const tensor_view<Result>& out) {
        const axis_names& q_names = formula.exchanged ? formula.b : formula.a;
        const axis_names& k_names = formula.exchanged ? formula.a : formula.b;
        const auto step = [](const axis_names& names, const auto& view, char index) {
            const int axis = axis_of(names, index);
            return axis < 0 ? 0 : view.strides()[static_cast<std::size_t>(axis)];
        };
        const auto add = [&](char index, std::ptrdiff_t extent) {
            const bool in_k = has(k_names, index), in_q = has(q_names, index), in_out = has(formula.out, index);
            axis_group& group = !in_out ? depth : !in_k ? rows : !in_q ? columns : batch;
            group.add({extent, step(q_names, q, index), step(k_names, k, index), step(formula.out, out, index)});
        };
        for (std::size_t axis = 0; axis < 4; ++axis) {
            if (q_names[axis] != '\0') add(q_names[axis], q.shape()[axis]);
            if (k_names[axis] != '\0' && !has(q_names, k_names[axis])) add(k_names[axis], k.shape()[axis]);
        }
    }
};

/// The sum of no products.
template <class Scalar, class Result>
void einsum_of_nothing(const tensor_view<Result>& out, const scores_options& options) {
    const shape4& n = out.shape();
    const tensor_view<const Scalar> q(nullptr, {n[0], n[1], n[2], 0}), k(nullptr, {n[0], n[1], n[3], 0});
    batched_scores_vectorized(q, k, out, options);
}

/// einsum of any formula.
template <class Scalar, class Result>
HEADWISE_NOINLINE void einsum_merged(const einsum_formula& formula, const tensor_view<const Scalar>& a,
                                     const tensor_view<const Scalar>& b, const tensor_view<Result>& out,
                                     const scores_options& options) {
    check_einsum_extents(formula, a.shape(), b.shape(), out.shape());
    check_einsum_memory(formula, a, b, out);
    if (is_empty(out.shape()) || is_empty(a.shape())) return einsum_of_nothing<Scalar>(out, options);

    const tensor_view<const Scalar>& q = formula.exchanged ? b : a;
    const tensor_view<const Scalar>& k = formula.exchanged ? a : b;
    product_axes axes(formula, q, k, out);
    if (axes.depth.count() > 1) refuse_depth(formula, a.strides(), b.strides());
    const product_axis depth = axes.depth.take_longest();
    const product_axis row = axes.rows.take_longest(), column = axes.columns.take_innermost();
    while (axes.rows.count() > 0) axes.batch.add(axes.rows.take_longest());
    while (axes.columns.count() > 0) axes.batch.add(axes.columns.take_longest());
    const product_axis head = axes.batch.take_longest(), batch = axes.batch.take_longest();
    const product_axis inner = axes.batch.take_longest(), outer = axes.batch.take_longest();

    // Their memory has been checked as a whole: of a part, apart by its strides, that need not be seen.
    for (std::ptrdiff_t i = 0; i < outer.extent; ++i)
        for (std::ptrdiff_t j = 0; j < inner.extent; ++j) {
            const tensor_view<const Scalar> part_of_q(q.data() + i * outer.q + j * inner.q,
                                                      {batch.extent, head.extent, row.extent, depth.extent},
                                                      {batch.q, head.q, row.q, depth.q});
            const tensor_view<const Scalar> part_of_k(k.data() + i * outer.k + j * inner.k,
                                                      {batch.extent, head.extent, column.extent, depth.extent},
                                                      {batch.k, head.k, column.k, depth.k});
            const tensor_view<Result> part_of_out(out.data() + i * outer.out + j * inner.out,
                                                  {batch.extent, head.extent, row.extent, column.extent},
                                                  {batch.out, head.out, row.out, column.out});
            compute_scores(part_of_q, part_of_k, part_of_out, options);
        }
}

}  // namespace headwise::detail
