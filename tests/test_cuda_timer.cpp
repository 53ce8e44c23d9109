// The GPU timer, against a CUDA of our own that writes down what is asked of it.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "fake_cuda/cuda_runtime.h"

#include <headwise/harness/cuda_timer.hpp>
#include <headwise/harness/timers.hpp>

using namespace headwise;
using calls = std::vector<std::string>;

static_assert(timer_policy<cuda_event_timer>);

TEST_CASE("events are made when first recorded, with timing, and waited for before they are asked") {
    the_gpu = {};
    int stream = 0;
    {
        cuda_event_timer t(&stream);
        CHECK(the_gpu.calls.empty());
        the_gpu.time = 10;
        t.start();
        the_gpu.time = 12.5f;
        t.stop();
        CHECK(the_gpu.stream == &stream);
        CHECK(the_gpu.calls == calls{"create", "record", "create", "record"});
        the_gpu.time = 99;
        CHECK(t.elapsed_ms() == 2.5f);
        CHECK(the_gpu.calls.size() == 6);
        CHECK(the_gpu.calls[4] == "synchronise");
        CHECK(the_gpu.calls[5] == "elapsed");
        t.start();
        the_gpu.time = 100;
        t.stop();
        CHECK(t.elapsed_ms() == 1.0f);
        CHECK(the_gpu.created == 2);
    }
    CHECK(the_gpu.destroyed == 2);
}

TEST_CASE("a timer that was never started, or not stopped since, is refused without asking the GPU") {
    the_gpu = {};
    {
        cuda_event_timer t;
        CHECK_THROWS_WITH_AS((void)t.elapsed_ms(), "cuda_event_timer: elapsed_ms() needs start() and stop() before it",
                             std::invalid_argument);
        CHECK_THROWS_WITH_AS(t.stop(), "cuda_event_timer: stop() before start()", std::invalid_argument);
    }
    CHECK(the_gpu.calls.empty());
    cuda_event_timer t;
    t.start();
    CHECK_THROWS_AS((void)t.elapsed_ms(), std::invalid_argument);
    t.stop();
    (void)t.elapsed_ms();
    t.start();
    CHECK_THROWS_AS((void)t.elapsed_ms(), std::invalid_argument);
}

TEST_CASE("what CUDA says is passed on, and leaves the timer not recorded") {
    for (const char* call : {"create", "record", "synchronise", "elapsed"}) {
        the_gpu = {};
        the_gpu.failing = call;
        cuda_event_timer t;
        const auto measure = [&] {
            t.start();
            t.stop();
            (void)t.elapsed_ms();
        };
        CHECK_THROWS_AS(measure(), std::runtime_error);
        the_gpu.failing.clear();
        CHECK_NOTHROW(measure());
    }
    the_gpu = {};
    the_gpu.failing = "create";
    cuda_event_timer t;
    CHECK_THROWS_WITH_AS(t.start(), "cuda_event_timer: cudaEventCreateWithFlags: no CUDA-capable device is detected",
                         std::runtime_error);
    CHECK_THROWS_AS((void)t.elapsed_ms(), std::invalid_argument);
}
