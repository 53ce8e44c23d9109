// Where does the time go? 16 new tokens look at a cache of 4096 keys, and the first table says what to change.
#define HEADWISE_COUNT_ALLOCATIONS  // in one file of a program: its operator new and delete count
#include <headwise/harness/memory_hooks.hpp>

#include <cstddef>
#include <iostream>
#include <headwise/harness/profiler.hpp>
#include <headwise/harness/roofline.hpp>
#include <headwise/headwise.hpp>

using namespace headwise;

constexpr std::ptrdiff_t H = 16, L = 16, M = 4096, D = 64;
constexpr work scoring{
    .flops = 2.0 * H * L * M * D, .bytes_read = 4.0 * H * (L + M) * D, .bytes_written = 4.0 * H * L * M};
constexpr work copying{.bytes_read = 4.0 * H * M * D, .bytes_written = 4.0 * H * M * D};

/// The planted bottleneck: k put in the order of the heads, each time into fresh memory, by steps that never stay in a
/// cache line.
tensor<float> copied(const tensor_view<const float>& k) {
    HEADWISE_SCOPE("copy k", copying);
    tensor<float> copy(k.shape());
    for (std::ptrdiff_t d = 0; d < D; ++d)
        for (std::ptrdiff_t m = 0; m < M; ++m)
            for (std::ptrdiff_t h = 0; h < H; ++h) copy(0, h, m, d) = k(0, h, m, d);
    return copy;
}

/// A table of ten steps.
template <class Step>
void show(const char* title, const machine_limits& limits, const Step& step) {
    profile p;
    for (int i = 0; i < 10; ++i) {
        HEADWISE_SCOPE("step");
        step();
    }
    std::cout << title << "\n\n" << p.table({.limits = limits}) << '\n';
}

int main() {
    const auto q = randn<float>({1, H, L, D}, 1), cache = randn<float>({1, M, H, D}, 2);  // the cache is (b, l, h, d)
    const tensor_view<const float> k(cache.data(), {1, H, M, D}, {0, D, H * D, 1});
    tensor<float> out({1, H, L, M});
    const auto loop = [&](const auto& keys) {
        HEADWISE_SCOPE("scores, loop", scoring);
        batched_scores_loop(q, keys, out);
    };
    const auto fused = [&] {
        HEADWISE_SCOPE("scores, fused", scoring);
        batched_scores_vectorized(q, k, out);
    };
    const machine_limits limits = measure_machine<float>(sizeof(float) * H * (L * D + M * D + L * M));
    show("As it was written: most of the time is a copy's, and all of the memory.", limits, [&] { loop(copied(k)); });
    show("A view with strides needs no copy. What is left is the loop.", limits, [&] { loop(k); });
    show("Fused, on the same view. 'of limit' says how much there is left to find.", limits, fused);

    const scope_cost cost = measure_scope_cost();
    std::cout << "a scope costs " << cost.scope_ns << " ns, of which two readings of the clock " << cost.two_readings_ns
              << " ns\n";
}
