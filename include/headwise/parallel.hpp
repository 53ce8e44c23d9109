// Work over threads: on Eigen's own thread pool, shared by the whole program, or on one that the caller hands over.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <headwise/crew.hpp>
#include <headwise/processor_limit.hpp>
#include <headwise/stay_loaded.hpp>

namespace headwise::detail {

/// The threads of a pool as far as the system gives any: the tasks of one that it does not give are taken by others, or
/// by nobody, and then the caller does the work. (Eigen's own pool hangs when it is half made.)
struct thread_environment : Eigen::StlThreadEnvironment {
    class EnvThread {
    public:
        explicit EnvThread(std::function<void()> body) {
#if defined(__cpp_exceptions)
            try {
                thread_ = std::thread(std::move(body));
            } catch (const std::system_error&) {
                return;
            }
#else
            thread_ = std::thread(std::move(body));
#endif
        }
        EnvThread(const EnvThread&) = delete;
        EnvThread& operator=(const EnvThread&) = delete;
        ~EnvThread() {
            if (thread_.joinable()) thread_.join();
        }
        void OnCancel() noexcept {}

    private:
        std::thread thread_;
    };
    [[nodiscard]] EnvThread* CreateThread(std::function<void()> body) { return new EnvThread(std::move(body)); }
};

/// The threads behind `threads != 1` where the caller hands no pool over, a pool and its helpers: one for the process,
/// made at the first such call, with a thread fewer than there are processors to use, since the calling thread works
/// too. Never destroyed, so that a static object's destructor may still compute; nor is the shared library that it is
/// in unloaded any more. A child process that `fork` made has none of its parent's threads: it gets a pool of its own.
class shared_threads {
public:
    Eigen::ThreadPoolTempl<thread_environment> pool{std::max(1, hardware_threads() - 1)};
    processor_guard guard;
    crew helpers{std::chrono::microseconds(50), &guard};

    [[nodiscard]] static shared_threads& get() {
        if (shared_threads* const made = made_.load(std::memory_order_acquire)) return *made;
#if defined(__unix__) || defined(__APPLE__)
        [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { made_.store(nullptr); });
#endif
        auto mine = std::make_unique<shared_threads>();
        shared_threads* found = nullptr;
        if (made_.compare_exchange_strong(found, mine.get(), std::memory_order_acq_rel)) return *mine.release();
        return *found;  // another thread was first
    }
    /// Helpers that are awake or on their way.
    [[nodiscard]] static int awake() noexcept {
        const shared_threads* const made = made_.load(std::memory_order_acquire);
        return made == nullptr ? 0 : made->helpers.awake();
    }

private:
    static inline constinit std::atomic<shared_threads*> made_{nullptr};
};

/// Calls `body(worker, i)` for every i in [0, count): on the calling thread (worker 0) and on up to `workers - 1`
/// threads of the pool (null: the shared one). Each worker takes the next i when it is free. Returns when all is done.
/// `body` does not throw. The caller waits for what has begun, never for a task that is still in a queue: so calls from
/// inside tasks of this pool, or of two pools crosswise, cannot wait for each other.
template <class Body>
void parallel_for(thread_pool* pool, int workers, std::ptrdiff_t count, const Body& body) {
    if (workers > count) workers = static_cast<int>(count);
    if (workers <= 1) {
        for (std::ptrdiff_t i = 0; i < count; ++i) body(0, i);
        return;
    }
    stay_loaded();
    shared_pieces work(workers, count, body);
    if (pool == nullptr) {
        shared_threads& threads = shared_threads::get();
        if (crew::share(&threads.helpers, threads.pool, work)) return;
        pool = &threads.pool;
    }
    const auto once = std::make_shared<crew>(std::chrono::microseconds(0));
    static_cast<void>(crew::share(once, *pool, work));
}

/// How many threads a call may use, for which its memory is planned, and how many of them it does use, now.
struct thread_use {
    int most, now;
};

/// When the last call of this thread that might have used others ended.
inline std::chrono::steady_clock::time_point& last_call() noexcept {
    static constinit thread_local std::chrono::steady_clock::time_point ended{};
    return ended;
}

/// To be told after each call for which `choose_threads` named more than one.
inline void note_call(const thread_use& threads) noexcept {
    if (threads.most > 1) last_call() = std::chrono::steady_clock::now();
}

/// What each thread must have to do, in nanoseconds: where it has to be woken, and where it is awake.
inline constexpr double worth_waking = 50'000, worth_sharing = 1'000;

/// For a call that takes `nanoseconds` on one thread and may use up to `wanted` (0: all) of `pool` (null: the shared
/// one). Work that is worth it wakes threads. Less work goes to those that are awake; and where the last call ended
/// just now, so that more are likely to follow, it wakes one for them: (4,4,32,32,32), 5 us, again and again, runs 1.6
/// times as fast on two threads.
[[nodiscard]] inline thread_use choose_threads(int wanted, double nanoseconds, const thread_pool* pool) {
    const int available = pool == nullptr || wanted == 0 ? hardware_threads() : wanted;
    const int all = wanted == 0 ? available : std::min(wanted, available);
    const auto threads_for = [&](double each) {
        return static_cast<int>(std::clamp(nanoseconds / each, 1.0, static_cast<double>(all)));
    };
    const int woken = threads_for(worth_waking), shared = threads_for(worth_sharing);
    if (woken == shared || pool != nullptr) return {woken, woken};
    const bool again = std::chrono::steady_clock::now() - last_call() < std::chrono::microseconds(5);
    const int ready = 1 + shared_threads::awake() + (again ? 1 : 0);
    return {shared, std::max(woken, std::min(shared, ready))};
}

/// The time of a call on one thread, in nanoseconds, roughly: what today's processors do with AVX-512, or with memory.
[[nodiscard]] constexpr double expected_nanoseconds(double flops, double bytes) noexcept {
    constexpr double flops_per_nanosecond = 240, bytes_per_nanosecond = 30;
    return std::max(flops / flops_per_nanosecond, bytes / bytes_per_nanosecond);
}

}  // namespace headwise::detail
