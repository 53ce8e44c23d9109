#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/parallel.hpp>

#include "inline_pool.hpp"

using headwise::detail::choose_threads;
using headwise::detail::crew;
using headwise::detail::parallel_for;
using headwise::detail::shared_pieces;
using namespace std::chrono_literals;

namespace {

/// How often each i was called, the highest worker seen, and whether two threads were ever the same worker at once.
struct tally {
    std::vector<std::atomic<int>> calls;
    std::atomic<int> highest{0};
    std::atomic<bool> at_work[16] = {};
    std::atomic<bool> shared_a_worker{false};

    explicit tally(std::ptrdiff_t count) : calls(static_cast<std::size_t>(count)) {}
    void operator()(int worker, std::ptrdiff_t i) {
        std::atomic<bool>& busy = at_work[worker % 16];
        if (busy.exchange(true)) shared_a_worker = true;
        count(worker, i);
        busy = false;
    }
    void count(int worker, std::ptrdiff_t i) {
        calls[static_cast<std::size_t>(i)].fetch_add(1);
        for (int seen = highest; worker > seen && !highest.compare_exchange_weak(seen, worker);) {
        }
    }
    [[nodiscard]] bool each_once() const {
        for (const std::atomic<int>& count : calls)
            if (count != 1) return false;
        return !shared_a_worker;
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

TEST_CASE("a pool that runs a task where it is scheduled gets one for each helper, and no more") {
    headwise::test::inline_pool pool;
    int sum = 0;
    parallel_for(&pool, 4, 100, [&](int, std::ptrdiff_t) { ++sum; });
    CHECK(sum == 100);
    CHECK(pool.scheduled == 3);
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

TEST_CASE("again and again, at every distance: each index once, whether helpers are awake, asleep or about to leave") {
    for (int time = 0; time < 2000; ++time) {
        const std::ptrdiff_t count = 1 + time % 37;
        tally seen(count);
        parallel_for(nullptr, 2 + time % 15, count, [&](int worker, std::ptrdiff_t i) { seen(worker, i); });
        REQUIRE(seen.each_once());
        if (time % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(time % 120));
    }
}

TEST_CASE("a crew: helpers come once, stay awake for a while, and leave") {
    Eigen::ThreadPool pool(2);
    crew helpers(1000us);
    for (int time = 0; time < 50; ++time) {
        tally seen(40);
        const auto body = [&](int worker, std::ptrdiff_t i) { seen(worker, i); };
        shared_pieces work(3, 40, body);
        REQUIRE(crew::share(&helpers, pool, work));
        CHECK(seen.each_once());
        CHECK(helpers.awake() <= 3);  // the two, and one more where one was about to leave
    }
    const auto start = std::chrono::steady_clock::now();
    while (helpers.awake() != 0 && std::chrono::steady_clock::now() - start < 20s) std::this_thread::yield();
    CHECK(helpers.awake() == 0);
}

TEST_CASE("a helper more than there are workers takes nothing: there is no memory for it") {
    std::vector<int> workers;
    shared_pieces* shared = nullptr;
    const auto body = [&](int worker, std::ptrdiff_t) {
        workers.push_back(worker);
        shared->help();  // as a second helper that comes while the first is at work
    };
    shared_pieces work(2, 4, body);
    shared = &work;
    work.help();
    CHECK(workers == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("a crew that is at one caller's does nothing for another") {
    exhausted_pool pool;
    crew helpers(0us);
    const auto nothing = [](int, std::ptrdiff_t) {};
    bool inner = true;
    const auto body = [&](int, std::ptrdiff_t) {
        shared_pieces more(2, 1, nothing);
        inner = crew::share(&helpers, pool, more);
    };
    shared_pieces work(2, 1, body);
    CHECK(crew::share(&helpers, pool, work));
    CHECK_FALSE(inner);
    CHECK(helpers.awake() == 0);  // no memory for a task: nobody is expected
}

TEST_CASE("helpers wait until the caller has its result, however long its last piece takes") {
    Eigen::ThreadPool pool(1);
    for (int time = 0; time < 20; ++time) {
        std::atomic<int> done{0};
        parallel_for(&pool, 2, 2, [&](int, std::ptrdiff_t) {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            ++done;
        });
        CHECK(done == 2);
    }
}

TEST_CASE("how many threads: none is woken for little work; what comes right after a call is shared all the same") {
    const auto use = [](int wanted, double nanoseconds, const headwise::thread_pool* pool = nullptr) {
        const auto chosen = choose_threads(wanted, nanoseconds, pool);
        return std::vector<int>{chosen.most, chosen.now};
    };
    using counts = std::vector<int>;
    const int all = headwise::detail::hardware_threads();
    const auto start = std::chrono::steady_clock::now();  // helpers of other tests leave
    while (headwise::detail::shared_threads::awake() != 0 && std::chrono::steady_clock::now() - start < 20s)
        std::this_thread::yield();
    auto& last = headwise::detail::last_call();

    last = {};
    CHECK(use(1, 1e9) == counts{1, 1});
    CHECK(use(2, 500) == counts{1, 1});
    if (all >= 2) {
        CHECK(use(2, 5e3) == counts{2, 1});  // room for two, in case
        CHECK(use(2, 99e3) == counts{2, 1});
        CHECK(use(2, 101e3) == counts{2, 2});
        last = std::chrono::steady_clock::now() + 1h;  // as if a call had just ended
        CHECK(use(2, 500) == counts{1, 1});
        CHECK(use(2, 5e3) == counts{2, 2});
        CHECK(use(0, 5e3)[1] == 2);  // one more than are awake at a time
    }
    CHECK(use(1000, 1e9) == counts{all, all});  // no more than there are

    Eigen::ThreadPool pool(1);  // whose habits are not known
    CHECK(use(2, 5e3, &pool) == counts{1, 1});
    CHECK(use(2, 101e3, &pool) == counts{2, 2});
    CHECK(use(1000, 1e9, &pool) == counts{1000, 1000});
    last = {};
    headwise::detail::note_call({1, 1});
    CHECK(last == std::chrono::steady_clock::time_point{});
    headwise::detail::note_call({2, 1});
    CHECK(last != std::chrono::steady_clock::time_point{});
}
