// Calls of the fused scores: callers side by side, pools, workspaces, and what is refused.
#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores.hpp>

#include "bits.hpp"

using namespace headwise;
using test::same_bits;

TEST_CASE("two callers at once, each with threads of their own") {
    const auto q = randn<float>({4, 4, 128, 64}, 1), k = randn<float>({4, 4, 256, 64}, 2);
    const auto expected = batched_scores_vectorized(q, k);
    std::vector<tensor<float>> results(4);
    std::vector<std::thread> callers;
    for (tensor<float>& result : results)
        callers.emplace_back([&] {
            for (int i = 0; i < 20; ++i) result = batched_scores_vectorized(q, k, {.threads = 2});
        });
    for (std::thread& caller : callers) caller.join();
    for (const tensor<float>& result : results) CHECK(same_bits(result, expected));
}

TEST_CASE("a pool that the caller hands over, and a call from inside its task") {
    Eigen::ThreadPool pool(2);
    const auto q = randn<float>({4, 4, 128, 64}, 1), k = randn<float>({4, 4, 256, 64}, 2);
    const auto expected = batched_scores_vectorized(q, k);
    CHECK(same_bits(expected, batched_scores_vectorized(q, k, {.threads = 3, .pool = &pool})));
    for (const int workers : {1, 2}) {  // a pool of one would wait for itself for ever
        Eigen::ThreadPool busy(workers);
        tensor<float> inside;
        Eigen::Barrier done(1);
        busy.Schedule([&] {
            inside = batched_scores_vectorized(q, k, {.threads = 3, .pool = &busy});
            done.Notify();
        });
        done.Wait();
        CHECK(same_bits(expected, inside));
    }
}

TEST_CASE("what the options may not be") {
    const tensor<float> q({1, 1, 2, 3}), k({1, 1, 2, 3});
    CHECK_THROWS_WITH(static_cast<void>(batched_scores_vectorized(q, k, {.threads = -1})),
                      "options.threads = -1: must be >= 0 (0: all)");
    for (const isa name : {isa::baseline, isa::avx2, isa::avx512, isa::neon}) {
        const auto known = supported_isas();
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        for (int time = 0; time < 2; ++time)  // a refusal is not remembered
            CHECK_THROWS_AS(static_cast<void>(batched_scores_vectorized(q, k, {.isa = name})), std::invalid_argument);
    }
    CHECK(parse_isa("avx2") == isa::avx2);
    CHECK_THROWS_WITH(static_cast<void>(parse_isa("sse9")),
                      "isa 'sse9' is none of automatic, baseline, avx2, avx512, neon, avx512_bf16");
}

TEST_CASE("shapes that do not fit and an output that overlaps are refused, and the output is left as it was") {
    tensor<float> buffer({1, 1, 1, 4000});
    std::fill_n(buffer.data(), buffer.size(), 7.0f);
    const auto at = [&](std::ptrdiff_t first, const shape4& shape) {
        return tensor_view<float>(buffer.data() + first, shape);
    };
    const auto q = at(0, {2, 3, 4, 5}), k = at(200, {2, 3, 6, 5}), out = at(1000, {2, 3, 4, 6});
    const auto refuses = [&](const auto& a, const auto& b, const auto& result, const std::string& why) {
        std::string message;
        try {
            batched_scores_vectorized(a, b, result);
        } catch (const std::invalid_argument& error) {
            message = error.what();
        }
        CAPTURE(message);
        CHECK(message.find(why) != std::string::npos);
        CHECK(std::all_of(buffer.data(), buffer.data() + buffer.size(), [](float x) { return same_bits(x, 7.0f); }));
    };
    refuses(at(0, {1, 3, 4, 5}), k, out, "batch size B (axis 0)");
    refuses(at(0, {2, 2, 4, 5}), k, out, "number of heads H (axis 1)");
    refuses(at(0, {2, 3, 4, 6}), k, out, "depth D (axis 3)");
    refuses(q, k, at(1000, {2, 3, 6, 4}), "out (2, 3, 6, 4) must have the shape of the result, (2, 3, 4, 6)");
    refuses(q, k, tensor_view<float>(buffer.data() + 1000, {2, 3, 4, 6}, {72, 24, 5, 1}), "overlap one another");
    refuses(q, k, at(119, {2, 3, 4, 6}), "overlaps the memory of q");
    refuses(q, k, at(379, {2, 3, 4, 6}), "overlaps the memory of k");
    batched_scores_vectorized(q, k, at(380, {2, 3, 4, 6}));  // beside k
}

TEST_CASE("a workspace handed over is used as it is; one too small is refused before anything is written") {
    const auto q = randn<float>({2, 3, 40, 64}, 1), k = randn<float>({2, 3, 200, 64}, 2);
    const auto expected = batched_scores_vectorized(q, k);
    for (const int threads : {1, 3}) {
        CAPTURE(threads);
        tensor<float> out(expected.shape());
        scores_options options{.threads = threads};
        const std::size_t needed = scores_workspace_bytes(q, k, out, options);
        REQUIRE(needed > 0);
        std::vector<std::byte> memory(needed + 32, std::byte{0x5a});
        for (const std::size_t offset : {0u, 4u}) {
            std::fill_n(out.data(), out.size(), 0.0f);
            options.workspace = std::span(memory).subspan(offset, needed);
            batched_scores_vectorized(q, k, out, options);
            CHECK(same_bits(out, expected));
            CHECK(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(offset + needed), memory.end(),
                              [](std::byte b) { return b == std::byte{0x5a}; }));
        }
        std::fill_n(out.data(), out.size(), 7.0f);
        options.workspace = std::span(memory).first(needed - 1);
        CHECK_THROWS_WITH(batched_scores_vectorized(q, k, out, options),
                          ("options.workspace has " + std::to_string(needed - 1) + " bytes; this call needs " +
                           std::to_string(needed))
                              .c_str());
        CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 7.0f; }));
    }
    tensor<float> small_out({1, 1, 4, 4});
    CHECK(scores_workspace_bytes(tensor<float>({1, 1, 4, 8}), tensor<float>({1, 1, 4, 8}), small_out) == 0);
}

TEST_CASE("one head of many rows and few columns is cut by rows; threads change no bit") {
    Eigen::ThreadPool pool(3);
    const auto q = randn<float>({1, 1, 20000, 64}, 1), k = randn<float>({1, 1, 16, 64}, 2);
    const tensor<float> alone = batched_scores_vectorized(q, k);
    const tensor<float> shared = batched_scores_vectorized(q, k, {.threads = 4, .pool = &pool});
    CHECK(std::equal(alone.data(), alone.data() + alone.size(), shared.data()));
}
