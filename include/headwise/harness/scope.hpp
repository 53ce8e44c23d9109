// Scopes: what a profile records. `HEADWISE_SCOPE("pack K");` times the rest of its block.
//
// They nest, on each thread for itself, and cost nothing to speak of while no profile records: one relaxed load.
// Recording one costs two readings of the clock and some 10 ns. With HEADWISE_NO_SCOPES the macros are nothing at all.
//
// Names, shapes and the names of threads are kept as pointers: string literals, or text that stays where it is for as
// long as profiles are read. `interned(text)` makes such text of any other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <headwise/attributes.hpp>
#include <headwise/harness/event_log.hpp>
#include <headwise/harness/interned.hpp>
#include <headwise/probe.hpp>

namespace headwise {

/// From its making to the end of its block. Always a local variable: scopes end in the reverse order of their making,
/// on their own thread (so none is held across a coroutine's suspension).
class scope {
public:
    explicit scope(const char* name) noexcept {
        if (is_recording()) [[unlikely]]
            begin(name, nullptr, nullptr);
    }

    /// `done`: the work of this run, for FLOP/s, bytes/s and the share of the limit. `shape`: what tells runs of one
    /// name apart, such as "(8, 12, 197, 64)"; may be null.
    scope(const char* name, const work& done, const char* shape = nullptr) noexcept {
        if (is_recording()) [[unlikely]]
            begin(name, &done, shape);
    }

    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    static void* operator new(std::size_t) = delete;

    ~scope() {
        if (log_ != nullptr) [[unlikely]]
            end();
    }

private:
    [[nodiscard]] static bool is_recording() noexcept {
        return detail::the_recorder.session.load(std::memory_order_relaxed) != 0;
    }
    void begin(const char* name, const work* done, const char* shape) noexcept;
    void end() noexcept;

    detail::thread_log* log_ = nullptr;  // null: this run is not recorded, and the rest is not set
    detail::event* event_;
    detail::event_extra* extra_;
    std::uint32_t session_;
};

namespace detail {

/// What few scopes have, for the event that comes next; null where there is no memory for it.
inline event_extra* describe(thread_log& log, const work* done, const char* shape) noexcept {
    event_extra* const extra = log.extras.append();
    if (extra == nullptr) return nullptr;
    if (done != nullptr) extra->done = *done;
    extra->shape = shape;
    extra->memory_counted = memory_is_counted();
    extra->memory = thread_memory;
    log.extras.publish();
    return extra;
}

}  // namespace detail

HEADWISE_NOINLINE inline void scope::begin(const char* name, const work* done, const char* shape) noexcept {
    using namespace detail;
    thread_log* const log = log_of(the_recorder.session.load(std::memory_order_relaxed));
    if (log == nullptr) return;
    event* const fresh = log->left == 0 ? nullptr : log->events.append();
    if (fresh == nullptr) {
        log->lost.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    --log->left;
    log_ = log;
    event_ = fresh;
    session_ = log->session.load(std::memory_order_relaxed);
    const std::uint32_t extra = log->extras.size();
    extra_ = done != nullptr || memory_is_counted() ? describe(*log, done, shape) : nullptr;
    fresh->name = name;
    fresh->parent = log->open;
    fresh->extra = extra_ != nullptr ? extra : none;
    fresh->end.store(still_open, std::memory_order_relaxed);
    log->open = log->events.size();
    fresh->begin = log->now();
    log->events.publish();
}

HEADWISE_NOINLINE inline void scope::end() noexcept {
    const std::int64_t now = log_->now();
    if (log_->session.load(std::memory_order_relaxed) != session_) return;  // a later recording has taken the log
    if (extra_ != nullptr && extra_->memory_counted) {
        memory_count inside = detail::thread_memory;
        inside -= extra_->memory;
        extra_->memory = inside;
    }
    log_->open = event_->parent;
    event_->end.store(now, std::memory_order_release);
}

/// A value at this moment, such as the length of a queue: drawn as a curve in a trace.
inline void record_value(const char* name, double value) noexcept {
    const std::uint32_t session = detail::the_recorder.session.load(std::memory_order_relaxed);
    if (session == 0) return;
    detail::thread_log* const log = detail::log_of(session);
    if (log == nullptr) return;
    detail::sample* const fresh = log->left == 0 ? nullptr : log->samples.append();
    if (fresh == nullptr) {
        log->lost.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    --log->left;
    *fresh = {name, log->now(), value};
    log->samples.publish();
}

/// The calling thread's name in traces, for as long as it runs.
inline void name_thread(const char* name) noexcept {
    detail::this_thread_name = name;
    if (detail::this_log != nullptr) detail::this_log->name.store(name, std::memory_order_release);
}

#if defined(HEADWISE_PROFILE_OPERATIONS)
namespace detail {

static_assert(sizeof(scope) <= sizeof(probe_state) && alignof(scope) <= alignof(probe_state));

inline void begin_probe(probe_state& state, const char* name) noexcept {
    ::new (static_cast<void*>(&state)) scope(name);
}
inline void end_probe(probe_state& state) noexcept { std::launder(reinterpret_cast<scope*>(&state))->~scope(); }

inline const bool probes_connected = (probe_end = end_probe, probe_begin = begin_probe, true);

}  // namespace detail
#endif

}  // namespace headwise

#if defined(HEADWISE_NO_SCOPES)
#define HEADWISE_SCOPE(...) static_assert(true)
#else
/// HEADWISE_SCOPE(name), or (name, {.flops = ..., .bytes_read = ..., .bytes_written = ...}, shape). With
/// HEADWISE_NO_SCOPES its arguments are not evaluated.
#define HEADWISE_SCOPE(...) const ::headwise::scope HEADWISE_SCOPE_NAME(__LINE__)(__VA_ARGS__)
#endif
#define HEADWISE_SCOPE_NAME(line) HEADWISE_SCOPE_JOINED(line)
#define HEADWISE_SCOPE_JOINED(line) headwise_scope_##line
