// e^x and tanh of the kernels on every target: how far from the exact values, and what happens at the edges.
// HEADWISE_TEST_EVERY_FLOAT=1 tries every float of the range instead of every 97th: some 1.1e9 of them.
#include <headwise/attention.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

// A region for each target; what is called in it must be inlined or belong to it.
#define HEADWISE_TEST_TARGET(target)                                                 \
    namespace target {                                                               \
    using namespace headwise::kernel::target;                                        \
    template <class Scalar>                                                          \
    HEADWISE_NOINLINE void exp_each(const Scalar* x, Scalar* y, std::ptrdiff_t n) {  \
        using V = typename tiling<Scalar>::vector;                                   \
        for (std::ptrdiff_t i = 0; i < n; i += V::lanes)                             \
            V::store(y + i, headwise::kernel::target::exp<V>(V::load(x + i)));       \
    }                                                                                \
    template <class Scalar>                                                          \
    HEADWISE_NOINLINE void tanh_each(const Scalar* x, Scalar* y, std::ptrdiff_t n) { \
        using V = typename tiling<Scalar>::vector;                                   \
        for (std::ptrdiff_t i = 0; i < n; i += V::lanes)                             \
            V::store(y + i, headwise::kernel::target::tanh<V>(V::load(x + i)));      \
    }                                                                                \
    }

HEADWISE_TEST_TARGET(baseline)
#if defined(HEADWISE_HAVE_X86_TARGETS)
HEADWISE_REGION_BEGIN(HEADWISE_AVX2_FEATURES)
HEADWISE_TEST_TARGET(avx2)
HEADWISE_REGION_END
HEADWISE_REGION_BEGIN(HEADWISE_AVX512_FEATURES)
HEADWISE_TEST_TARGET(avx512)
HEADWISE_REGION_END
#elif defined(HEADWISE_HAVE_NEON_TARGET)
HEADWISE_TEST_TARGET(neon)
#endif

namespace {

using headwise::isa;

template <class Scalar>
struct functions {
    void (*exp)(const Scalar*, Scalar*, std::ptrdiff_t);
    void (*tanh)(const Scalar*, Scalar*, std::ptrdiff_t);
};

template <class Scalar>
functions<Scalar> functions_of(isa name) {
    switch (name) {
#if defined(HEADWISE_HAVE_X86_TARGETS)
        case isa::avx2:
            return {avx2::exp_each<Scalar>, avx2::tanh_each<Scalar>};
        case isa::avx512:
            return {avx512::exp_each<Scalar>, avx512::tanh_each<Scalar>};
#elif defined(HEADWISE_HAVE_NEON_TARGET)
        case isa::neon:
            return {neon::exp_each<Scalar>, neon::tanh_each<Scalar>};
#endif
        default:
            return {baseline::exp_each<Scalar>, baseline::tanh_each<Scalar>};
    }
}

template <class Body>
void on_every_target(const Body& body) {
    for (const isa name : headwise::supported_isas()) {
        if (name != isa::baseline && name != isa::avx2 && name != isa::avx512 && name != isa::neon) continue;
        CAPTURE(headwise::to_string(name));
        body(functions_of<float>(name));
        body(functions_of<double>(name));
    }
}

/// A wider type, to take exact values in.
template <class Scalar>
using wider = std::conditional_t<sizeof(Scalar) == 4, double, long double>;

/// In units in the last place of the exact value; of the smallest subnormal below the normal range.
template <class Scalar>
double ulps(Scalar is, wider<Scalar> exact) {
    using limits = std::numeric_limits<Scalar>;
    int exponent = 0;
    std::frexp(exact, &exponent);
    const int lowest = limits::min_exponent - limits::digits;
    const wider<Scalar> unit = std::ldexp(wider<Scalar>(1), std::max(exponent - limits::digits, lowest));
    return static_cast<double>(std::abs(static_cast<wider<Scalar>>(is) - exact) / unit);
}

constexpr std::ptrdiff_t batch = 1 << 12;

/// The worst of `f` against `exact` over `count` arguments.
template <class Scalar, class Next, class Exact>
double worst_ulps(void (*f)(const Scalar*, Scalar*, std::ptrdiff_t), std::int64_t count, const Next& next,
                  const Exact& exact) {
    std::vector<Scalar> x(batch), y(batch);
    double worst = 0;
    for (std::int64_t done = 0; done < count; done += batch) {
        for (std::ptrdiff_t i = 0; i < batch; ++i) x[static_cast<std::size_t>(i)] = next(done + i);
        f(x.data(), y.data(), batch);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double off = ulps(y[i], exact(static_cast<wider<Scalar>>(x[i])));
            if (!(off <= worst)) worst = off;
        }
    }
    return worst;
}

template <class Scalar>
Scalar at(functions<Scalar> f, bool of_exp, Scalar x) {
    Scalar in[16], out[16];
    std::fill_n(in, 16, x);
    (of_exp ? f.exp : f.tanh)(in, out, 16);
    CHECK(std::all_of(out, out + 16, [&](Scalar y) { return y == out[0] || (y != y && out[0] != out[0]); }));
    return out[0];
}

}  // namespace

TEST_CASE("e^x for float: within 2 ULP at every 97th argument from -0 down to where it is zero") {
    const bool all = std::getenv("HEADWISE_TEST_EVERY_FLOAT") != nullptr;
    // By bits: -0 is 0x80000000, and -150, where nothing is left, 0xc3160000.
    constexpr std::uint32_t first = 0x80000000u, last = 0xc3160000u;
    const std::uint32_t step = all ? 1 : 97;
    for (const isa name : headwise::supported_isas()) {
        if (name != isa::baseline && name != isa::avx2 && name != isa::avx512 && name != isa::neon) continue;
        CAPTURE(headwise::to_string(name));
        const auto next = [&](std::int64_t i) {
            return std::bit_cast<float>(static_cast<std::uint32_t>(std::min<std::int64_t>(first + i * step, last)));
        };
        const double worst = worst_ulps<float>(functions_of<float>(name).exp, (last - first) / step + 1, next,
                                               [](double x) { return std::exp(x); });
        MESSAGE("worst of e^x, float, " << headwise::to_string(name) << ": " << worst << " ULP");
        CHECK(worst <= 2);
    }
}

TEST_CASE("e^x for double: within 2 ULP of samples down to where it is zero") {
    for (const isa name : headwise::supported_isas()) {
        if (name != isa::baseline && name != isa::avx2 && name != isa::avx512 && name != isa::neon) continue;
        CAPTURE(headwise::to_string(name));
        headwise::detail::splitmix64 random(1);
        const auto next = [&](std::int64_t i) {
            const double u = random.uniform();
            return i % 4 == 0   ? -750 * u
                   : i % 4 == 1 ? -40 * u
                   : i % 4 == 2 ? -u
                                : -std::ldexp(u, -static_cast<int>(i % 60));
        };
        const double worst = worst_ulps<double>(functions_of<double>(name).exp, 1 << 20, next,
                                                [](long double x) { return std::exp(x); });
        MESSAGE("worst of e^x, double, " << headwise::to_string(name) << ": " << worst << " ULP");
        CHECK(worst <= 2);
    }
}

TEST_CASE("tanh: within 4 ULP, small arguments too") {
    on_every_target([]<class Scalar>(functions<Scalar> f) {
        headwise::detail::splitmix64 random(2);
        const auto next = [&](std::int64_t i) {
            const double u = random.uniform() * (i % 2 == 0 ? 1 : -1);
            return static_cast<Scalar>(i % 3 == 0   ? 30 * u
                                       : i % 3 == 1 ? 2 * u
                                                    : std::ldexp(u, -static_cast<int>(i % 30)));
        };
        const double worst = worst_ulps<Scalar>(f.tanh, 1 << 18, next, [](auto x) { return std::tanh(x); });
        MESSAGE("worst of tanh: " << worst << " ULP");
        CHECK(worst <= 4);
    });
}

TEST_CASE("e^x and tanh at the edges") {
    on_every_target([]<class Scalar>(functions<Scalar> f) {
        using limits = std::numeric_limits<Scalar>;
        CHECK(at(f, true, Scalar(0)) == 1);
        CHECK(at(f, true, Scalar(-0.0)) == 1);
        CHECK(at(f, true, -limits::infinity()) == 0);
        CHECK(!std::signbit(at(f, true, -limits::infinity())));
        CHECK(at(f, true, -limits::max()) == 0);
        CHECK(at(f, true, -limits::denorm_min()) == 1);
        CHECK(std::isnan(at(f, true, limits::quiet_NaN())));
        // ln of the smallest subnormal, and of half of it: that rounds to itself, this to nothing.
        const Scalar smallest = std::log(limits::denorm_min());
        CHECK(at(f, true, smallest) == limits::denorm_min());
        CHECK(at(f, true, smallest - Scalar(0.8)) == 0);
        CHECK(at(f, true, std::log(limits::min()) - 1) < limits::min());
        CHECK(at(f, true, std::log(limits::min()) - 1) > 0);

        CHECK(at(f, false, Scalar(0)) == 0);
        CHECK(std::signbit(at(f, false, Scalar(-0.0))));
        CHECK(at(f, false, limits::infinity()) == 1);
        CHECK(at(f, false, -limits::infinity()) == -1);
        CHECK(at(f, false, -limits::max()) == -1);
        CHECK(std::isnan(at(f, false, limits::quiet_NaN())));
    });
}
