// The caller's arithmetic (rounding mode, flush-to-zero) is left as it was found, on every thread.
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "operations.hpp"

using namespace headwise;

namespace {

/// The floating-point control word, without the flags of what has happened so far.
#if defined(__SSE2__)
std::uint64_t control_word() {
    std::uint32_t word = 0;
    asm volatile("stmxcsr %0" : "=m"(word));
    return word & ~0x3fu;
}
void set_control_word(std::uint64_t wide) {
    const auto word = static_cast<std::uint32_t>(wide);
    asm volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
constexpr std::uint64_t flushing = 0x8040;
#elif defined(__aarch64__)
std::uint64_t control_word() {
    std::uint64_t word = 0;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
}
void set_control_word(std::uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
constexpr std::uint64_t flushing = std::uint64_t{1} << 24;
#else
std::uint64_t control_word() { return static_cast<std::uint64_t>(std::fegetround()); }
void set_control_word(std::uint64_t word) { std::fesetround(static_cast<int>(word)); }
constexpr std::uint64_t flushing = 0;
#endif

struct mode {
    std::string name;
    int rounding;
    std::uint64_t flush;
};
const mode modes[] = {{"upward", FE_UPWARD, 0},
                      {"toward zero", FE_TOWARDZERO, 0},
                      {"flush to zero", FE_TONEAREST, flushing},
                      {"downward, flush to zero", FE_DOWNWARD, flushing}};

/// This thread computes in a mode while it lives.
class in_mode {
public:
    explicit in_mode(const mode& m) {
        std::fesetround(m.rounding);
        set_control_word(control_word() | m.flush);
    }
    ~in_mode() {
        std::fesetround(FE_TONEAREST);
        set_control_word(before_);
    }
    in_mode(const in_mode&) = delete;
    in_mode& operator=(const in_mode&) = delete;

private:
    std::uint64_t before_ = control_word();
};

/// The control word of a pool's only thread.
std::uint64_t control_word_of(Eigen::ThreadPool& pool) {
    std::atomic<std::uint64_t> word{0};
    Eigen::Barrier done(1);
    pool.Schedule([&] {
        word = control_word();
        done.Notify();
    });
    done.Wait();
    return word;
}

/// Enough work for several threads, with sums that round and products that are subnormal.
template <class Scalar>
struct operands {
    tensor<Scalar> q = randn<Scalar>({4, 4, 96, 64}, 1), k = randn<Scalar>({4, 4, 256, 64}, 2);
    operands() {
        for (std::ptrdiff_t i = 0; i < q.size() / 2; ++i) q.data()[i] *= std::numeric_limits<Scalar>::min();
    }
};

}  // namespace

TEST_CASE("the caller's rounding mode and flush-to-zero are as they were after any call, and so are the workers'") {
    const operands<float> o;
    tensor<float> out({4, 4, 96, 256});
    Eigen::ThreadPool pool(1);
    const std::uint64_t of_worker = control_word_of(pool);
    for (const mode& m : modes)
        for (const test::scores_implementation& how : test::scores_implementations()) {
            CAPTURE(m.name);
            CAPTURE(how.name);
            const in_mode while_here(m);
            const std::uint64_t before = control_word();
            const int rounding = std::fegetround();
            how(o.q, o.k, out);
            how(o.q, o.k, out, {.threads = 2, .pool = &pool});
            const std::uint64_t after = control_word(), worker = control_word_of(pool);
            const int rounding_after = std::fegetround();
            CHECK(after == before);
            CHECK(rounding_after == rounding);
            CHECK(worker == of_worker);
        }
}

TEST_CASE_TEMPLATE("every thread computes as the caller does: any number of them gives the same bits", Scalar, float,
                   double) {
    const operands<Scalar> o;
    tensor<Scalar> one({4, 4, 96, 256}), several(one.shape()), usual(one.shape());
    for (const test::scores_implementation& how : test::scores_implementations()) {
        if (!how.fused) continue;
        CAPTURE(how.name);
        how(o.q, o.k, usual);
        for (const mode& m : modes) {
            CAPTURE(m.name);
            Eigen::ThreadPool pool(2);
            {
                const in_mode while_here(m);
                how(o.q, o.k, one);
                for (const int threads : {2, 3}) {
                    std::fill_n(several.data(), several.size(), Scalar(7));
                    how(o.q, o.k, several, {.threads = threads, .pool = &pool});
                    const bool same = test::same_bits(several, one);
                    CHECK(same);
                }
            }
            CHECK_FALSE(test::same_bits(one, usual));  // the mode matters to these numbers
        }
    }
}
