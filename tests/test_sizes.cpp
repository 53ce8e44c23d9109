// Sizes beyond 32 bits, sizes beyond memory, and memory that is not there.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>
#include <headwise/attention_loop.hpp>

#include "operations.hpp"

#if defined(__linux__)
#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace headwise;

namespace {

/// The allocation that fails: the n-th from now on, 0 for none.
thread_local long fail_at = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
    if (fail_at > 0 && --fail_at == 0) throw std::bad_alloc();
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
    return memory;
}

}  // namespace

// Not inline: GCC would see free() meet what operator new returned, and warn.
HEADWISE_NOINLINE void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
HEADWISE_NOINLINE void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return allocate(bytes, static_cast<std::size_t>(alignment));
}
HEADWISE_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
HEADWISE_NOINLINE void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max();

/// Whether every output is still `old`.
bool untouched(const tensor<float>& out, float old) {
    for (std::ptrdiff_t i = 0; i < out.size(); ++i)
        if (!(out.data()[i] == old)) return false;
    return true;
}

}  // namespace

TEST_CASE("shapes whose size in bytes overflows are refused before memory is asked for") {
    const shape4 shapes[] = {{1, 1, 1, most},
                             {2, 1, most / 4, 1},
                             {1 << 20, 1 << 20, 1 << 20, 8},
                             {most, most, most, most},
                             {std::ptrdiff_t{1} << 32, std::ptrdiff_t{1} << 32, 1, 1}};
    for (const shape4& shape : shapes) {
        fail_at = -1;
        CHECK_THROWS_AS(tensor<float>{shape}, std::invalid_argument);
        CHECK_THROWS_AS((tensor<double>(shape, uninitialized)), std::invalid_argument);
        CHECK_THROWS_AS(static_cast<void>(randn<float>(shape, 1)), std::invalid_argument);
        float one = 0;
        CHECK_THROWS_AS(tensor_view<float>(&one, shape), std::invalid_argument);
        CHECK_THROWS_AS(tensor_view<float>(&one, shape, {0, 0, 0, 0}), std::invalid_argument);
        fail_at = 0;
    }
    // The inputs fit, the result does not: broadcast rows cost nothing, a row of each would.
    const float one = 1;
    constexpr std::ptrdiff_t rows = std::ptrdiff_t{1} << 32;
    const tensor_view<const float> q(&one, {1, 1, rows, 1}, {0, 0, 0, 0}), k = q;
    CHECK_THROWS_WITH_AS(static_cast<void>(batched_scores_vectorized(q, k)),
                         "shape (1, 1, 4294967296, 4294967296): the size in bytes overflows ptrdiff_t",
                         std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(batched_scores_loop(q, k)), std::invalid_argument);
    // A size that a machine could address, but no machine has.
    CHECK_THROWS_AS((tensor<float>({1, 1, 1 << 30, 1 << 28}, uninitialized)), std::bad_alloc);
}

TEST_CASE("whichever allocation fails, bad_alloc comes out, the output is as it was, and the next call is right") {
    const auto q = randn<float>({2, 3, 40, 64}, 1), k = randn<float>({2, 3, 300, 64}, 2);
    const auto expected = batched_scores_vectorized(q, k);
    for (const test::scores_implementation& how : test::scores_implementations()) {
        CAPTURE(how.name);
        for (const int threads : {1, 3}) {
            Eigen::ThreadPool pool(2);
            long failed = 0;
            for (long n = 1; n < 100; ++n) {
                tensor<float> out(expected.shape());
                std::fill_n(out.data(), out.size(), 7.0f);
                bool refused = false;
                // A thread of its own, whose workspace has yet to be made. Allocations of the pool's threads succeed.
                std::thread caller([&] {
                    fail_at = n;
                    try {
                        how(q, k, out, {.threads = threads, .pool = &pool});
                    } catch (const std::bad_alloc&) {
                        refused = true;
                    }
                    fail_at = 0;
                });
                caller.join();
                if (refused) {
                    ++failed;
                    CHECK((untouched(out, 7.0f) || !how.fused));  // Eigen asks for memory head by head
                } else {
                    CHECK(test::mismatches_of(out, expected) == 0);
                    if (failed > 0 || !how.fused || n > 8) break;
                }
            }
            if (how.fused) CHECK(failed > 0);
        }
    }
    CHECK(test::same_bits(batched_scores_vectorized(q, k), expected));
}

TEST_CASE("a tensor that cannot be copied stays as it was, and so does the one it was to replace") {
    const auto source = randn<double>({1, 2, 3, 4}, 1);
    auto target = randn<double>({4, 3, 2, 1}, 2);
    const auto before = target;
    bool refused = false;
    fail_at = 1;
    try {
        target = source;
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    fail_at = 0;
    CHECK(refused);
    CHECK(test::same_bits(target, before));
}

#if defined(__linux__) && !defined(HEADWISE_TEST_ADDRESS_SANITIZER) && !defined(HEADWISE_TEST_THREAD_SANITIZER)
namespace {

/// Address space without the memory behind it; pages come to be as they are touched.
template <class Scalar>
class sparse {
public:
    explicit sparse(std::ptrdiff_t scalars) : bytes_(static_cast<std::size_t>(scalars) * sizeof(Scalar)) {
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    sparse(const sparse&) = delete;
    sparse& operator=(const sparse&) = delete;
    ~sparse() {
        if (is_there()) munmap(memory_, bytes_);
    }
    [[nodiscard]] bool is_there() const { return memory_ != MAP_FAILED; }
    [[nodiscard]] Scalar* data() const { return static_cast<Scalar*>(memory_); }

private:
    std::size_t bytes_;
    void* memory_;
};

/// Fills a view with random values.
template <class Scalar>
void fill(const tensor_view<Scalar>& view, std::uint64_t seed) {
    const auto values = randn<Scalar>(view.shape(), seed);
    for (std::ptrdiff_t b = 0; b < view.shape()[0]; ++b)
        for (std::ptrdiff_t h = 0; h < view.shape()[1]; ++h)
            for (std::ptrdiff_t l = 0; l < view.shape()[2]; ++l)
                for (std::ptrdiff_t d = 0; d < view.shape()[3]; ++d) view(b, h, l, d) = values(b, h, l, d);
}

}  // namespace

TEST_CASE_TEMPLATE("strides beyond 2^31 elements, along each axis in turn, forwards and backwards", Scalar, float,
                   double) {
    constexpr std::ptrdiff_t far = (std::ptrdiff_t{1} << 31) + 77;
    // (B, H, L, M, D): few rows, and tiles with a tail.
    for (const auto& sizes : {std::array<std::ptrdiff_t, 5>{2, 2, 3, 5, 6}, {2, 2, 20, 37, 9}})
        for (std::size_t axis = 0; axis < 4; ++axis)
            for (const std::ptrdiff_t direction : {1, -1}) {
                const std::ptrdiff_t B = sizes[0], H = sizes[1], L = sizes[2], M = sizes[3], D = sizes[4];
                CAPTURE(L);
                CAPTURE(axis);
                CAPTURE(direction);
                const auto view_in = [&](const sparse<Scalar>& memory, const shape4& shape) {
                    strides4 strides = detail::dense_strides(shape);
                    strides[axis] = far * direction;
                    return tensor_view<Scalar>(memory.data() + (direction < 0 ? far * (shape[axis] - 1) : 0), shape,
                                               strides);
                };
                const auto scalars = [&](const shape4& shape) { return far * (shape[axis] - 1) + 4096; };
                const shape4 q_shape{B, H, L, D}, k_shape{B, H, M, D}, out_shape{B, H, L, M};
                const sparse<Scalar> q_memory(scalars(q_shape)), k_memory(scalars(k_shape)),
                    out_memory(scalars(out_shape));
                if (!q_memory.is_there() || !k_memory.is_there() || !out_memory.is_there()) {
                    MESSAGE("no address space for this");
                    return;
                }
                const auto q = view_in(q_memory, q_shape), k = view_in(k_memory, k_shape),
                           out = view_in(out_memory, out_shape);
                fill(q, 1), fill(k, 2);
                const auto dense_q = randn<Scalar>(q_shape, 1), dense_k = randn<Scalar>(k_shape, 2);
                for (const test::scores_implementation& how : test::scores_implementations()) {
                    CAPTURE(how.name);
                    tensor<Scalar> expected(out_shape);
                    how(dense_q, dense_k, expected);
                    fill(out, 3);
                    how(q, k, out);
                    CHECK(test::mismatches_of(out, expected) == 0);
                }

                const sparse<Scalar> v_memory(scalars(k_shape)), result_memory(scalars(q_shape));
                const auto v = view_in(v_memory, k_shape), result = view_in(result_memory, q_shape);
                fill(v, 4);
                const auto dense_v = randn<Scalar>(k_shape, 4);
                const auto expected = attention_loop(dense_q, dense_k, dense_v);
                attention(q, k, v, result);
                CHECK(test::mismatches_of(result, expected) == 0);
                fill(result, 3);
                attention_loop(q, k, v, result);
                CHECK(test::mismatches_of(result, expected) == 0);
            }
}

TEST_CASE("an extent beyond 2^31 is counted in full: rows that repeat, of which the last heads are looked at") {
    // 2^31 + 3 heads of one output each, 8 GiB of address space: only the pages of the first and the last are touched.
    constexpr std::ptrdiff_t heads = (std::ptrdiff_t{1} << 31) + 3;
    const sparse<float> memory(heads);
    if (!memory.is_there()) return;
    const float three = 3, five = 5;
    const tensor_view<const float> all_q(&three, {1, heads, 1, 1}, {0, 0, 0, 0}),
        all_k(&five, {1, heads, 1, 1}, {0, 0, 0, 0});
    const tensor_view<float> all(memory.data(), {1, heads, 1, 1});
    CHECK(all.size() == heads);
    for (const test::scores_implementation& how : test::scores_implementations()) {
        CAPTURE(how.name);
        const std::ptrdiff_t last = heads - 2;
        const tensor_view<float> end(&all(0, last, 0, 0), {1, 2, 1, 1}, all.strides());
        how(tensor_view<const float>(&all_q(0, last, 0, 0), {1, 2, 1, 1}, all_q.strides()),
            tensor_view<const float>(&all_k(0, last, 0, 0), {1, 2, 1, 1}, all_k.strides()), end);
        CHECK(memory.data()[heads - 1] == 15);
        CHECK(memory.data()[heads - 2] == 15);
        memory.data()[heads - 1] = memory.data()[heads - 2] = 0;
    }
    CHECK(memory.data()[0] == 0);
}

namespace {

/// The exit status of `body` in a child process that may map `extra` bytes beyond what it has.
template <class Body>
int under_memory_limit(std::size_t extra, const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        long pages = 0;
        if (std::FILE* const statm = std::fopen("/proc/self/statm", "r")) {
            if (std::fscanf(statm, "%ld", &pages) != 1) _exit(3);
            std::fclose(statm);
        }
        const rlim_t limit = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + extra;
        const rlimit limits{limit, limit};
        if (setrlimit(RLIMIT_AS, &limits) != 0) _exit(4);
        _exit(body() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("under a limit of memory, as ulimit -v sets: bad_alloc, the output as it was, smaller calls as ever") {
    // Packing K takes 512 KiB: more than the limit leaves.
    const auto q = randn<float>({1, 1, 40, 256}, 1), k = randn<float>({1, 1, 4000, 256}, 2);
    tensor<float> out({1, 1, 40, 4000});
    std::fill_n(out.data(), out.size(), 7.0f);
    CHECK(under_memory_limit(100 << 10, [&] {
              bool refused = false;
              // What malloc holds already must not serve: ask for it first.
              static void* held[1000];
              for (void*& block : held) block = std::malloc(100 << 10);
              try {
                  batched_scores_vectorized(q, k, out);
              } catch (const std::bad_alloc&) {
                  refused = true;
              }
              const bool as_it_was = untouched(out, 7.0f);
              std::free(held[0]);
              const tensor_view<const float> few_q(q.data(), {1, 1, 2, 256}), few_k(k.data(), {1, 1, 20, 256});
              float small[40];
              batched_scores_vectorized(few_q, few_k, tensor_view<float>(small, {1, 1, 2, 20}));
              return refused && as_it_was;
          }) == 0);
    CHECK(under_memory_limit(64 << 20, [] {
              try {
                  const tensor<float> large({1, 1, 1 << 14, 1 << 14});
              } catch (const std::bad_alloc&) {
                  return true;
              }
              return false;
          }) == 0);
}
#endif
