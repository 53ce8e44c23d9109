// Work over threads: on Eigen's own thread pool, shared by the whole program, or on one that the caller hands over.
#pragma once

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

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

/// The pool behind `threads != 1` where the caller hands none over: one for the process, made at the first such call,
/// with a worker fewer than the machine has processors, since the calling thread works too. Never destroyed, so that a
/// static object's destructor may still compute. A child process that `fork` made has none of its parent's threads: it
/// gets a pool of its own.
inline thread_pool& shared_pool() {
    static constinit std::atomic<thread_pool*> current{nullptr};
    if (thread_pool* const made = current.load(std::memory_order_acquire)) return *made;
#if defined(__unix__) || defined(__APPLE__)
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
#endif
    auto mine = std::make_unique<Eigen::ThreadPool>(std::max(1, hardware_threads() - 1));
    thread_pool* found = nullptr;
    if (current.compare_exchange_strong(found, mine.get(), std::memory_order_acq_rel)) return *mine.release();
    return *found;  // another thread was first
}

/// How a thread does arithmetic: its rounding mode, whether it flushes subnormals to zero, which traps it takes.
class arithmetic_mode {
public:
    /// That of this thread, now.
    arithmetic_mode() noexcept {
#if defined(__SSE2__) && defined(__GNUC__)
        asm volatile("stmxcsr %0" : "=m"(word_));
        word_ &= ~word{0x3f};  // without what has happened so far
#elif defined(__aarch64__) && defined(__GNUC__)
        asm volatile("mrs %0, fpcr" : "=r"(word_));
#else
        std::fegetenv(&word_);
#endif
    }
    /// Makes it that of the calling thread.
    void adopt() const noexcept {
#if defined(__SSE2__) && defined(__GNUC__)
        asm volatile("ldmxcsr %0" : : "m"(word_) : "memory");
#elif defined(__aarch64__) && defined(__GNUC__)
        asm volatile("msr fpcr, %0" : : "r"(word_) : "memory");
#else
        std::fesetenv(&word_);
#endif
    }

private:
#if defined(__SSE2__) && defined(__GNUC__)
    using word = std::uint32_t;
#elif defined(__aarch64__) && defined(__GNUC__)
    using word = std::uint64_t;
#else
    using word = std::fenv_t;
#endif
    word word_;
};

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

/// The processor that this thread runs on, or -1 where the system does not tell.
[[nodiscard]] inline int current_processor() noexcept {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

/// Keeps this thread, one of the shared pool's, off the processor of its caller from now on, if there is another that
/// it was created to run on. Linux likes to wake a thread where the one that woke it runs, and lets the two share that
/// processor for milliseconds: with it, (8,12,197,197,64) on two threads was no faster than on one, without it 1.8
/// times.
inline void leave_processor([[maybe_unused]] int avoided) noexcept {
#if defined(__linux__)
    if (avoided < 0 || sched_getcpu() != avoided) return;
    static thread_local const cpu_set_t allowed = [] {
        cpu_set_t as_created;
        CPU_ZERO(&as_created);
        sched_getaffinity(0, sizeof as_created, &as_created);
        return as_created;
    }();
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(avoided), &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
#endif
}

/// What the threads of one `parallel_for` share. The tasks own it together: one that starts after the work is done
/// finds nothing left to take, and touches nothing else.
struct shared_work {
    std::ptrdiff_t count;
    std::atomic<std::ptrdiff_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable all_done;

    explicit shared_work(std::ptrdiff_t items) : count(items) {}

    [[nodiscard]] bool is_done() const noexcept { return done.load(std::memory_order_acquire) == count; }

    template <class Body>
    void take(int worker, const Body& body) {
        for (std::ptrdiff_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
            body(worker, i);
            if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < count) continue;
            const std::lock_guard<std::mutex> lock(mutex);
            all_done.notify_one();
        }
    }

    /// What is still at work elsewhere is a fraction of the whole: looking for its end costs less than being woken.
    void wait() {
        constexpr std::chrono::microseconds patience(50);
        const auto start = std::chrono::steady_clock::now();
        while (!is_done())
            if (std::chrono::steady_clock::now() - start > patience) break;
        if (is_done()) return;
        std::unique_lock<std::mutex> lock(mutex);
        all_done.wait(lock, [this] { return is_done(); });
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
    const int avoided = pool == nullptr ? current_processor() : -1;  // only our own pool's threads are moved
    if (pool == nullptr) pool = &shared_pool();
    const arithmetic_mode mode;
    const auto work = std::make_shared<shared_work>(count);
    for (int worker = 1; worker < workers; ++worker) {
        const bool scheduled = try_schedule(*pool, [work, &body, worker, avoided, mode] {
            if (work->next.load(std::memory_order_relaxed) >= work->count) return;
            leave_processor(avoided);
            const arithmetic_mode own;
            mode.adopt();  // a caller that rounds upwards gets every result rounded upwards
            work->take(worker, body);
            own.adopt();
        });
        if (!scheduled) break;  // no memory for a task: those that run will do
    }
    work->take(0, body);
    work->wait();
}

}  // namespace detail
}  // namespace headwise
