// Where scopes leave their traces: a log for each thread that only this thread appends to, without a lock, and that
// others may read while it grows. What is recorded is turned into numbers elsewhere (recording.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <headwise/attributes.hpp>
#include <headwise/harness/memory_count.hpp>
#include <headwise/harness/work.hpp>
#include <headwise/harness/timers.hpp>

namespace headwise::detail {

inline constexpr std::uint32_t none = ~std::uint32_t{0};
inline constexpr std::int64_t still_open = INT64_MIN;

/// One run of one scope. 32 bytes, since fresh memory is most of what recording costs: with 64 it was 13 ns more.
struct event {
    const char* name;
    std::int64_t begin;
    std::atomic<std::int64_t> end;  // `still_open` until it ends
    std::uint32_t parent, extra;    // index in this log of the scope around it, and of what few scopes have; or `none`
};

/// What a scope was told of its work, and its memory where that is counted: from begin to end, once it has ended.
struct event_extra {
    const char* shape = nullptr;
    work done;
    memory_count memory;
    bool memory_counted = false;
};

/// A value at a moment.
struct sample {
    const char* name;
    std::int64_t time;
    double value;
};

inline constexpr std::size_t first_piece = std::size_t{64} << 10, huge_page = std::size_t{2} << 20;

/// Memory for logs: malloc's, so that it is not counted as the program's own, and never given back. In huge pages where
/// the system has them: in small ones a scope in fresh memory cost 57 ns, in these 48, of which the clock 42.
inline void* log_memory(std::size_t bytes) noexcept {
    void* const memory = std::aligned_alloc(bytes >= huge_page ? huge_page : 64, bytes);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory != nullptr && bytes >= huge_page) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

/// A list that grows at its end and whose elements never move. The owner appends and then publishes; any thread may
/// read what it has seen published.
template <class T>
class chunk_list {
public:
    /// Room for one more, not yet published; null without memory.
    [[nodiscard]] T* append() noexcept {
        if (next_ == end_ && !grow()) return nullptr;
        return ::new (static_cast<void*>(next_++)) T;
    }
    void publish() noexcept { size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

    [[nodiscard]] std::uint32_t size() const noexcept { return size_.load(std::memory_order_acquire); }

    void clear() noexcept {
        size_.store(0, std::memory_order_release);
        last_ = nullptr;
        next_ = end_ = nullptr;
    }

    /// Calls f with each of the first `count`, in order; `count` is at most a `size()` seen before.
    template <class F>
    void for_each(std::uint32_t count, const F& f) const {
        const chunk* at = count == 0 ? nullptr : first_;
        for (std::size_t left = count; left > 0; at = at->next) {
            const std::size_t here = left < at->capacity ? left : at->capacity;
            for (std::size_t i = 0; i < here; ++i) f(at->items[i]);
            if ((left -= here) == 0) break;
        }
    }

private:
    struct chunk {
        chunk* next;
        std::size_t capacity;
        T* items;  // a cache line further on
    };

    [[nodiscard]] static chunk* make_chunk(std::size_t bytes) noexcept {
        constexpr std::size_t header = 64;
        void* const memory = log_memory(bytes);
        if (memory == nullptr) return nullptr;
        T* const items = reinterpret_cast<T*>(static_cast<char*>(memory) + header);
        return ::new (memory) chunk{nullptr, (bytes - header) / sizeof(T), items};
    }

    HEADWISE_COLD bool grow() noexcept {
        chunk*& link = last_ == nullptr ? first_ : last_->next;
        if (link == nullptr) link = make_chunk(last_ == nullptr ? first_piece : huge_page);
        if (link == nullptr) return false;
        last_ = link;
        next_ = link->items;
        end_ = next_ + link->capacity;
        return true;
    }

    chunk* first_ = nullptr;
    chunk* last_ = nullptr;
    T* next_ = nullptr;
    T* end_ = nullptr;
    std::atomic<std::uint32_t> size_{0};
};

/// A thread's own log. `session` says whose recording it holds.
struct thread_log {
    std::int64_t (*now)() noexcept = nullptr;
    std::atomic<std::uint32_t> session{0};
    std::uint32_t open = none;  // the innermost scope that is open
    std::uint32_t left = 0;     // how many more events and samples may be recorded
    chunk_list<event> events;
    chunk_list<event_extra> extras;
    chunk_list<sample> samples;
    std::atomic<std::uint64_t> lost{0};  // scopes and samples that found no room
    std::atomic<const char*> name{nullptr};
    int number = 0;          // threads count from 1, in the order in which they were first seen
    bool abandoned = false;  // its thread has ended
    thread_log* next = nullptr;
};

/// What all threads share. Everything but `session` is guarded by the mutex.
struct recorder {
    std::atomic<std::uint32_t> session{0};  // 0: nothing is recorded
    std::mutex mutex;
    thread_log* logs = nullptr;  // never freed: adopted by a later thread
    profile_clock clock{&steady_ns::now, true};
    std::uint32_t most_events = 0, last_session = 0;
    int threads = 0;
};

inline constinit recorder the_recorder{};

inline constinit thread_local thread_log* this_log = nullptr;
inline constinit thread_local const char* this_thread_name = nullptr;
inline constinit thread_local bool this_thread_ends = false;

/// At a thread's end its log is left to whoever comes, with the events still in it.
struct log_guard {
    log_guard() = default;
    log_guard(const log_guard&) = delete;
    log_guard& operator=(const log_guard&) = delete;
    ~log_guard() {
        const std::lock_guard lock(the_recorder.mutex);
        this_log->abandoned = true;
        this_log = nullptr;
        this_thread_ends = true;  // scopes in destructors that run after this one are not recorded
    }
};

/// A log for a thread that has none: one left behind by a thread of an earlier session, or a new one.
inline thread_log* adopt_log(std::uint32_t session) noexcept {
    for (thread_log* log = the_recorder.logs; log != nullptr; log = log->next) {
        if (!log->abandoned || log->session.load(std::memory_order_relaxed) == session) continue;
        log->abandoned = false;
        return log;
    }
    void* const memory = std::malloc(sizeof(thread_log));
    if (memory == nullptr) return nullptr;
    auto* const log = new (memory) thread_log;
    log->next = the_recorder.logs;
    the_recorder.logs = log;
    return log;
}

/// The calling thread's log, made ready for what is being recorded now; null when nothing is. The one lock that a
/// thread takes in a session.
HEADWISE_COLD inline thread_log* enter_session() noexcept {
    if (this_thread_ends) return nullptr;
    const std::lock_guard lock(the_recorder.mutex);
    const std::uint32_t session = the_recorder.session.load(std::memory_order_relaxed);
    if (session == 0) return nullptr;
    if (this_log == nullptr) {
        this_log = adopt_log(session);
        if (this_log == nullptr) return nullptr;
        this_log->number = ++the_recorder.threads;
        static thread_local const log_guard guard;
        (void)guard;
    }
    thread_log& log = *this_log;
    log.now = the_recorder.clock.now;
    log.open = none;
    log.left = the_recorder.most_events;
    log.lost.store(0, std::memory_order_relaxed);
    log.name.store(this_thread_name, std::memory_order_relaxed);
    log.events.clear();
    log.extras.clear();
    log.samples.clear();
    log.session.store(session, std::memory_order_release);
    return &log;
}

[[nodiscard]] inline thread_log* log_of(std::uint32_t session) noexcept {
    thread_log* const log = this_log;
    if (log != nullptr && log->session.load(std::memory_order_relaxed) == session) [[likely]]
        return log;
    return enter_session();
}

}  // namespace headwise::detail
