// Work over threads: on Eigen's own thread pool, shared by the whole program, or on one that the caller hands over.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

// Eigen 3.4 keeps its pool among the unsupported headers, Eigen 5 does not.
#if __has_include(<Eigen/ThreadPool>)
#include <Eigen/ThreadPool>
#else
#include <unsupported/Eigen/CXX11/ThreadPool>
#endif

namespace headwise {

/// What runs tasks: an `Eigen::ThreadPool`, or anything else with its interface.
using thread_pool = Eigen::ThreadPoolInterface;

namespace detail {

[[nodiscard]] inline int hardware_threads() noexcept {
    static const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return count;
}

/// The pool behind `threads != 1` where the caller hands none over: one for the program, made at the first such call,
/// with a worker fewer than the machine has processors, since the calling thread works too. Never destroyed, so that a
/// static object's destructor may still compute.
inline thread_pool& shared_pool() {
    static thread_pool& pool = *new Eigen::ThreadPool(std::max(1, hardware_threads() - 1));
    return pool;
}

/// False where the pool has no memory for another task.
template <class Task>
[[nodiscard]] bool try_schedule(thread_pool& pool, Task task) {
#if defined(__cpp_exceptions)
    try {
        pool.Schedule(std::move(task));
    } catch (...) {
        return false;
    }
#else
    pool.Schedule(std::move(task));
#endif
    return true;
}

/// What the threads of one `parallel_for` share. The tasks own it together: one that starts after the work is done
/// finds nothing left to take, and touches nothing else.
struct shared_work {
    std::ptrdiff_t count;
    std::atomic<std::ptrdiff_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable all_done;

    explicit shared_work(std::ptrdiff_t items) : count(items) {}

    template <class Body>
    void take(int worker, const Body& body) {
        for (std::ptrdiff_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
            body(worker, i);
            if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < count) continue;
            const std::lock_guard<std::mutex> lock(mutex);
            all_done.notify_one();
        }
    }
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        all_done.wait(lock, [this] { return done.load(std::memory_order_acquire) == count; });
    }
};

/// Calls `body(worker, i)` for every i in [0, count): on the calling thread (worker 0) and on up to `workers - 1`
/// threads of the pool. Each worker takes the next i when it is free. Returns when all is done. `body` does not throw.
/// The caller waits for what has begun, never for a task that is still in the queue: so calls from inside tasks of this
/// pool, or of two pools crosswise, cannot wait for each other.
template <class Body>
void parallel_for(thread_pool* pool, int workers, std::ptrdiff_t count, const Body& body) {
    if (workers > count) workers = static_cast<int>(count);
    if (workers <= 1) {
        for (std::ptrdiff_t i = 0; i < count; ++i) body(0, i);
        return;
    }
    if (pool == nullptr) pool = &shared_pool();
    const auto work = std::make_shared<shared_work>(count);
    for (int worker = 1; worker < workers; ++worker)
        if (!try_schedule(*pool, [work, &body, worker] { work->take(worker, body); }))
            break;  // no memory for a task: those that run will do
    work->take(0, body);
    work->wait();
}

}  // namespace detail
}  // namespace headwise
