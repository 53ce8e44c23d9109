// What was recorded, copied out of the threads' logs: it no longer changes, and is cut at one moment.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/event_log.hpp>

namespace headwise {

/// One run of a scope. A scope stands before those inside it, so `parent` < its own index.
struct scope_run {
    const char* name;
    const char* shape;  // null: none
    std::int64_t begin, end;
    std::uint32_t parent, extra;  // index into the thread's runs and details; or detail::none
    bool open;                    // had not ended: `end` is the moment of the cut

    [[nodiscard]] std::int64_t duration() const noexcept { return end - begin; }
};

struct run_details {
    work done;
    memory_count memory;  // inside this run; zero where it is open or not counted
};

struct value_sample {
    const char* name;
    std::int64_t time;
    double value;
};

struct thread_recording {
    int number = 0;
    std::string name;  // empty: it has none
    std::vector<scope_run> runs;
    std::vector<run_details> details;
    std::vector<value_sample> values;
    std::uint64_t lost = 0;
};

/// Times are those of the profile's clock, in nanoseconds.
struct recording {
    std::int64_t start = 0, stop = 0;
    bool memory_counted = false;
    std::vector<thread_recording> threads;
};

namespace detail {

/// The runs that had begun at `cut`; those that had not ended then are cut off there. Where threads' clocks cannot be
/// compared, each is cut at the last moment that it has seen.
inline void copy_runs(const thread_log& log, bool shared, std::int64_t cut, thread_recording& out) {
    const std::uint32_t count = log.events.size();
    out.runs.reserve(count);
    std::int64_t latest = INT64_MIN;
    log.events.for_each(count, [&](const event& e) {
        const std::int64_t end = e.end.load(std::memory_order_acquire);
        latest = std::max({latest, e.begin, end});
        out.runs.push_back({e.name, nullptr, e.begin, end, e.parent, e.extra, end == still_open});
    });
    if (!shared) cut = latest;
    while (!out.runs.empty() && out.runs.back().begin > cut) out.runs.pop_back();
    for (scope_run& run : out.runs) {
        run.open = run.open || run.end > cut;
        if (run.open) run.end = cut;
    }
}

inline void copy_details(const thread_log& log, thread_recording& out) {
    std::vector<scope_run*> with_details;
    for (scope_run& run : out.runs) {
        if (run.extra != none) with_details.push_back(&run);
    }
    std::size_t at = 0;
    log.extras.for_each(static_cast<std::uint32_t>(with_details.size()), [&](const event_extra& extra) {
        scope_run& run = *with_details[at];
        run.shape = extra.shape;
        run.extra = static_cast<std::uint32_t>(at++);
        out.details.push_back({extra.done, {}});
        // An open scope's own counts are still being written.
        if (!run.open && extra.memory_counted) out.details.back().memory = extra.memory;
    });
}

/// Copies what session `session` has recorded until `cut`. The recorder's mutex is held.
inline recording copy_session(std::uint32_t session, std::int64_t start, std::int64_t cut) {
    recording result{start, cut, memory_is_counted(), {}};
    for (const thread_log* log = the_recorder.logs; log != nullptr; log = log->next) {
        if (log->session.load(std::memory_order_acquire) != session) continue;
        thread_recording& thread = result.threads.emplace_back();
        thread.number = log->number;
        if (const char* const name = log->name.load(std::memory_order_acquire)) thread.name = name;
        copy_runs(*log, the_recorder.clock.shared, cut, thread);
        copy_details(*log, thread);
        log->samples.for_each(log->samples.size(), [&](const sample& s) {
            if (!the_recorder.clock.shared || s.time <= cut) thread.values.push_back({s.name, s.time, s.value});
        });
        thread.lost = log->lost.load(std::memory_order_relaxed);
    }
    std::sort(result.threads.begin(), result.threads.end(),
              [](const thread_recording& a, const thread_recording& b) { return a.number < b.number; });
    return result;
}

/// Begins a session; there is never more than one.
inline std::uint32_t begin_session(const profile_clock& clock, std::uint32_t most_events) {
    const std::lock_guard lock(the_recorder.mutex);
    if (the_recorder.session.load(std::memory_order_relaxed) != 0)
        refuse(std::string("profile: another profile is recording; only one can at a time"));
    if (++the_recorder.last_session == 0) ++the_recorder.last_session;
    the_recorder.clock = clock;
    the_recorder.most_events = most_events;
    the_recorder.session.store(the_recorder.last_session, std::memory_order_release);
    return the_recorder.last_session;
}

}  // namespace detail
}  // namespace headwise
