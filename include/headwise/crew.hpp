// Threads that stay awake for a moment: work that is over before a sleeping thread has woken up can be shared with
// them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Eigen 3.4 keeps its pool among the unsupported headers, Eigen 5 does not.
#if __has_include(<Eigen/ThreadPool>)
#include <Eigen/ThreadPool>
#else
#include <unsupported/Eigen/CXX11/ThreadPool>
#endif

#include <headwise/attributes.hpp>

namespace headwise {

/// What runs tasks: an `Eigen::ThreadPool`, or anything else with its interface.
using thread_pool = Eigen::ThreadPoolInterface;

namespace detail {

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

/// Keeps the threads of a pool off the processor of their caller, if there is another that they were created to run on.
/// Linux likes to wake a thread where the one that woke it runs, and lets the two share that processor for
/// milliseconds: with it, (8,12,197,197,64) on two threads was no faster than on one, without it 1.8 times.
class processor_guard {
public:
    /// To be told by each of the threads, once or more.
    void enlist() noexcept {
#if defined(__linux__)
        static thread_local const processor_guard* listed_by = nullptr;
        if (listed_by == this) return;
        listed_by = this;
        if (const int i = count_.fetch_add(1); i < most) threads_[i].store(static_cast<int>(syscall(SYS_gettid)));
        avoided_.store(-1);  // not by this one, so far; once it is listed, or a call in between would be forgotten
#endif
    }
    /// From now on they leave this processor alone.
    void avoid([[maybe_unused]] int processor) noexcept {
#if defined(__linux__)
        if (processor < 0 || avoided_.exchange(processor) == processor) return;
        cpu_set_t others = allowed_;
        CPU_CLR(static_cast<std::size_t>(processor), &others);
        if (CPU_COUNT(&others) == 0) return;
        for (int i = 0; i < std::min(count_.load(), most); ++i)
            if (const int thread = threads_[i].load(); thread != 0) sched_setaffinity(thread, sizeof others, &others);
#endif
    }

private:
#if defined(__linux__)
    static constexpr int most = 256;
    cpu_set_t allowed_ = [] {
        cpu_set_t as_created;
        CPU_ZERO(&as_created);
        sched_getaffinity(0, sizeof as_created, &as_created);
        return as_created;
    }();
    std::atomic<int> avoided_{-1}, count_{0}, threads_[most] = {};
#endif
};

/// Tells the processor that this thread only waits.
HEADWISE_INLINE void relax() noexcept {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// The pieces of one `parallel_for`, and what a thread needs to know to take some. Each worker begins with a share of
/// its own, the same one in every call, so that what it read and wrote the last time is in its cache; then it takes
/// what is left of others'.
class shared_pieces {
public:
    /// `body(worker, i)` for i in [0, count), on the caller, worker 0, and up to `workers - 1` others.
    template <class Body>
    shared_pieces(int workers, std::ptrdiff_t count, const Body& body)
        : workers_(workers),
          body_(&body),
          call_([](const void* f, int worker, std::ptrdiff_t i) { (*static_cast<const Body*>(f))(worker, i); }),
          shares_(std::min(workers, most_shares)) {
        for (int i = 0; i < shares_; ++i) {
            share_[i].next.store(count / shares_ * i + std::min<std::ptrdiff_t>(i, count % shares_),
                                 std::memory_order_relaxed);
            share_[i].end = count / shares_ * (i + 1) + std::min<std::ptrdiff_t>(i + 1, count % shares_);
        }
    }

    [[nodiscard]] int helpers_wanted() const noexcept { return workers_ - 1; }

    void take(int worker) {
        for (int i = 0; i < shares_; ++i) {
            share& from = share_[(worker + i) % shares_];
            for (std::ptrdiff_t piece; (piece = from.next.fetch_add(1, std::memory_order_relaxed)) < from.end;)
                call_(body_, worker, piece);
        }
    }
    /// By another thread than the caller.
    void help() {
        const int worker = 1 + helpers_.fetch_add(1, std::memory_order_relaxed);
        if (worker >= workers_) return;
        const arithmetic_mode own;
        mode_.adopt();  // a caller that rounds upwards gets every result rounded upwards
        take(worker);
        own.adopt();
    }

private:
    static constexpr int most_shares = 16;
    struct alignas(64) share {
        std::atomic<std::ptrdiff_t> next;
        std::ptrdiff_t end;
    };

    int workers_;
    const void* body_;
    void (*call_)(const void*, int, std::ptrdiff_t);
    arithmetic_mode mode_;
    std::atomic<int> helpers_{0};
    int shares_;
    share share_[most_shares];
};

/// Threads of a pool that help a caller. One that has helped waits awake for more, `patience` long, before it goes back
/// to the pool. To it, work passes within 0.2 us and without an allocation, where waking a thread costs the caller some
/// 10 us, and it begins 30 us later (a virtual machine, Linux 6.18).
class crew {
public:
    /// `guard`, where there is one, keeps the helpers off the processor of their caller.
    explicit crew(std::chrono::microseconds patience, processor_guard* guard = nullptr) noexcept
        : patience_(patience), guard_(guard) {}

    /// Helpers that are awake or on their way.
    [[nodiscard]] int awake() const noexcept { return awake_.load(std::memory_order_relaxed); }

    /// Does the work with as many helpers as it wants, waking those that sleep. False, and nothing done, while the crew
    /// is at another caller's. `owner` points to the crew and keeps it for as long as a task is in the pool's queue.
    /// The caller waits for what has begun, never for such a task.
    template <class Owner>
    [[nodiscard]] static bool share(const Owner& owner, thread_pool& pool, shared_pieces& work) {
        crew& helpers = *owner;
        if (helpers.taken_.exchange(true, std::memory_order_acquire)) return false;
        const int here = helpers.guard_ != nullptr ? current_processor() : -1;
        helpers.caller_.store(here);
        helpers.offered_.store(&work);
        helpers.turn_.fetch_add(1);
        // Counted once: in a pool that runs a task where it is scheduled, or fast enough, each helper has left again.
        for (int missing = work.helpers_wanted() - helpers.awake_.load(); missing > 0; --missing) {
            helpers.awake_.fetch_add(1);
            if (helpers.guard_ != nullptr) helpers.guard_->avoid(here);
            if (try_schedule(pool, [owner] { owner->attend(); })) continue;
            helpers.awake_.fetch_sub(1);  // no memory for a task: those that run will do
            break;
        }
        work.take(0);
        helpers.offered_.store(nullptr);
        helpers.wait_for_helpers();
        helpers.taken_.store(false, std::memory_order_release);
        return true;
    }

private:
    using clock = std::chrono::steady_clock;

    /// Calls `look` until it returns true or `time` has passed; which of the two.
    template <class Look>
    static bool wait_awake(std::chrono::microseconds time, const Look& look) {
        constexpr int looks_between_clocks = 32;
        for (const auto start = clock::now();;) {
            for (int i = 0; i < looks_between_clocks; ++i, relax())
                if (look()) return true;
            if (clock::now() - start >= time) return false;
        }
    }

    /// What is still at work elsewhere is a fraction of the whole: looking for its end costs less than being woken.
    void wait_for_helpers() {
        if (wait_awake(std::chrono::microseconds(50), [this] { return helping_.load() == 0; })) return;
        for (int still; (still = helping_.load()) != 0;) helping_.wait(still);
    }

    /// Either this thread sees that the work is withdrawn, or the caller sees that it is being helped: each writes
    /// before it reads, in the one order that all threads agree on.
    void help() {
        helping_.fetch_add(1);
        if (guard_ != nullptr) {
            guard_->enlist();
            if (const int caller = caller_.load(); current_processor() == caller) guard_->avoid(caller);
        }
        if (shared_pieces* const work = offered_.load()) work->help();
        if (helping_.fetch_sub(1) == 1) helping_.notify_all();
    }

    /// What a helper does from when it is woken until it has waited in vain. Before it leaves it says so and looks once
    /// more: either the caller misses it, and wakes another, or it sees the caller's turn.
    void attend() {
        for (std::uint32_t seen = turn_.load() - 1;;) {
            if (wait_awake(patience_, [&] { return turn_.load() != seen; })) {
                seen = turn_.load();
                help();
                continue;
            }
            awake_.fetch_sub(1);
            if (turn_.load() == seen) return;
            awake_.fetch_add(1);
        }
    }

    const std::chrono::microseconds patience_;
    processor_guard* const guard_;
    std::atomic<int> caller_{-1};     // its processor
    std::atomic<bool> taken_{false};  // by a caller, until its work is done
    std::atomic<int> awake_{0};
    alignas(64) std::atomic<std::uint32_t> turn_{0};  // counts the works; what waiting helpers look at
    std::atomic<shared_pieces*> offered_{nullptr};
    std::atomic<int> helping_{0};
};

}  // namespace detail
}  // namespace headwise
