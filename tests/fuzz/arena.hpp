// Views of any strides into one stretch of memory, so that operands may overlap one another and themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include <headwise/tensor.hpp>

#include "input.hpp"

namespace fuzz {

/// Calls `visit(b, h, l, d)` for each index.
template <class Visit>
void each(const headwise::shape4& n, const Visit& visit) {
    for (std::ptrdiff_t b = 0; b < n[0]; ++b)
        for (std::ptrdiff_t h = 0; h < n[1]; ++h)
            for (std::ptrdiff_t l = 0; l < n[2]; ++l)
                for (std::ptrdiff_t d = 0; d < n[3]; ++d) visit(b, h, l, d);
}

/// Small whole numbers. It is exact: memory behind them would hide an access beyond their end from a sanitizer.
template <class Scalar>
class arena {
public:
    static constexpr std::ptrdiff_t size = 1 << 13;

    explicit arena(std::uint64_t seed) : values_(new Scalar[size]), before_(new Scalar[size]) {
        headwise::detail::splitmix64 random(seed);
        std::generate_n(values_.get(), size, [&] { return static_cast<Scalar>(static_cast<int>(random() % 17) - 8); });
        std::copy_n(values_.get(), size, before_.get());
    }

    /// A view of any strides, moved inwards where it would reach out of here; false where it cannot fit.
    bool take(input& in, const headwise::shape4& shape, headwise::tensor_view<Scalar>& view) {
        headwise::strides4 strides = headwise::detail::dense_strides(shape);
        const unsigned kind = in.byte();
        for (std::size_t axis = 0; axis < 4; ++axis) {
            if ((kind >> axis & 1) == 0) continue;
            strides[axis] = in.between(-64, 127) * ((kind >> 4 & 1) != 0 ? 16 : 1);
        }
        if ((kind >> 5 & 1) != 0)
            strides[0] = shape[1] * shape[2] * shape[3], strides[2] = shape[1] * shape[3], strides[1] = shape[3];
        if (kind >> 6 == 3)
            strides[3] = 1, strides[2] = shape[3] + in.between(0, 20), strides[1] = shape[2] * strides[2];
        std::ptrdiff_t low = 0, high = 0;
        if (!headwise::detail::is_empty(shape))
            for (std::size_t axis = 0; axis < 4; ++axis)
                (strides[axis] < 0 ? low : high) += (shape[axis] - 1) * strides[axis];
        if (high - low >= size) return false;
        const std::ptrdiff_t room = size - 1 - (high - low);
        const std::ptrdiff_t base = -low + static_cast<std::ptrdiff_t>(in.byte() << 8 | in.byte()) % (room + 1);
        view = headwise::tensor_view<Scalar>(values_.get() + base, shape, strides);
        return true;
    }

    /// What was here before the call.
    [[nodiscard]] Scalar old(const Scalar& element) const { return before_.get()[of(element)]; }
    [[nodiscard]] headwise::tensor<Scalar> old(const headwise::tensor_view<Scalar>& view) const {
        headwise::tensor<Scalar> copy(view.shape());
        each(view.shape(), [&](auto b, auto h, auto l, auto d) { copy(b, h, l, d) = old(view(b, h, l, d)); });
        return copy;
    }
    [[nodiscard]] bool untouched() const { return std::equal(values_.get(), values_.get() + size, before_.get()); }

    /// The elements of the outputs were each its own, and none of the inputs'; nothing else has been written.
    void check_written(const std::vector<headwise::tensor_view<Scalar>>& outputs,
                       const std::vector<headwise::tensor_view<Scalar>>& inputs) const {
        std::set<std::ptrdiff_t> written;
        std::ptrdiff_t count = 0;
        for (const auto& output : outputs) {
            each(output.shape(), [&](auto b, auto h, auto l, auto d) { written.insert(of(output(b, h, l, d))); });
            count += output.size();
        }
        must(static_cast<std::ptrdiff_t>(written.size()) == count, "an output whose elements overlap was accepted");
        for (const auto& input : inputs)
            each(input.shape(), [&](auto b, auto h, auto l, auto d) {
                must(!written.contains(of(input(b, h, l, d))), "an output that overlaps an input was accepted");
            });
        for (std::ptrdiff_t i = 0; i < size; ++i)
            if (!written.contains(i)) must(before_.get()[i] == values_.get()[i], "written beside the output");
    }

private:
    [[nodiscard]] std::ptrdiff_t of(const Scalar& element) const { return &element - values_.get(); }

    std::unique_ptr<Scalar[]> values_, before_;
};

}  // namespace fuzz
