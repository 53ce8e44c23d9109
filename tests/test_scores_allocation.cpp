// A call in the steady state allocates nothing: every operator new of the program is counted.
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/scores.hpp>

#include "counted_allocations.hpp"
#include "inline_pool.hpp"
#include "layouts.hpp"

using namespace headwise;
using test::inline_pool;

namespace {

template <class Body>
long allocations_of(const Body& body) {
    const long before = allocations.load();
    body();
    return allocations.load() - before;
}

struct call_case {
    const char* name;
    std::ptrdiff_t B, H, L, M, D;
    test::layout q = {}, k = {}, out = {};
    stores how = stores::automatic;
};

/// Every way through the kernels.
std::vector<call_case> cases() {
    const test::layout blhd{.name = "(b,l,h,d)", .order = {0, 2, 1, 3}}, spread{.name = "every second", .step = 2};
    const test::layout page{.name = "rows 4096 bytes apart", .gap = 1024 - 64};
    return {{"few rows", 2, 3, 5, 300, 33},
            {"packed", 2, 3, 40, 200, 64},
            {"odd columns", 2, 3, 49, 49, 32},
            {"several blocks of columns", 1, 1, 20, 5000, 64},
            {"(b,l,h,d)", 2, 3, 40, 200, 64, blhd, blhd, blhd},
            {"few rows, d not contiguous", 2, 3, 5, 33, 16, spread, spread, spread},
            {"nothing contiguous", 2, 3, 40, 200, 64, spread, spread, spread},
            {"rows 4096 bytes apart", 2, 3, 40, 100, 64, page, page},
            {"streaming", 2, 3, 48, 256, 64, {}, {}, {}, stores::streaming}};
}

template <class Scalar>
struct prepared {
    test::laid_out<Scalar> q, k, out;
    explicit prepared(const call_case& c)
        : q(randn<Scalar>({c.B, c.H, c.L, c.D}, 1), c.q),
          k(randn<Scalar>({c.B, c.H, c.M, c.D}, 2), c.k),
          out(shape4{c.B, c.H, c.L, c.M}, c.out) {}
    void compute(const scores_options& options) const {
        batched_scores_vectorized(q.view(), k.view(), out.view(), options);
    }
};

template <class Scalar>
void check_single_thread() {
    for (const isa name : supported_isas())
        for (const call_case& c : cases()) {
            CAPTURE(to_string(name));
            CAPTURE(c.name);
            const prepared<Scalar> data(c);
            const scores_options options{.scale = 0.5, .isa = name, .stores = c.how};
            data.compute(options);
            CHECK(allocations_of([&] { data.compute(options); }) == 0);
        }
}

HEADWISE_NOINLINE void call(const std::function<void()>& f) { f(); }

}  // namespace

TEST_CASE("the counter counts") {
    CHECK(allocations_of([] { ::operator delete(::operator new(8)); }) == 1);
    CHECK(allocations_of([] { const tensor<float> aligned({1, 1, 1, 9}); }) == 1);
}

TEST_CASE("one thread: a call after the first allocates nothing, on any path") {
    check_single_thread<float>();
    check_single_thread<double>();
}

TEST_CASE("one thread: nor do groups, nor sixteen-bit operands") {
    const auto check = []<class Scalar>(Scalar) {
        for (const isa name : {isa::baseline, isa::avx2, isa::avx512, isa::neon, isa::avx512_bf16}) {
            if (!supports(name)) continue;
            for (const std::ptrdiff_t L : {1, 2, 30}) {
                const auto q = randn<Scalar>({2, 4, L, 40}, 1), k = randn<Scalar>({2, 2, 200, 40}, 2);
                tensor<Scalar> out({2, 4, L, 200});
                batched_scores_vectorized(q, k, out, {.isa = name});
                CHECK(allocations_of([&] { batched_scores_vectorized(q, k, out, {.isa = name}); }) == 0);
            }
        }
    };
    check(float{});
    check(Eigen::bfloat16{});
    check(Eigen::half{});
}

TEST_CASE("one thread: what was allocated for the largest call serves all smaller ones, of either type") {
    const prepared<double> large({"large", 1, 1, 40, 5000, 64});
    const prepared<float> small({"small", 1, 2, 20, 30, 64});
    large.compute({});
    CHECK(allocations_of([&] {
              small.compute({});
              large.compute({});
          }) == 0);
}

TEST_CASE(
    "threads: a call allocates what its threads share, and what a std::function a task and the pool's queue ask for") {
    constexpr long shared = 1;
    const auto owner = std::make_shared<int>();  // such a pointer is what a task holds
    const long function_allocates = allocations_of([&] { call([owner] { static_cast<void>(owner); }); });
    const prepared<float> packed({"packed", 4, 4, 128, 256, 64}), few({"few rows", 4, 8, 4, 2000, 64});
    for (const prepared<float>* data : {&packed, &few})
        for (const int threads : {2, 3, 8}) {
            CAPTURE(threads);
            inline_pool pool;
            data->compute({.threads = threads, .pool = &pool});
            const int scheduled = pool.scheduled;
            CHECK(scheduled > 0);
            CHECK(scheduled < threads);
            CHECK(allocations_of([&] { data->compute({.threads = threads, .pool = &pool}); }) <=
                  shared + scheduled * function_allocates);

            // Eigen's own pool (3.4) adds its own for each task: one.
            Eigen::ThreadPool eigen(2);
            data->compute({.threads = threads, .pool = &eigen});
            CHECK(allocations_of([&] { data->compute({.threads = threads, .pool = &eigen}); }) <=
                  shared + scheduled * (function_allocates + 1));
        }
}

TEST_CASE("threads of the shared pool: nothing but a task for each that has to be woken") {
    const prepared<float> packed({"packed", 4, 4, 128, 256, 64});
    packed.compute({.threads = 2});
    for (int time = 0; time < 100; ++time)
        CHECK(allocations_of([&] { packed.compute({.threads = 2}); }) <= 1);  // Eigen's own (3.4), for the task
}

TEST_CASE("a call too small for a second thread schedules nothing, whatever it is offered") {
    inline_pool pool;
    for (const std::ptrdiff_t rows : {4, 30}) {
        const prepared<float> small({"small", 1, 2, rows, 40, 64});
        small.compute({.threads = 8, .pool = &pool});
        CHECK(allocations_of([&] { small.compute({.threads = 8, .pool = &pool}); }) == 0);
    }
    CHECK(pool.scheduled == 0);
}
