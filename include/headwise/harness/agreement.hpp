// Do two implementations compute the same thing? This is the whole of the question; the rooms behind it hold the
// answers.
//
//     allclose(a, b, {.rtol = 1e-5})        yes or no, at the speed of memory
//     close_report(a, b, {.rtol = 1e-5})    the same, explained: what differs, where, by how much
//     tolerance::dot(q, k)                  a tolerance that is derived, not guessed
//
// An array is anything with .data(), .shape() and .strides(), or any contiguous range of numbers. a is what came out, b
// what was expected: the relative tolerance is relative to b.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include <headwise/error.hpp>
#include <headwise/harness/elements.hpp>
#include <headwise/harness/isclose.hpp>
#include <headwise/harness/scan.hpp>
#include <headwise/harness/tolerance.hpp>
#include <headwise/harness/close_report.hpp>
#include <headwise/harness/ulp.hpp>

namespace headwise {

/// torch.isclose(a, b), for two numbers: a == b, or |a - b| finite and <= atol + |rtol * b|, in the operands' own type,
/// each step rounded. Infinities are close to themselves; NaN to NaN only with `equal_nan`. The answer does not depend
/// on the compiler's flags (FMA contraction, -ffast-math) nor on flush-to-zero. Integers: |a - b| is exact, then
/// rounded to double; no overflow. half and bfloat16 (classes that convert to and from float): each step is rounded to
/// the type.
template <element A, element B>
[[nodiscard]] bool isclose(const A& a, const B& b, const allclose_options& options = {}) {
    detail::check_options(options);
    const detail::exact_subnormals guard;
    using pair = detail::pair_of<A, B>;
    return pair::judge(a, b, detail::limits<typename pair::num>(options), typename pair::num{}).close;
}

/// torch.isclose(a, b), element by element in row-major order into `mask`, which must hold exactly as many.
template <comparable_array A, comparable_array B>
void isclose(const A& a, const B& b, std::span<bool> mask, const allclose_options& options = {}) {
    const detail::exact_subnormals guard;
    const tolerance rule = tolerance::within(options);
    detail::scanner scan(detail::elements_of(a), detail::elements_of(b), rule);
    if (std::ssize(mask) != detail::elements_of(a).at.size())
        detail::refuse(std::string("isclose: the mask has shape (") + std::to_string(mask.size()) +
                       "), the arrays have " + detail::elements_of(a).at.text());
    std::fill(mask.begin(), mask.end(), true);
    scan.template walk<false>(detail::order::row_major,
                              [mask](std::ptrdiff_t i, const auto&, const auto&, const auto& judged, const auto&) {
                                  mask[static_cast<std::size_t>(i)] = judged.close;
                                  return true;
                              });
}

/// Are all pairs close under this tolerance? One pass, which ends at the first block that holds a mismatch; allocates
/// nothing. Refuses (std::invalid_argument) shapes that differ. Empty arrays are close.
template <comparable_array A, comparable_array B>
[[nodiscard]] bool allclose(const A& a, const B& b, const tolerance& rule) {
    const detail::exact_subnormals guard;
    detail::scanner scan(detail::elements_of(a), detail::elements_of(b), rule);
    return scan.template walk<false>(detail::order::any, [](std::ptrdiff_t, const auto&, const auto&,
                                                            const auto& judged, const auto&) { return judged.close; });
}

/// torch.allclose(a, b, rtol, atol, equal_nan), with shapes that must match (nothing is broadcast). Refuses tolerances
/// that are negative or NaN.
template <comparable_array A, comparable_array B>
[[nodiscard]] bool allclose(const A& a, const B& b, const allclose_options& options = {}) {
    return allclose(a, b, tolerance::within(options));
}

/// Are all pairs at most `steps` ULP apart?
template <comparable_array A, comparable_array B>
[[nodiscard]] bool compare_ulp(const A& a, const B& b, std::uint64_t steps) {
    return allclose(a, b, tolerance::ulps(steps));
}

/// Are all pairs the same bits? +0 is not -0; a NaN is itself.
template <comparable_array A, comparable_array B>
[[nodiscard]] bool bitwise_equal(const A& a, const B& b) {
    return allclose(a, b, tolerance::bitwise());
}

}  // namespace headwise
