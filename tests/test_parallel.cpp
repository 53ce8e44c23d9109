#include <atomic>
#include <new>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/parallel.hpp>

using headwise::detail::parallel_for;

namespace {

/// How often each i was called, and the highest worker seen.
struct tally {
    std::vector<std::atomic<int>> calls;
    std::atomic<int> highest{0};

    explicit tally(std::ptrdiff_t count) : calls(static_cast<std::size_t>(count)) {}
    void operator()(int worker, std::ptrdiff_t i) {
        calls[static_cast<std::size_t>(i)].fetch_add(1);
        for (int seen = highest; worker > seen && !highest.compare_exchange_weak(seen, worker);) {
        }
    }
    [[nodiscard]] bool each_once() const {
        for (const std::atomic<int>& count : calls)
            if (count != 1) return false;
        return true;
    }
};

/// A pool whose tasks never start: it has no memory for them.
struct exhausted_pool : headwise::thread_pool {
    void Schedule(std::function<void()>) override { throw std::bad_alloc(); }
    int NumThreads() const override { return 1; }
    int CurrentThreadId() const override { return -1; }
};

}  // namespace

TEST_CASE("every index is worked on once, by no more workers than asked for") {
    Eigen::ThreadPool pool(3);
    for (const int workers : {1, 2, 3, 4, 9})
        for (const std::ptrdiff_t count : {0, 1, 2, 7, 100}) {
            CAPTURE(workers);
            CAPTURE(count);
            tally seen(count);
            parallel_for(&pool, workers, count, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
            CHECK(seen.each_once());
            CHECK(seen.highest < workers);
        }
}

TEST_CASE("the shared pool serves where none is handed over") {
    tally seen(50);
    parallel_for(nullptr, 2, 50, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
    CHECK(seen.each_once());
}

TEST_CASE("from inside a task of a pool whose only thread that is: no waiting for oneself") {
    Eigen::ThreadPool pool(1);
    tally seen(20);
    Eigen::Barrier done(1);
    pool.Schedule([&] {
        parallel_for(&pool, 4, 20, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
        done.Notify();
    });
    done.Wait();
    CHECK(seen.each_once());
    CHECK(seen.highest == 0);
}

TEST_CASE("two pools, each with a task that waits for work on the other: no waiting for each other") {
    Eigen::ThreadPool one(1), other(1);
    tally first(20), second(20);
    Eigen::Barrier both_in(2), done(2);
    const auto cross = [&](Eigen::ThreadPool& own, Eigen::ThreadPool& others, tally& seen) {
        own.Schedule([&] {
            both_in.Notify();
            both_in.Wait();  // both pools' only threads are busy now
            parallel_for(&others, 2, 20, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
            done.Notify();
        });
    };
    cross(one, other, first);
    cross(other, one, second);
    done.Wait();
    CHECK(first.each_once());
    CHECK(second.each_once());
}

TEST_CASE("a task that the pool starts when all is done touches nothing") {
    struct late_pool : headwise::thread_pool {
        std::vector<std::function<void()>> tasks;
        void Schedule(std::function<void()> task) override { tasks.push_back(std::move(task)); }
        int NumThreads() const override { return 1; }
        int CurrentThreadId() const override { return -1; }
    } pool;
    {
        tally seen(20);
        parallel_for(&pool, 3, 20, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
        CHECK(seen.each_once());
    }
    REQUIRE(pool.tasks.size() == 2);
    for (const auto& task : pool.tasks) task();  // `seen` is gone; the address sanitizer would tell
}

TEST_CASE("a pool that has no memory for a task: the caller does the work") {
    exhausted_pool pool;
    tally seen(20);
    parallel_for(&pool, 4, 20, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
    CHECK(seen.each_once());
    CHECK(seen.highest == 0);
}
