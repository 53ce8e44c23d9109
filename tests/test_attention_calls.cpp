// What attention promises of its calls: the same bits for any threads, batch, group, strides and memory; nothing
// touched beside its arguments; blocks that nobody sees not touched at all; what it refuses.
#include <headwise/attention.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>

#include "bits.hpp"
#include "guarded.hpp"
#include "layouts.hpp"
#include "refusal.hpp"

using namespace headwise;
using test::on_every_target;

namespace {

template <class Scalar>
bool same_bits(const tensor_view<const Scalar>& a, const tensor_view<const Scalar>& b) {
    if (a.shape() != b.shape()) return false;
    const auto [B, H, L, M] = a.shape();
    for (std::ptrdiff_t i = 0; i < B; ++i)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = 0; m < M; ++m)
                    if (std::memcmp(&a(i, h, l, m), &b(i, h, l, m), sizeof(Scalar)) != 0) return false;
    return true;
}
template <class Scalar>
bool same_bits(const tensor<Scalar>& a, const tensor<Scalar>& b) {
    return same_bits<Scalar>(a.view(), b.view());
}

template <class Scalar>
tensor_view<const Scalar> heads(const tensor<Scalar>& t, std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t count) {
    return {&t(b, h, 0, 0), {1, count, t.shape()[2], t.shape()[3]}, t.strides()};
}

}  // namespace

TEST_CASE("threads, the batch and the group change no bit; nor does a pool of the caller's") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        for (const std::ptrdiff_t L : {1, 3, 100})
            for (const bool causal : {false, true}) {
                CAPTURE(L);
                CAPTURE(causal);
                const auto q = randn<Scalar>({2, 6, L, 40}, 1), k = randn<Scalar>({2, 2, 1300, 40}, 2),
                           v = randn<Scalar>({2, 2, 1300, 72}, 3);
                tensor<Scalar> lse({2, 6, L, 1}), other({2, 6, L, 1}), single({1, 1, L, 1});
                attention_options<Scalar> options{.causal = causal, .window = {700, -1}, .lse = lse, .isa = name};
                const auto weights = attention_weights(q, k, options);
                const auto expected = attention(q, k, v, options);
                Eigen::ThreadPool pool(2);
                for (const int threads : {2, 3, 0})
                    for (thread_pool* const p :
                         {static_cast<thread_pool*>(nullptr), static_cast<thread_pool*>(&pool)}) {
                        options.threads = threads;
                        options.pool = p;
                        options.lse = other;
                        CHECK(same_bits(attention(q, k, v, options), expected));
                        CHECK(same_bits(other, lse));
                        CHECK(same_bits(attention_weights(q, k, options), weights));
                    }
                options.threads = 1;
                options.lse = single;
                const auto alone = attention(heads(q, 1, 4, 1), heads(k, 1, 1, 1), heads(v, 1, 1, 1), options);
                CHECK(same_bits<Scalar>(alone.view(), heads(expected, 1, 4, 1)));
                CHECK(same_bits<Scalar>(single.view(), heads(lse, 1, 4, 1)));
            }
    });
}

TEST_CASE("any strides, gaps and alignment give the bits of dense data, and nothing beside them is read or written") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        auto layouts = test::layouts();
        layouts.push_back({.name = "rows 4096 bytes apart", .gap = 4096 / std::ptrdiff_t{sizeof(Scalar)} - 21});
        for (const std::ptrdiff_t L : {5, 30}) {
            const auto q = randn<Scalar>({2, 2, L, 21}, 1), k = randn<Scalar>({2, 1, 37, 21}, 2),
                       v = randn<Scalar>({2, 1, 37, 24}, 3), bias = randn<Scalar>({2, 2, L, 37}, 4);
            tensor<bool> mask({2, 2, L, 37});
            for (std::ptrdiff_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 5 != 0;
            tensor<Scalar> lse({2, 2, L, 1});
            const auto dense = attention(q, k, v, {.mask = mask, .bias = bias, .lse = lse, .isa = name});
            const auto weights = attention_weights(q, k, {.mask = mask, .bias = bias, .isa = name});
            for (const test::layout& how : layouts) {
                CAPTURE(L);
                CAPTURE(how.name);
                const test::laid_out<Scalar> q_at(q, how), k_at(k, how), v_at(v, how), bias_at(bias, how),
                    out(dense.shape(), how), lse_at(lse.shape(), how), w_at(weights.shape(), how);
                const test::laid_out<bool> mask_at(mask, how);
                const attention_options<Scalar> options{
                    .mask = mask_at.view(), .bias = bias_at.view(), .lse = lse_at.view(), .isa = name};
                attention(q_at.view(), k_at.view(), v_at.view(), out.view(), options);
                attention_weights(q_at.view(), k_at.view(), w_at.view(), options);
                if (L > 4) {  // at most that many rows are summed in another order where k has unit stride
                    CHECK(same_bits<Scalar>(out.view(), dense.view()));
                    CHECK(same_bits<Scalar>(lse_at.view(), lse.view()));
                }
                CHECK(same_bits<Scalar>(w_at.view(), weights.view()));
                CHECK(out.written() == dense.size());
                CHECK(lse_at.written() == lse.size());
                CHECK(w_at.written() == weights.size());
            }
        }
    });
}

TEST_CASE("operands that end, or begin, at a protected page") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        const test::guarded<Scalar> q_memory(4000), k_memory(50000), v_memory(50000), out_memory(20000),
            bias_memory(20000), lse_memory(64);
        const test::guarded<bool> mask_memory(20000);
        for (const std::ptrdiff_t L : {1, 4, 17, 30})
            for (const std::ptrdiff_t M : {1, 5, 33, 300, 530})
                for (const std::ptrdiff_t D : {1, 7, 16, 33})
                    for (const bool end : {true, false}) {
                        if (D == 33 && L < 17 && M > 300) continue;
                        CAPTURE(detail::text_of({L, M, D, end}));
                        const std::ptrdiff_t Dv = D + 2;
                        const auto place = [&]<class T>(const test::guarded<T>& memory, const tensor<T>& values) {
                            T* const at = memory.place(values.size(), end);
                            std::copy_n(values.data(), values.size(), at);
                            return tensor_view<T>(at, values.shape());
                        };
                        const auto q = randn<Scalar>({1, 1, L, D}, 1), k = randn<Scalar>({1, 1, M, D}, 2),
                                   v = randn<Scalar>({1, 1, M, Dv}, 3), bias = randn<Scalar>({1, 1, L, M}, 4);
                        tensor<bool> mask({1, 1, L, M});
                        for (std::ptrdiff_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 5 != 0;
                        const attention_options<Scalar> options{.window = {M / 2, -1},
                                                                .softcap = 3,
                                                                .mask = place(mask_memory, mask),
                                                                .bias = place(bias_memory, bias),
                                                                .lse = place(lse_memory, tensor<Scalar>({1, 1, L, 1})),
                                                                .isa = name};
                        const auto q_at = place(q_memory, q), k_at = place(k_memory, k), v_at = place(v_memory, v);
                        const auto out = place(out_memory, tensor<Scalar>({1, 1, L, Dv}));
                        attention(q_at, k_at, v_at, out, options);
                        attention_options<Scalar> same{
                            .window = {M / 2, -1}, .softcap = 3, .mask = mask, .bias = bias, .isa = name};
                        const auto expected = attention(q, k, v, same);
                        REQUIRE(same_bits<Scalar>(out, expected.view()));
                        const auto weights = place(out_memory, tensor<Scalar>({1, 1, L, M}));
                        attention_weights(q_at, k_at, weights, options);
                        const auto expected_weights = attention_weights(q, k, same);
                        REQUIRE(same_bits<Scalar>(weights, expected_weights.view()));
                    }
    });
}

#if defined(HEADWISE_TEST_GUARD_PAGES)
TEST_CASE("blocks of keys that no row sees are not touched") {
    on_every_target([]<class Scalar>(isa name, Scalar) {
        // Of 5000 keys the first, or the last, 1024 can be read; of the rest not one.
        const std::ptrdiff_t M = 5000, open = 1024;
        for (const std::ptrdiff_t L : {3, 40})
            for (const bool left : {true, false}) {
                CAPTURE(L);
                CAPTURE(left);
                const test::guarded<Scalar> k_memory(open * 64), v_memory(open * 64);
                const auto k = randn<Scalar>({1, 1, open, 64}, 2), v = randn<Scalar>({1, 1, open, 64}, 3),
                           q = randn<Scalar>({1, 1, L, 64}, 1);
                const auto place = [&](const test::guarded<Scalar>& memory, const tensor<Scalar>& values) {
                    Scalar* const at = memory.place(values.size(), left);
                    std::copy_n(values.data(), values.size(), at);
                    return tensor_view<const Scalar>(left ? at : at - (M - open) * 64, {1, 1, M, 64});
                };
                attention_options<Scalar> options{.causal = true, .isa = name};
                options.alignment = left ? causal_alignment::top_left : causal_alignment::bottom_right;
                if (!left) options.window.left = 100;
                const auto out = attention(q, place(k_memory, k), place(v_memory, v), options);
                const auto expected =
                    attention_loop(q, k, v, {.causal = true, .alignment = options.alignment, .window = options.window});
                for (std::ptrdiff_t i = 0; i < out.size(); ++i)
                    REQUIRE(out.data()[i] == doctest::Approx(static_cast<double>(expected.data()[i])).epsilon(1e-4));
            }
    });
}
#endif

TEST_CASE("a workspace handed over is used as it is; one too small is refused before anything is written") {
    for (const std::ptrdiff_t L : {2, 40})
        for (const int threads : {1, 3}) {
            const auto q = randn<float>({2, 6, L, 64}, 1), k = randn<float>({2, 3, 700, 64}, 2),
                       v = randn<float>({2, 3, 700, 64}, 3);
            const auto expected = attention(q, k, v);
            tensor<float> out(expected.shape());
            attention_options<float> options{.threads = threads};
            const std::size_t needed = attention_workspace_bytes(q, k, v, out, options);
            REQUIRE(needed > 0);
            std::vector<std::byte> memory(needed + 32, std::byte{0x5a});
            for (const std::size_t offset : {0u, 4u}) {
                std::fill_n(out.data(), out.size(), 0.0f);
                options.workspace = std::span(memory).subspan(offset, needed);
                attention(q, k, v, out, options);
                CHECK(same_bits(out, expected));
                CHECK(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(offset + needed), memory.end(),
                                  [](std::byte b) { return b == std::byte{0x5a}; }));
            }
            std::fill_n(out.data(), out.size(), 7.0f);
            options.workspace = std::span(memory).first(needed - 1);
            CHECK_THROWS_WITH(attention(q, k, v, out, options), ("options.workspace has " + std::to_string(needed - 1) +
                                                                 " bytes; this call needs " + std::to_string(needed))
                                                                    .c_str());
            CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 7.0f; }));
        }
}

TEST_CASE("as many keys as can be counted, without depth or values: nothing to write, no sum that overflows") {
    constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max();
    const auto range = detail::visible_of<float>({}, 1, most);
    CHECK(range.left == most);
    CHECK(range.right == most);
    const tensor<float> q({1, 1, 1, 0}), keys({1, 1, most, 0});
    tensor<float> out({1, 1, 1, 0});
    CHECK(test::refusal([&] { attention(q, keys, keys, out); }) == "nothing was refused");
}

TEST_CASE("weights and logits: their own size of a workspace is enough, and a byte less is not") {
    const auto q = randn<float>({2, 6, 40, 64}, 1), k = randn<float>({2, 3, 700, 64}, 2);
    const auto weights = attention_weights(q, k), logits = attention_logits(q, k);
    tensor<float> out(weights.shape()), lse({2, 6, 40, 1});
    for (const int threads : {1, 3}) {
        attention_options<float> options{.threads = threads, .lse = lse};
        const std::size_t needed = attention_weights_workspace_bytes(q, k, out, options);
        REQUIRE(needed > 0);
        std::vector<std::byte> memory(needed);
        options.workspace = memory;
        attention_weights(q, k, out, options);
        CHECK(same_bits(out, weights));
        attention_logits(q, k, out, options);
        CHECK(same_bits(out, logits));
        options.workspace = std::span(memory).first(needed - 1);
        const std::string message =
            "options.workspace has " + std::to_string(needed - 1) + " bytes; this call needs " + std::to_string(needed);
        CHECK_THROWS_WITH(attention_weights(q, k, out, options), message.c_str());
        CHECK_THROWS_WITH(attention_logits(q, k, out, options), message.c_str());
    }
    tensor<float> none({2, 6, 40, 0});
    CHECK(attention_weights_workspace_bytes(q, tensor<float>({2, 3, 0, 64}), none) == 0);
}

TEST_CASE("memory does not grow with L times M: at 16384 below 64 MiB for eight threads") {
    float element = 0;  // only the shapes count
    const std::ptrdiff_t n = 16384;
    const auto dense = [&](std::ptrdiff_t heads_, std::ptrdiff_t rows) {
        return tensor_view<float>(&element, {1, heads_, rows, 128}, {0, 0, 0, 0});
    };
    const tensor_view<float> out(reinterpret_cast<float*>(std::uintptr_t{1} << 32), {1, 8, n, 128});
    CHECK(attention_workspace_bytes(dense(8, n), dense(8, n), dense(8, n), out, {.threads = 8}) < std::size_t{64}
                                                                                                      << 20);
    CHECK(attention_workspace_bytes(dense(8, n), dense(8, n), dense(8, n), out) < std::size_t{8} << 20);
}

TEST_CASE("what does not fit is refused by name, and the output is left as it was") {
    tensor<float> buffer({1, 1, 1, 8000});
    std::fill_n(buffer.data(), buffer.size(), 7.0f);
    const auto at = [&](std::ptrdiff_t first, const shape4& shape) {
        return tensor_view<float>(buffer.data() + first, shape);
    };
    const auto q = at(0, {2, 4, 3, 5}), k = at(200, {2, 2, 6, 5}), v = at(400, {2, 2, 6, 7}),
               out = at(1000, {2, 4, 3, 7}), weights = at(2000, {2, 4, 3, 6});
    const tensor<bool> mask({2, 4, 3, 5});
    const auto refuses = [&](const std::string& why, const auto& call) {
        const std::string message = test::refusal(call);
        CAPTURE(message);
        CAPTURE(why);
        CHECK(message.find(why) != std::string::npos);
        CHECK(std::all_of(buffer.data(), buffer.data() + buffer.size(), [](float x) { return x == 7.0f; }));
    };
    /// The same refusal of the fused routine and of the loop.
    const auto both = [&](const std::string& why, const auto& q_, const auto& k_, const auto& v_, const auto& out_,
                          const attention_options<float>& options = {}) {
        refuses(why, [&] { attention(q_, k_, v_, out_, options); });
        refuses(why, [&] { attention_loop(q_, k_, v_, out_, options); });
    };
    both("q (1, 4, 3, 5) and k (2, 2, 6, 5) must have the same batch size B (axis 0)", at(0, {1, 4, 3, 5}), k, v, out);
    both("q (2, 4, 3, 6) and k (2, 2, 6, 5) must have the same depth D (axis 3)", at(0, {2, 4, 3, 6}), k, v, out);
    both("q (2, 3, 3, 5) and k (2, 2, 6, 5): the number of heads H (axis 1) of q must be a multiple of that of k",
         at(0, {2, 3, 3, 5}), k, v, out);
    both("must be a multiple of that of k", q, at(200, {2, 0, 6, 5}), at(400, {2, 0, 6, 7}), out);
    both("k (2, 2, 6, 5) and v (2, 2, 5, 7) must have the same extents but the last", q, k, at(400, {2, 2, 5, 7}), out);
    both("out (2, 4, 3, 6) must have the shape of the result, (2, 4, 3, 7)", q, k, v, at(1000, {2, 4, 3, 6}));
    both("overlap one another", q, k, v, tensor_view<float>(buffer.data() + 1000, {2, 4, 3, 7}, {84, 21, 6, 1}));
    both("out (2, 4, 3, 7) overlaps the memory of q", q, k, v, at(119, {2, 4, 3, 7}));
    both("out (2, 4, 3, 7) overlaps the memory of k", q, at(1100, {2, 2, 6, 5}), v, out);
    both("out (2, 4, 3, 7) overlaps the memory of v", q, k, at(1100, {2, 2, 6, 7}), out);
    both("options.threads = -1: must be >= 0 (0: all)", q, k, v, out, {.threads = -1});
    both("options.scale = inf: must be finite", q, k, v, out, {.scale = std::numeric_limits<double>::infinity()});
    both("options.scale = " + std::to_string(-1e39) + ": must be finite as a float, too", q, k, v, out,
         {.scale = -1e39});
    both("options.softcap: too great for the floats that are capped", q, k, v, out, {.softcap = 1e39});
    both("options.softcap: too small for the floats that are capped", q, k, v, out, {.softcap = 1e-46});
    both("options.softcap = -1.000000: must be positive and finite, or 0 for none", q, k, v, out, {.softcap = -1});
    both("options.softcap = nan", q, k, v, out, {.softcap = std::numeric_limits<double>::quiet_NaN()});
    both("options.window = {-2, 3}: each must be >= 0, or -1 for all the way", q, k, v, out, {.window = {-2, 3}});
    both("options.window = {0, -7}", q, k, v, out, {.window = {0, -7}});
    both("options.mask (2, 4, 3, 5) must have the shape (B, Hq, L, M) = (2, 4, 3, 6), or 1 on an axis", q, k, v, out,
         {.mask = mask});
    both("options.bias (2, 2, 3, 6) must have the shape", q, k, v, out, {.bias = at(3000, {2, 2, 3, 6})});
    both("options.lse (2, 4, 3, 6) must have the shape (B, Hq, L, 1) = (2, 4, 3, 1)", q, k, v, out,
         {.lse = at(3000, {2, 4, 3, 6})});
    both("options.lse (2, 4, 3, 1) with strides (0, 3, 1, 1): its elements overlap", q, k, v, out,
         {.lse = tensor_view<float>(buffer.data() + 3000, {2, 4, 3, 1}, {0, 3, 1, 1})});
    both("options.lse (2, 4, 3, 1) overlaps the memory of v", q, k, v, out, {.lse = at(410, {2, 4, 3, 1})});
    both("out (2, 4, 3, 7) overlaps the memory of options.lse", q, k, v, out, {.lse = at(1010, {2, 4, 3, 1})});
    both("out (2, 4, 3, 7) overlaps the memory of options.bias", q, k, v, out, {.bias = at(1010, {1, 1, 3, 6})});
    refuses("out (2, 4, 3, 7) must have the shape of the result, (2, 4, 3, 6)", [&] { attention_weights(q, k, out); });
    refuses("options.bias (2, 2, 3, 6) must have", [&] {
        attention_logits(q, k, weights, {.bias = at(3000, {2, 2, 3, 6})});
    });
    refuses("overlaps the memory of k", [&] { attention_logits(q, k, at(200, {2, 4, 3, 6})); });
    for (const isa name : {isa::baseline, isa::avx2, isa::avx512, isa::neon}) {
        const auto known = supported_isas();
        if (std::find(known.begin(), known.end(), name) == known.end())
            refuses("this machine has", [&] { attention(q, k, v, out, {.isa = name}); });
    }
}
