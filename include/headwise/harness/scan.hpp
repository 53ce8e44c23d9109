// One pass over two arrays: block by block at the speed of memory, and a closer look only where a block asks for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include <headwise/error.hpp>
#include <headwise/harness/elements.hpp>
#include <headwise/harness/isclose.hpp>
#include <headwise/harness/tolerance.hpp>

namespace headwise::detail {

/// Walks a and b under one tolerance. `visit(first + i, a_i, b_i, judged, bound_i)` is called for every pair that is
/// not close, and for some that are, until it answers false. A report raises the records in `block` as it goes.
template <class A, class B>
class scanner {
public:
    using pair = pair_of<A, B>;
    using num = typename pair::num;

    const limits<num> limit;
    block_limits<num> block;

    scanner(const elements<A>& a, const elements<B>& b, const tolerance& rule)
        : limit(rule.options()), block{limit.rtol, limit.atol}, a_(a), b_(b), rule_(rule) {
        require_same_shape(a.at, b.at);
        if (!rule.arithmetic() && !std::is_same_v<A, B>)
            refuse("tolerance::ulps and tolerance::bitwise compare operands of one type");
        if (const dot_bound* dot = rule.bound(); dot && (a.at.rank != 4 || dot->shape != a.at.shape))
            refuse(std::string("tolerance::dot: q and k give outputs of shape ") + index_text(dot->shape, 4) +
                   ", the arrays are " + a.at.text());
    }

    /// False if a visit ended it.
    template <bool Records, class Visit>
    bool walk(order how, Visit&& visit) {
        if (a_.at.empty()) return true;
        const dot_bound* dot = rule_.bound();
        return for_each_run(
            a_.at, b_.at, dot ? order::by_row : how,
            [&](std::ptrdiff_t first, std::ptrdiff_t oa, std::ptrdiff_t ob, std::ptrdiff_t n, std::ptrdiff_t sa,
                std::ptrdiff_t sb) {
                if (!dot) return run<false, Records>(first, a_.data + oa, b_.data + ob, nullptr, n, sa, sb, visit);
                const index4 at = a_.at.index(first);
                block.row = rounded_up<num>(dot->row[dot->row_index(at)]);
                return run<true, Records>(first, a_.data + oa, b_.data + ob, dot->columns<num>(at), n, sa, sb, visit);
            });
    }

private:
    elements<A> a_;
    elements<B> b_;
    const tolerance& rule_;

    /// Both operands are of IEEE types that the block test knows; others are judged one by one.
    static constexpr bool blockwise = std::is_floating_point_v<A> && std::is_floating_point_v<B>;
    static constexpr std::ptrdiff_t block_size = 512, sub_block = 32;
    std::array<num, blockwise ? block_size : 0> copy_of_a_{}, copy_of_b_{};

    template <bool Bound, bool Records, class Visit>
    bool run(std::ptrdiff_t first, const A* a, const B* b, const num* column, std::ptrdiff_t n, std::ptrdiff_t sa,
             std::ptrdiff_t sb, Visit&& visit) {
        for (std::ptrdiff_t i = 0; i < n; i += block_size) {
            const std::ptrdiff_t count = std::min(block_size, n - i);
            if (!look<Bound, Records>(first + i, a + i * sa, b + i * sb, Bound ? column + i : nullptr, count, sa, sb,
                                      visit))
                return false;
        }
        return true;
    }

    template <bool Bound, bool Records, class Visit>
    bool look(std::ptrdiff_t first, const A* a, const B* b, const num* column, std::ptrdiff_t n, std::ptrdiff_t sa,
              std::ptrdiff_t sb, Visit&& visit) {
        const auto closely = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
            for (std::ptrdiff_t i = from; i < to; ++i)
                if (!visit(first + i, a[i * sa], b[i * sb],
                           judge(a[i * sa], b[i * sb], Bound ? block.row * column[i] : num{}),
                           Bound ? block.row * column[i] : num{}))
                    return false;
            return true;
        };
        if (!rule_.arithmetic() && sa == 1 && sb == 1 && sizeof(A) == sizeof(B) &&
            std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(A)) == 0)
            return true;  // the same bits are the same by every exact rule
        if constexpr (!blockwise) return closely(0, n);
        else {
            if (!is_finite<num>(to_bits(limit.rtol)) || !rule_.arithmetic()) return closely(0, n);
            const num* pa = dense(a, n, sa, copy_of_a_);
            const num* pb = dense(b, n, sb, copy_of_b_);
            if (surely_close<Bound, Records, false>(pa, pb, column, n, block)) return true;
            for (std::ptrdiff_t i = 0; i < n; i += sub_block) {
                const std::ptrdiff_t count = std::min(sub_block, n - i);
                if (!surely_close<Bound, Records, true>(pa + i, pb + i, Bound ? column + i : nullptr, count, block) &&
                    !closely(i, i + count))
                    return false;
            }
            return true;
        }
    }

    judged<num> judge(const A& a, const B& b, const num& bound) const noexcept {
        judged<num> result = pair::judge(a, b, limit, bound);
        if constexpr (std::is_same_v<A, B>) {
            if (rule_.kind() == tolerance::rule::ulps) result.close = steps_between(a, b) <= rule_.steps();
            // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are the question
            if (rule_.kind() == tolerance::rule::bitwise) result.close = std::memcmp(&a, &b, sizeof a) == 0;
        }
        return result;
    }

    static std::uint64_t steps_between(const A& a, const B& b) noexcept {
        if constexpr (std::is_integral_v<A>) return pair::integer_distance(a, b);
        else return ulp_distance(a, b);
    }

    /// n elements side by side: where they lie, or copied.
    template <class T>
    static const num* dense(const T* x, std::ptrdiff_t n, std::ptrdiff_t stride,
                            std::array<num, blockwise ? block_size : 0>& store) noexcept {
        if constexpr (std::is_same_v<T, num>) {
            if (stride == 1) return x;
        }
        for (std::ptrdiff_t i = 0; i < n; ++i) {
            const auto bits = load<num>(x[i * stride]);
            std::memcpy(&store[static_cast<std::size_t>(i)], &bits, sizeof bits);
        }
        return store.data();
    }
};

}  // namespace headwise::detail
