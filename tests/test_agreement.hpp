// What the agreement tests share: a strided view, reproducible values, and attention scores computed in two orders.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace agreement_test {

using shape4 = std::array<std::ptrdiff_t, 4>;

/// The least that the harness takes for a strided array.
template <class T>
struct strided {
    const T* values;
    shape4 extents, steps;
    const T* data() const { return values; }
    shape4 shape() const { return extents; }
    shape4 strides() const { return steps; }
};

template <class T>
strided<T> dense(const std::vector<T>& values, const shape4& s) {
    return {values.data(), s, {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}};
}

/// Values in (-2, 2), bell-shaped: the sum of four uniform ones.
template <class T>
std::vector<T> noise(std::ptrdiff_t count, std::uint64_t seed) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) {
        double sum = -2;
        for (int i = 0; i < 4; ++i) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            sum += static_cast<double>(seed >> 11) * 0x1p-53;
        }
        value = static_cast<T>(2 * sum);
    }
    return values;
}

/// out[b,h,l,m] = sum over d of q[b,h,l,d] k[b,h,m,d], from the first d to the last or in `strands` interleaved sums:
/// two results that are both right and rarely the same.
template <class T>
std::vector<T> scores(const std::vector<T>& q, const std::vector<T>& k, std::ptrdiff_t heads, std::ptrdiff_t L,
                      std::ptrdiff_t M, std::ptrdiff_t D, std::ptrdiff_t strands, std::ptrdiff_t used = -1) {
    std::vector<T> out;
    out.reserve(static_cast<std::size_t>(heads * L * M));
    if (used < 0) used = D;
    for (std::ptrdiff_t h = 0; h < heads; ++h)
        for (std::ptrdiff_t l = 0; l < L; ++l)
            for (std::ptrdiff_t m = 0; m < M; ++m) {
                const T* x = q.data() + (h * L + l) * D;
                const T* y = k.data() + (h * M + m) * D;
                T total = 0;
                for (std::ptrdiff_t s = 0; s < strands; ++s) {
                    T sum = 0;
                    for (std::ptrdiff_t d = s; d < used; d += strands) sum += x[d] * y[d];
                    total += sum;
                }
                out.push_back(total);
            }
    return out;
}

}  // namespace agreement_test
