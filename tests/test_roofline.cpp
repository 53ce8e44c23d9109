#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <headwise/harness/roofline.hpp>

using namespace headwise;
using doctest::Approx;

TEST_CASE("compute sets the limit where flops take longest") {
    const machine_limits machine{.flops = 200e9, .bytes_read = 50e9, .bytes_written = 25e9};
    const roofline_limit limit = limit_of({.flops = 400e9, .bytes_read = 10e9, .bytes_written = 5e9}, machine);
    CHECK(limit.seconds == Approx(2.0));
    CHECK_FALSE(limit.memory_bound);
    CHECK(limit.share(2.5) == Approx(0.8));
}

TEST_CASE("reading and writing add up where memory sets the limit") {
    const machine_limits machine{.flops = 200e9, .bytes_read = 50e9, .bytes_written = 25e9};
    const roofline_limit limit = limit_of({.flops = 100e9, .bytes_read = 100e9, .bytes_written = 50e9}, machine);
    CHECK(limit.seconds == Approx(4.0));
    CHECK(limit.memory_bound);
    CHECK(limit.share(4.0) == Approx(1.0));
}

TEST_CASE("the two sides meet at the ridge, which counts as compute") {
    const machine_limits machine{.flops = 100, .bytes_read = 10, .bytes_written = 10};
    const roofline_limit limit = limit_of({.flops = 100, .bytes_read = 10, .bytes_written = 0}, machine);
    CHECK(limit.seconds == 1.0);
    CHECK_FALSE(limit.memory_bound);
}

TEST_CASE("nothing to do takes no time, whatever was not measured") {
    CHECK(limit_of({}, machine_limits{}).seconds == 0.0);
    const roofline_limit limit = limit_of({.flops = 10}, {.flops = 10, .bytes_read = 0, .bytes_written = 0});
    CHECK(limit.seconds == 1.0);
}

TEST_CASE("intensity is flops per byte moved") {
    CHECK(work{.flops = 24, .bytes_read = 4, .bytes_written = 2}.intensity() == 4.0);
    CHECK(work{.flops = 24}.intensity() == std::numeric_limits<double>::infinity());
}

TEST_CASE_TEMPLATE("every FMA chain computes its own recurrence", Scalar, float, double) {
    // All chains on the widest target, checked by their sum: s -> s / 2 + 1, three times, from 1, 2, ... 12.
    std::vector<Scalar> seeds;
    Scalar expected = 0;
    for (int i = 0; i < detail::fma_chains; ++i) {
        seeds.push_back(static_cast<Scalar>(i + 1));
        expected += (static_cast<Scalar>(i + 1) / 2 + 1) / 4 + Scalar(1.5);
    }
    seeds.push_back(Scalar(0.5));
    seeds.push_back(Scalar(1));
    const detail::roofline_kernels& best = detail::best_roofline_kernels();
    for (const detail::roofline_kernels* kernels : {&best, &detail::roofline_portable::kernels}) {
        CAPTURE(kernels->instruction_set);
        if constexpr (sizeof(Scalar) == 4) CHECK(kernels->spin_float(3, seeds.data()) == expected);
        else CHECK(kernels->spin_double(3, seeds.data()) == expected);
    }
}

TEST_CASE("the traffic kernels touch all of their stretch, and nothing beyond") {
    constexpr std::size_t granule = detail::stretch_granule, count = 3 * granule;
    for (const detail::roofline_kernels* kernels :
         {&detail::best_roofline_kernels(), &detail::roofline_portable::kernels}) {
        CAPTURE(kernels->instruction_set);
        const auto run = [&](auto&& call, std::size_t stretch, float expected) {
            const probe_buffer buffer((count + granule) * sizeof(float));  // all ones
            float* const data = buffer.floats().data();
            call(data);
            detail::streaming_fence();
            for (std::size_t i = 0; i < count + granule; ++i) REQUIRE(data[i] == (i < stretch ? expected : 1.0f));
        };
        run([&](float* p) { kernels->write(p, count, 2, 5.0f); }, count, 6.0f);
        run([&](float* p) { kernels->streaming_write(p, count, 2, 5.0f); }, count, 6.0f);
        run([&](float* p) { kernels->triad(p, granule, 1, 0.5f); }, granule, 1.5f);
        const probe_buffer ones(count * sizeof(float));
        const auto lanes = static_cast<std::size_t>(kernels->float_lanes);
        CHECK(kernels->read(ones.floats().data(), count, 2) ==
              static_cast<float>(2 * count / lanes));  // lane 0's share
    }
}

TEST_CASE("measurements are positive and say what they measured") {
    const probe_options brief{.threads = 2, .budget = std::chrono::milliseconds(2)};
    const fma_peak peak = measure_fma_peak<float>(brief);
    CHECK(peak.flops_per_second > 0);
    CHECK(peak.threads == 2);
    for (const traffic kind : {traffic::read, traffic::write, traffic::streaming_write, traffic::triad}) {
        const bandwidth found = measure_bandwidth(kind, std::size_t{64} << 10, brief);
        CHECK(found.bytes_per_second > 0);
        CHECK(found.kind == kind);
        CHECK(found.working_set <= std::size_t{64} << 10);
        CHECK(found.working_set > std::size_t{32} << 10);
    }
    const machine_limits machine = measure_machine<double>(std::size_t{64} << 10, brief);
    CHECK(machine.flops > 0);
    CHECK(machine.bytes_read > 0);
    CHECK(machine.bytes_written > 0);
}

TEST_CASE("a buffer too small for its threads measures nothing rather than running over") {
    std::vector<float> few(8);
    CHECK(measure_bandwidth(traffic::triad, few, {.threads = 2}).bytes_per_second == 0);
}

TEST_CASE("with passes, the buffer is walked just so often, by the clock that is given") {
    static double seconds, looks;
    seconds = looks = 0;
    const probe_buffer buffer(std::size_t{64} << 10);
    const auto clock = [] { return ++looks, seconds += 2; };  // two seconds between two looks
    const bandwidth found = measure_bandwidth(traffic::triad, buffer.floats(), {.passes = 3, .now = clock});
    CHECK(looks == 2);
    CHECK(found.bytes_per_second == 3.0 * static_cast<double>(found.working_set) / 2);
    // a = b + f c over three stretches; each pass the same.
    CHECK(buffer.floats().front() == 1.5f);
    const auto tiny = [] { return ++looks, seconds += 1e-3; };
    looks = 0;
    CHECK(measure_bandwidth(traffic::write, buffer.floats(), {.budget = std::chrono::milliseconds(10), .now = tiny})
              .bytes_per_second > 0);
    CHECK(looks > 10);
}
