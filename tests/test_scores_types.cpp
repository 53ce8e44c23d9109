// Sixteen-bit operands: on every target but one, the bits of the float kernels on the same values, rounded once at the
// end; on AVX-512 BF16, which adds pairs, a result within its bound and the same on every path.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>

#include "bits.hpp"
#include "guarded.hpp"
#include "reference.hpp"

using namespace headwise;
using test::same_or_nan, test::widened;

namespace {

using Eigen::bfloat16, Eigen::half;

template <class Scalar>
std::uint16_t bits(Scalar x) {
    return std::bit_cast<std::uint16_t>(x);
}

template <class Scalar>
Scalar of_bits(std::uint16_t b) {
    return std::bit_cast<Scalar>(b);
}

template <class Scalar>
std::ptrdiff_t differences(const tensor<Scalar>& a, const tensor<Scalar>& b) {
    if (a.shape() != b.shape()) return -1;
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < a.size(); ++i) count += !same_or_nan(a.data()[i], b.data()[i]);
    return count;
}

template <class Scalar>
std::ptrdiff_t wrongly_rounded(const tensor<Scalar>& out, const tensor<float>& exact) {
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < out.size(); ++i) count += !same_or_nan(out.data()[i], Scalar(exact.data()[i]));
    return count;
}

template <class Scalar>
tensor<float> float_scores(const tensor<Scalar>& q, const tensor<Scalar>& k, const scores_options& options) {
    tensor<float> out(detail::scores_shape(q.shape(), k.shape()));
    batched_scores_vectorized(q, k, out, options);
    return out;
}

/// Runs `body` for both types on every isa, with whether it multiplies pairs.
template <class Body>
void on_every_target(const Body& body) {
    for (const isa name : {isa::baseline, isa::avx2, isa::avx512, isa::neon, isa::avx512_bf16}) {
        if (!supports(name)) continue;
        CAPTURE(to_string(name));
        body(name, bfloat16{}, name == isa::avx512_bf16);
        body(name, half{}, false);
    }
}

/// Few rows and many, odd depths, partial vectors, several blocks of columns, groups.
const std::vector<std::array<std::ptrdiff_t, 6>> shapes{
    // B, Hkv, group, L, M, D
    {2, 3, 1, 8, 8, 16},   {2, 3, 1, 7, 5, 13},   {1, 2, 1, 1, 513, 128},   {1, 1, 1, 3, 100, 31},
    {2, 1, 1, 30, 65, 64}, {1, 2, 1, 49, 49, 32}, {1, 1, 1, 20, 1500, 257}, {1, 1, 1, 33, 40, 1024},
    {2, 2, 4, 1, 130, 33}, {1, 2, 3, 2, 70, 40},  {1, 2, 2, 9, 37, 21},     {1, 1, 1, 14, 33, 1},
    {1, 1, 1, 5, 17, 1}};

}  // namespace

TEST_CASE("plain conversions: every bfloat16 and half widens, and floats round, as Eigen's do") {
    std::ptrdiff_t wrong = 0;
    for (std::uint32_t b = 0; b < 65536; ++b) {
        const auto b16 = static_cast<std::uint16_t>(b);
        wrong += !same_or_nan(kernel::widen(kernel::bfloat16{b16}), static_cast<float>(of_bits<bfloat16>(b16)));
        wrong += !same_or_nan(kernel::widen(kernel::half{b16}), static_cast<float>(of_bits<half>(b16)));
    }
    CHECK(wrong == 0);
    const auto check = [&](std::uint32_t b) {
        const float x = std::bit_cast<float>(b);
        kernel::bfloat16 short_float;
        kernel::half short_half;
        kernel::narrow(short_float, x);
        kernel::narrow(short_half, x);
        wrong += !same_or_nan(of_bits<bfloat16>(short_float.bits), bfloat16(x));
        wrong += !same_or_nan(of_bits<half>(short_half.bits), half(x));
    };
    for (std::uint64_t b = 0; b < std::uint64_t{1} << 32; b += 997) check(static_cast<std::uint32_t>(b));
    for (std::uint32_t high = 0; high < 65536; ++high)  // every tie of either, and its neighbours
        for (const std::uint32_t low :
             {0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
            check(high << 16 | low);
    CHECK(wrong == 0);
}

TEST_CASE("every value is what it is on every target, among few rows and many, NaNs, infinities and denormals too") {
    on_every_target([]<class Scalar>(isa name, Scalar, bool pairs) {
        tensor<Scalar> all({1, 1, 65536, 1}), one({1, 1, 1, 1});
        for (std::ptrdiff_t i = 0; i < 65536; ++i) all(0, 0, i, 0) = of_bits<Scalar>(static_cast<std::uint16_t>(i));
        one(0, 0, 0, 0) = Scalar(1);
        const auto wrong = [&](const tensor<float>& out) {
            std::ptrdiff_t count = 0;
            for (std::ptrdiff_t i = 0; i < 65536; ++i) {
                const float must = static_cast<float>(all(0, 0, i, 0)), is = out.data()[i];
                const bool flushed = pairs && std::abs(must) < std::numeric_limits<float>::min() && is == 0;
                count += !(is == must || flushed || (is != is && must != must));
            }
            return count;
        };
        CHECK(wrong(float_scores(one, all, {.isa = name})) == 0);
        CHECK(wrong(float_scores(all, one, {.isa = name})) == 0);
    });
}

TEST_CASE("sums of products: the bits of the float kernel on the same values; of pairs, within the bound") {
    on_every_target([]<class Scalar>(isa name, Scalar, bool pairs) {
        for (const auto& [B, kv_heads, group, L, M, D] : shapes) {
            const std::string shape = detail::text_of({B, kv_heads * group, L, M}) + ", D = " + std::to_string(D);
            CAPTURE(shape);
            const auto q = randn<Scalar>({B, kv_heads * group, L, D}, 1), k = randn<Scalar>({B, kv_heads, M, D}, 2);
            const tensor<float> out = float_scores(q, k, {.scale = 0.3, .isa = name});
            if (!pairs)
                CHECK(differences(out,
                                  batched_scores_vectorized(widened(q), widened(k), {.scale = 0.3, .isa = name})) == 0);
            else if (group == 1) CHECK(test::mismatch(out, widened(q), widened(k), 0.3) == "");
            CHECK(wrongly_rounded(batched_scores_vectorized(q, k, {.scale = 0.3, .isa = name}), out) == 0);
        }
    });
}

TEST_CASE("small integers: exact sums, rounded to nearest even, the same on every target") {
    on_every_target([]<class Scalar>(isa name, Scalar, bool) {
        for (const auto& [L, M, D] :
             std::vector<std::array<std::ptrdiff_t, 3>>{{40, 70, 9}, {3, 70, 9}, {16, 16, 32}}) {
            auto q = randn<Scalar>({1, 2, L, D}, 3), k = randn<Scalar>({1, 2, M, D}, 4);
            for (tensor<Scalar>* t : {&q, &k})
                for (std::ptrdiff_t i = 0; i < t->size(); ++i)
                    t->data()[i] = Scalar(std::round(30 * static_cast<float>(t->data()[i])));
            const auto exact = test::reference_scores(widened(q), widened(k));
            tensor<float> sums(exact.shape());
            std::transform(exact.data(), exact.data() + exact.size(), sums.data(),
                           [](double x) { return static_cast<float>(x); });
            CHECK(differences(float_scores(q, k, {.isa = name}), sums) == 0);
            CHECK(wrongly_rounded(batched_scores_vectorized(q, k, {.isa = name}), sums) == 0);
        }
    });
}

TEST_CASE("results that overflow, underflow or are NaN are rounded as Eigen rounds them") {
    on_every_target([]<class Scalar>(isa name, Scalar, bool pairs) {
        for (const double scale : {1e-8, 3e-6, 1.0, 4e3, 1e30, 1e38, std::numeric_limits<double>::quiet_NaN()})
            for (const std::ptrdiff_t L : {3, 20}) {
                const auto q = randn<Scalar>({1, 1, L, 24}, 5), k = randn<Scalar>({1, 1, 75, 24}, 6);
                const scores_options options{.scale = scale, .isa = name};
                CHECK(wrongly_rounded(batched_scores_vectorized(q, k, options), float_scores(q, k, options)) == 0);
            }
        if (!pairs) {
            const scores_options options{.scale = 1e-39, .isa = name};
            const auto q = randn<Scalar>({1, 1, 20, 24}, 5), k = randn<Scalar>({1, 1, 75, 24}, 6);
            CHECK(wrongly_rounded(batched_scores_vectorized(q, k, options), float_scores(q, k, options)) == 0);
        }
    });
}

TEST_CASE("any strides, groups, threads and stores give the same bits") {
    on_every_target([]<class Scalar>(isa name, Scalar, bool) {
        for (const auto& [B, kv_heads, group, L, M, D] : shapes) {
            const std::ptrdiff_t H = kv_heads * group;
            const std::string shape = detail::text_of({B, H, L, M}) + ", D = " + std::to_string(D);
            CAPTURE(shape);
            const auto q = randn<Scalar>({B, H, L, D}, 1), k = randn<Scalar>({B, kv_heads, M, D}, 2);
            const auto dense = batched_scores_vectorized(q, k, {.isa = name});
            // In a buffer of its own, with these strides.
            std::vector<tensor<Scalar>> buffers;
            buffers.reserve(16);
            const auto laid_out = [&](const shape4& n, const strides4& strides) {
                buffers.emplace_back(shape4{1, 1, 1, 3 * n[0] * n[1] * n[2] * n[3]});
                return tensor_view<Scalar>(buffers.back().data(), n, strides);
            };
            const auto copy = [&](const tensor<Scalar>& t, const strides4& strides) {
                const tensor_view<Scalar> view = laid_out(t.shape(), strides);
                for (std::ptrdiff_t b = 0; b < t.shape()[0]; ++b)
                    for (std::ptrdiff_t h = 0; h < t.shape()[1]; ++h) view.head(b, h) = t.head(b, h);
                return view;
            };
            const auto permuted = [](const shape4& n) { return strides4{n[1] * n[2] * n[3], n[3], n[1] * n[3], 1}; };
            const auto transposed = [](const shape4& n) { return strides4{n[1] * n[2] * n[3], n[2] * n[3], 1, n[2]}; };
            const auto spread = [](const shape4& n) {
                return strides4{3 * n[1] * n[2] * n[3], 3 * n[2] * n[3], 3 * n[3], 3};
            };
            const auto check = [&](const auto& how) {
                const tensor_view<Scalar> q_at = copy(q, how(q.shape())), k_at = copy(k, how(k.shape()));
                for (const auto& out_strides : {dense.strides(), how(dense.shape())})
                    for (const int threads : {1, 3}) {
                        buffers.resize(2);
                        const tensor_view<Scalar> out = laid_out(dense.shape(), out_strides);
                        batched_scores_vectorized(q_at, k_at, out,
                                                  {.threads = threads, .isa = name, .stores = stores::streaming});
                        std::ptrdiff_t wrong = 0;
                        for (std::ptrdiff_t b = 0; b < out.shape()[0]; ++b)
                            for (std::ptrdiff_t h = 0; h < out.shape()[1]; ++h)
                                for (std::ptrdiff_t l = 0; l < out.shape()[2]; ++l)
                                    for (std::ptrdiff_t m = 0; m < out.shape()[3]; ++m)
                                        wrong += !same_or_nan(out(b, h, l, m), dense(b, h, l, m));
                        CHECK(wrong == 0);
                    }
                buffers.clear();
            };
            check(permuted);
            check(transposed);
            check(spread);
        }
    });
}

TEST_CASE("nothing is read or written beyond operands and outputs that end at a protected page") {
    constexpr std::ptrdiff_t most = 70;
    on_every_target([]<class Scalar>(isa name, Scalar, bool) {
        const test::guarded<Scalar> q_memory(2 * most * most), k_memory(2 * most * most), out_memory(2 * most * most);
        const test::guarded<float> sums_memory(most * most);
        std::ptrdiff_t wrong = 0;
        for (const std::ptrdiff_t L : {1, 5, 15, 30})
            for (const std::ptrdiff_t M : {1, 3, 15, 17, 31, 32, 33, 65})
                for (const std::ptrdiff_t D : {1, 2, 7, 16, 31, 32, 33, 65})
                    for (const bool end : {false, true})
                        for (const int how : {0, 1, 2}) {  // dense, transposed, every second element
                            const auto at = [&](const test::guarded<Scalar>& memory, std::ptrdiff_t rows,
                                                std::ptrdiff_t columns) {
                                const strides4 strides = how == 0   ? strides4{0, 0, columns, 1}
                                                         : how == 1 ? strides4{0, 0, 1, rows}
                                                                    : strides4{0, 0, 2 * columns, 2};
                                const std::ptrdiff_t reach = how == 2 ? 2 * rows * columns - 1 : rows * columns;
                                return tensor_view<Scalar>(memory.place(reach, end), {1, 1, rows, columns}, strides);
                            };
                            const auto q = randn<Scalar>({1, 1, L, D}, 1), k = randn<Scalar>({1, 1, M, D}, 2);
                            const tensor_view<Scalar> q_at = at(q_memory, L, D), k_at = at(k_memory, M, D),
                                                      out = at(out_memory, L, M);
                            const tensor_view<float> sums(sums_memory.place(L * M, end), {1, 1, L, M});
                            q_at.head(0, 0) = q.head(0, 0);
                            k_at.head(0, 0) = k.head(0, 0);
                            batched_scores_vectorized(q_at, k_at, out, {.isa = name});
                            batched_scores_vectorized(q_at, k_at, sums, {.isa = name});
                            for (std::ptrdiff_t l = 0; l < L; ++l)
                                for (std::ptrdiff_t m = 0; m < M; ++m)
                                    wrong += !same_or_nan(out(0, 0, l, m), Scalar(sums(0, 0, l, m)));
                        }
        CHECK(wrong == 0);
    });
}

TEST_CASE("the loop sums in float, rounds once, and takes a float output") {
    const auto check = []<class Scalar>(Scalar) {
        for (const auto& [B, kv_heads, group, L, M, D] : shapes) {
            const auto q = randn<Scalar>({B, kv_heads * group, L, D}, 1), k = randn<Scalar>({B, kv_heads, M, D}, 2);
            tensor<float> sums(detail::scores_shape(q.shape(), k.shape()));
            batched_scores_loop(q, k, sums);
            CHECK(wrongly_rounded(batched_scores_loop(q, k), sums) == 0);
            if (group == 1) CHECK(test::mismatch(sums, widened(q), widened(k)) == "");
        }
    };
    check(bfloat16{});
    check(half{});
}

TEST_CASE("outputs are of the operands' type or, for sixteen bits, float; an overlap is refused whatever the types") {
    static_assert(product_output_for<tensor<float>&, bfloat16> && product_output_for<tensor<half>&, half>);
    static_assert(!product_output_for<tensor<half>&, bfloat16> && !product_output_for<tensor<double>&, half>);
    static_assert(!product_output_for<tensor<double>&, float> && !product_output_for<tensor<half>&, float>);
    tensor<float> buffer({1, 1, 8, 8});
    const tensor_view<bfloat16> inside(reinterpret_cast<bfloat16*>(buffer.data()), {1, 1, 8, 4});
    CHECK_THROWS_WITH(batched_scores_vectorized(inside, inside, buffer),
                      "out (1, 1, 8, 8) overlaps the memory of q (1, 1, 8, 4); the result needs memory of its own");
    tensor<bfloat16> out({1, 1, 3, 5});
    std::fill_n(out.data(), out.size(), bfloat16(7));
    batched_scores_vectorized(tensor<bfloat16>({1, 1, 3, 0}), tensor<bfloat16>({1, 1, 5, 0}), out);
    CHECK(differences(out, tensor<bfloat16>({1, 1, 3, 5})) == 0);
}

TEST_CASE("automatic takes the instruction for pairs where there is one; the workspace handed over is enough") {
    const auto q = randn<bfloat16>({1, 3, 40, 37}, 1), k = randn<bfloat16>({1, 3, 90, 37}, 2);
    const isa best = detail::choose_bfloat16_isa(isa::automatic);
    const tensor<float> expected = float_scores(q, k, {.isa = best});
    CHECK(differences(float_scores(q, k, {}), expected) == 0);
    on_every_target([&]<class Scalar>(isa name, Scalar, bool) {
        for (const std::ptrdiff_t L : {2, 40}) {
            const auto a = randn<Scalar>({1, 3, L, 37}, 1), b = randn<Scalar>({1, 3, 90, 37}, 2);
            tensor<Scalar> out({1, 3, L, 90});
            scores_options options{.isa = name};
            std::vector<std::byte> memory(scores_workspace_bytes(a, b, out, options) + 64, std::byte{0x5a});
            options.workspace = std::span(memory).first(memory.size() - 64);
            batched_scores_vectorized(a, b, out, options);
            CHECK(differences(out, batched_scores_vectorized(a, b, {.isa = name})) == 0);
            CHECK(std::all_of(memory.end() - 64, memory.end(), [](std::byte x) { return x == std::byte{0x5a}; }));
        }
    });
}

TEST_CASE("tensors of sixteen-bit values print and fill as others do") {
    std::ostringstream os;
    tensor<half> t({1, 1, 1, 2});
    t(0, 0, 0, 1) = half(2.5f);
    os << t << " | " << tensor<bfloat16>({1, 1, 1, 1});
    CHECK(os.str() ==
          "half tensor (1, 1, 1, 2), strides (2, 2, 2, 1): 0 2.5 | bfloat16 tensor (1, 1, 1, 1), strides (1, 1, 1, 1): "
          "0");
    const auto random = randn<bfloat16>({1, 1, 3, 5}, 9);
    const auto wide = randn<double>({1, 1, 3, 5}, 9);
    for (std::ptrdiff_t i = 0; i < 15; ++i)
        CHECK(bits(random.data()[i]) == bits(bfloat16(static_cast<float>(wide.data()[i]))));
}
