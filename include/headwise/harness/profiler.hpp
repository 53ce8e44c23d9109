// Where does the time go? `profile p; ...; std::cout << p.table();`
//
//     scope.hpp          what marks the stretches of code
//     event_log.hpp      where their runs are written down, a log for each thread
//     recording.hpp      what has been written, copied out
//     profile_table.hpp  and summed up;  profile_text.hpp  and printed
//     trace.hpp          or drawn over time, in a trace viewer
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/keep.hpp>
#include <headwise/harness/profile_table.hpp>
#include <headwise/harness/profile_text.hpp>
#include <headwise/harness/recording.hpp>
#include <headwise/harness/schedule.hpp>
#include <headwise/harness/scope.hpp>
#include <headwise/harness/timers.hpp>

namespace headwise {

struct profile_options {
    profile_clock clock{&steady_ns::now, true};  ///< `clock_of<tsc_ns>()` is cheaper, `<thread_cpu_ns>` omits waiting
    profile_schedule schedule{};                 ///< by default everything, from making to `stop()`
    std::uint32_t most_events = 1u << 24;        ///< of each thread, values too: 32 bytes, or 112 with memory or work
};

/// Records the scopes of all threads from its making until `stop()` or its end. One profile records at a time: making
/// or starting a second meanwhile is refused. Its functions are called from one thread; scopes run on any.
class profile {
public:
    explicit profile(const profile_options& options = {}) : options_(options) {
        detail::check_schedule(options_.schedule);
        if (options_.clock.now == nullptr) detail::refuse(std::string("profile: clock.now must not be null"));
        start();
    }
    profile(const profile&) = delete;
    profile& operator=(const profile&) = delete;
    ~profile() {
        if (session_ != 0) end_session(false);
    }

    /// Records again, or, with a schedule, begins it again; what was recorded before is kept. Refused while recording.
    void start() {
        step_ = 0;
        stopped_ = false;
        if (phase() != profile_phase::none) begin_session();
    }

    /// Scopes that have not ended count up to this moment. A profile that is not recording is left as it is.
    void stop() {
        stopped_ = true;
        if (session_ != 0) end_session(phase() != profile_phase::warmup);
    }

    /// The end of a step, and the beginning of the next one, of the schedule; without one it does nothing. True when an
    /// active stretch has ended with it: the moment to look at the table or to write the trace.
    bool step() {
        if (options_.schedule.active == 0 || stopped_) return false;
        const profile_phase before = phase();
        ++step_;
        const profile_phase after = phase();
        if (before == profile_phase::save) end_session(true);
        if (before == profile_phase::warmup && after != profile_phase::warmup) end_session(false);
        if (after != profile_phase::none && session_ == 0) begin_session();
        return before == profile_phase::save;
    }

    [[nodiscard]] bool is_recording() const noexcept { return session_ != 0; }

    /// All that was recorded and kept, and what has been recorded until now.
    [[nodiscard]] std::vector<recording> recordings() const {
        std::vector<recording> all = finished_;
        if (session_ != 0) {
            const std::int64_t now = options_.clock.now();
            const std::lock_guard lock(detail::the_recorder.mutex);
            all.push_back(detail::copy_session(session_, start_, now));
        }
        return all;
    }

    /// A table of it. Asking changes nothing; other threads may go on meanwhile.
    [[nodiscard]] profile_table table(const table_options& options = {}) const {
        if (session_ == 0) return tabulate(finished_, options);
        return tabulate(recordings(), options);
    }

private:
    [[nodiscard]] profile_phase phase() const noexcept { return phase_at(options_.schedule, step_); }

    void begin_session() {
        const std::int64_t now = options_.clock.now();  // before any thread's first scope
        session_ = detail::begin_session(options_.clock, std::min(options_.most_events, detail::none - 1));
        start_ = now;
    }

    void end_session(bool keep_it) {
        const std::int64_t now = options_.clock.now();
        const std::lock_guard lock(detail::the_recorder.mutex);
        detail::the_recorder.session.store(0, std::memory_order_relaxed);
        const std::uint32_t session = std::exchange(session_, 0);
        if (keep_it) finished_.push_back(detail::copy_session(session, start_, now));
    }

    profile_options options_;
    std::uint32_t session_ = 0;  // 0: not recording
    std::int64_t start_ = 0;
    long step_ = 0;
    bool stopped_ = false;
    std::vector<recording> finished_;
};

/// What recording costs here, in nanoseconds: one scope that holds nothing, and two readings of the same clock, below
/// which no scope can go.
struct scope_cost {
    double scope_ns = 0, two_readings_ns = 0;
    [[nodiscard]] double ratio() const noexcept { return scope_ns / two_readings_ns; }
};

/// Measured in some milliseconds: the least of interleaved rounds. Refused while a profile records.
[[nodiscard]] inline scope_cost measure_scope_cost(const profile_clock& clock = {&steady_ns::now, true}) {
    constexpr int rounds = 64, calls = 512;
    const profile recording({.clock = clock, .most_events = rounds * calls});
    scope_cost least{1e300, 1e300};
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t start = steady_ns::now();
        for (int i = 0; i < calls; ++i) {
            const scope nothing("nothing");
            keep();
        }
        const std::int64_t middle = steady_ns::now();
        for (int i = 0; i < calls; ++i) {
            std::int64_t first = clock.now(), second = clock.now();
            keep(first), keep(second);
        }
        const std::int64_t end = steady_ns::now();
        least.scope_ns = std::min(least.scope_ns, static_cast<double>(middle - start) / calls);
        least.two_readings_ns = std::min(least.two_readings_ns, static_cast<double>(end - middle) / calls);
    }
    return least;
}

}  // namespace headwise
