// Many callers, shared pools, threads that end, processes that fork, and a program that ends while its statics compute.
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <csignal>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <doctest/doctest.h>

#include "operations.hpp"

using namespace headwise;

namespace {

/// Work for a second thread, and what must come out of it.
struct job {
    tensor<float> q = randn<float>({2, 4, 96, 64}, 1), k = randn<float>({2, 4, 512, 64}, 2);
    tensor<float> expected = batched_scores_vectorized(q, k);

    [[nodiscard]] bool is_right(const scores_options& options) const {
        return test::same_bits(batched_scores_vectorized(q, k, options), expected);
    }
};

/// Runs `body(i)` on `count` threads that begin together; how often it returned false.
template <class Body>
int failures_on_threads(int count, const Body& body) {
    std::atomic<int> failures{0}, arrived{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            ++arrived;
            while (arrived < count) std::this_thread::yield();
            if (!body(i)) ++failures;
        });
    for (std::thread& thread : threads) thread.join();
    return failures;
}

}  // namespace

TEST_CASE("eight threads call at once on shared inputs, each implementation, one thread or several") {
    const job work;
    const int repeats = test::how_thorough() == test::thoroughness::sampled ? 2 : 10;
    tensor<float> looped(work.expected.shape());
    batched_scores_loop(work.q, work.k, looped);
    const auto implementations = test::scores_implementations();
    const int failures = failures_on_threads(8, [&](int i) {
        bool right = true;
        tensor<float> out(work.expected.shape());
        for (int time = 0; time < repeats; ++time) {
            const auto& how = implementations[static_cast<std::size_t>(i + time) % implementations.size()];
            how(work.q, work.k, out, {.threads = time % 3});
            if (how.is_chain()) right = right && test::same_bits(out, work.expected);
            if (!how.fused) right = right && test::same_bits(out, looped);
        }
        return right;
    });
    CHECK(failures == 0);
}

TEST_CASE("one pool, two callers; and callers that are the pool's own tasks") {
    const job work;
    Eigen::ThreadPool pool(2);
    const int failures = failures_on_threads(2, [&](int) {
        bool right = true;
        for (int time = 0; time < 10; ++time) right = right && work.is_right({.threads = 3, .pool = &pool});
        return right;
    });
    CHECK(failures == 0);

    constexpr int tasks = 8;  // more than the pool has threads
    std::atomic<int> right{0};
    Eigen::Barrier done(tasks);
    for (int i = 0; i < tasks; ++i)
        pool.Schedule([&, i] {
            right += work.is_right({.threads = 2 + i % 3, .pool = i % 2 == 0 ? &pool : nullptr});
            done.Notify();
        });
    done.Wait();
    CHECK(right == tasks);
}

TEST_CASE("a pool that ends right after its calls") {
    const job work;
    for (int time = 0; time < 20; ++time) {
        Eigen::ThreadPool pool(2);
        CHECK(work.is_right({.threads = 3, .pool = &pool}));
    }
}

TEST_CASE("threads come and go: each one's workspace goes with it, others' stay") {
    const job work;
    REQUIRE(work.is_right({}));  // this thread's workspace has grown
    for (int time = 0; time < 20; ++time) {
        const int failures = failures_on_threads(4, [&](int i) { return work.is_right({.threads = 1 + i % 2}); });
        CHECK(failures == 0);
    }
    CHECK(work.is_right({}));
}

#if (defined(__unix__) || defined(__APPLE__)) && !defined(HEADWISE_TEST_THREAD_SANITIZER)
namespace {

/// The exit status of `body` in a child process, or -1 when it did not end within ten seconds.
template <class Body>
int status_of_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return -1;
}

}  // namespace

TEST_CASE("after a fork, parent and child both compute, on several threads too") {
    const job work;
    REQUIRE(work.is_right({.threads = 2}));  // the shared pool exists; the child will have none of its threads
    for (int time = 0; time < 5; ++time) {
        CHECK(status_of_child([&] { return work.is_right({.threads = 2}) && work.is_right({}); }) == 0);
        CHECK(work.is_right({.threads = 2}));
    }
}

TEST_CASE("a child has a working pool of its own, though its parent had used one") {
    const job work;
    REQUIRE(work.is_right({.threads = 2}));
    const auto a_pool_thread_works = [] {
        std::atomic<bool> done{false};
        detail::shared_threads::get().pool.Schedule([&] { done = true; });
        const auto start = std::chrono::steady_clock::now();
        while (!done && std::chrono::steady_clock::now() - start < std::chrono::seconds(5)) std::this_thread::yield();
        return done.load();
    };
    CHECK(a_pool_thread_works());
    CHECK(status_of_child(a_pool_thread_works) == 0);
}

TEST_CASE("a fork while other threads compute: the child does not wait for what they held") {
    const job work;
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) static_cast<void>(work.is_right({.threads = 2}));
    });
    int failed = 0;
    for (int time = 0; time < (test::how_thorough() == test::thoroughness::all ? 200 : 10); ++time)
        failed += status_of_child([&] { return work.is_right({.threads = 2}); }) != 0;
    stop = true;
    busy.join();
    CHECK(failed == 0);
}

TEST_CASE("no more threads to be had: the caller does the work") {
    const job work;
    CHECK(status_of_child([&] {
              const rlimit none{1, 1};
              if (setrlimit(RLIMIT_NPROC, &none) != 0) return true;
              if (getuid() == 0 && setuid(65534) != 0) return true;  // no limit holds for root
              bool refused = false;
              try {
                  std::thread([] {}).join();
              } catch (const std::system_error&) {
                  refused = true;
              }
              return refused && work.is_right({.threads = 2}) && work.is_right({.threads = 0}) && work.is_right({});
          }) == 0);
}

namespace {

/// Destroyed after main has returned: the shared pool must still be there.
struct computes_at_exit {
    const job* work = nullptr;
    ~computes_at_exit() {
        if (work != nullptr) _exit(work->is_right({.threads = 2}) && work->is_right({}) ? 0 : 1);
    }
};

}  // namespace

TEST_CASE("a static object's destructor computes, with a pool made after the object or not yet made") {
    static const job work;
    for (const bool used_before : {true, false}) {
        CAPTURE(used_before);
        CHECK(status_of_child([&] {
                  static computes_at_exit last;
                  if (used_before) static_cast<void>(work.is_right({.threads = 2}));
                  last.work = &work;
                  std::exit(2);  // runs the destructors; the last one leaves with its own status
                  return false;
              }) == 0);
    }
}
#endif
