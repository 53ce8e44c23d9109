// Ways to lay a tensor out in memory, for tests: every operation must give the same result on all of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <headwise/tensor.hpp>

namespace headwise::test {

/// The axes from the outermost to the innermost in memory, the direction of each, and the room around the elements.
struct layout {
    std::string name{};
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    std::array<std::ptrdiff_t, 4> direction{1, 1, 1, 1};
    std::ptrdiff_t step = 1;    ///< Between neighbours on the innermost axis, in elements.
    std::ptrdiff_t gap = 0;     ///< After each innermost run.
    std::ptrdiff_t offset = 0;  ///< Of the first element from a 64-byte boundary.
};

inline std::vector<layout> layouts() {
    std::vector<layout> all = {
        {.name = "dense"},
        {.name = "(b,l,h,d)", .order = {0, 2, 1, 3}},
        {.name = "(l,b,d,h)", .order = {2, 0, 3, 1}},
        {.name = "d outermost", .order = {3, 2, 1, 0}},
        {.name = "head transposed", .order = {0, 1, 3, 2}},
        {.name = "rows with a gap", .gap = 5},
        {.name = "every third element", .step = 3},
        {.name = "b backwards", .direction = {-1, 1, 1, 1}},
        {.name = "h backwards", .direction = {1, -1, 1, 1}},
        {.name = "l backwards", .direction = {1, 1, -1, 1}},
        {.name = "d backwards", .direction = {1, 1, 1, -1}},
        {.name = "all backwards, every second, gaps", .direction = {-1, -1, -1, -1}, .step = 2, .gap = 3, .offset = 7},
    };
    for (std::ptrdiff_t offset = 1; offset <= 15; ++offset)
        all.push_back({.name = "offset by " + std::to_string(offset) + " elements", .offset = offset});
    return all;
}

/// A tensor in a layout, in a buffer whose other elements are NaN.
template <class Scalar>
class laid_out {
public:
    laid_out(const shape4& shape, const layout& how) {
        strides4 strides{};
        std::ptrdiff_t run = how.step, first = how.offset;
        for (std::size_t i = 4; i-- > 0;) {
            const std::size_t axis = how.order[i];
            strides[axis] = run * how.direction[axis];
            if (how.direction[axis] < 0) first += run * (shape[axis] - 1);
            run = run * shape[axis] + (i == 3 ? how.gap : 0);
        }
        buffer_ = tensor<Scalar>({1, 1, 1, how.offset + run + 16});
        std::fill_n(buffer_.data(), buffer_.size(), poison);
        view_ = detail::is_empty(shape) ? tensor_view<Scalar>(buffer_.data(), shape, strides)
                                        : tensor_view<Scalar>(buffer_.data() + first, shape, strides);
    }
    laid_out(const tensor<Scalar>& values, const layout& how) : laid_out(values.shape(), how) {
        each([&](std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, std::ptrdiff_t d) {
            view_(b, h, l, d) = values(b, h, l, d);
        });
    }

    [[nodiscard]] tensor_view<Scalar> view() const { return view_; }

    /// The number of elements of the buffer that are not NaN, in the view and around it.
    [[nodiscard]] std::ptrdiff_t written() const {
        return std::count_if(buffer_.data(), buffer_.data() + buffer_.size(), [](Scalar x) { return x == x; });
    }

private:
    template <class F>
    void each(F f) const {
        const auto [B, H, L, D] = view_.shape();
        for (std::ptrdiff_t b = 0; b < B; ++b)
            for (std::ptrdiff_t h = 0; h < H; ++h)
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    for (std::ptrdiff_t d = 0; d < D; ++d) f(b, h, l, d);
    }

    static inline const Scalar poison = std::numeric_limits<Scalar>::quiet_NaN();  // of half no constant expression
    tensor<Scalar> buffer_;
    tensor_view<Scalar> view_;
};

}  // namespace headwise::test
