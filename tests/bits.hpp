// Results compared bit for bit, on every target of this machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <doctest/doctest.h>
#include <headwise/kernel/isa.hpp>
#include <headwise/tensor.hpp>

namespace headwise::test {

template <class Scalar>
    requires std::is_floating_point_v<Scalar>
[[nodiscard]] bool same_bits(Scalar a, Scalar b) { return std::memcmp(&a, &b, sizeof a) == 0; }

template <class Scalar>
[[nodiscard]] bool same_bits(const tensor<Scalar>& a, const tensor<Scalar>& b) {
    return a.shape() == b.shape() &&
           (a.size() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(Scalar)) == 0);
}

/// The same bits; or, where `must` is NaN, a NaN.
template <class Scalar>
[[nodiscard]] bool same_or_nan(Scalar is, Scalar must) {
    return std::memcmp(&is, &must, sizeof is) == 0 || (is != is && must != must);
}

/// A tensor of sixteen-bit elements as floats.
template <class Scalar>
[[nodiscard]] tensor<float> widened(const tensor<Scalar>& t) {
    tensor<float> result(t.shape());
    std::transform(t.data(), t.data() + t.size(), result.data(), [](Scalar x) { return static_cast<float>(x); });
    return result;
}

/// The same bits as a dense tensor's, whatever the view's strides.
template <class Scalar>
[[nodiscard]] bool elements_equal(const tensor_view<Scalar>& view, const tensor<Scalar>& dense) {
    const auto [B, H, L, M] = dense.shape();
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    if (!same_bits(view(b, h, l, m), dense(b, h, l, m))) return false;
    return true;
}

/// Runs `body` for float and double on every isa of this machine.
template <class Body>
void on_every_target(const Body& body) {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        body(name, float{});
        body(name, double{});
    }
}

}  // namespace headwise::test
