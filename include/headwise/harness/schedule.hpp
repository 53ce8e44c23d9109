// Which steps of a long loop are profiled: torch.profiler's schedule.
#pragma once

#include <string>

#include <headwise/error.hpp>

namespace headwise {

/// Steps in cycles: `wait` of them unprofiled, `warmup` recorded but thrown away (the first ones recorded pay for fresh
/// memory), `active` kept. `repeat` cycles, or without end for 0; `skip_first` steps before the first. With active = 0
/// there is no schedule: everything is one active step.
struct profile_schedule {
    long wait = 0, warmup = 0, active = 0, repeat = 0, skip_first = 0;
};

/// `save`: active, and the last of its cycle.
enum class profile_phase { none, warmup, active, save };

/// The phase of a step, counted from 0. Pure.
[[nodiscard]] constexpr profile_phase phase_at(const profile_schedule& schedule, long step) noexcept {
    if (schedule.active == 0) return profile_phase::active;
    step -= schedule.skip_first;
    const long cycle = schedule.wait + schedule.warmup + schedule.active;
    if (step < 0 || (schedule.repeat > 0 && step / cycle >= schedule.repeat)) return profile_phase::none;
    const long at = step % cycle;
    if (at < schedule.wait) return profile_phase::none;
    if (at < schedule.wait + schedule.warmup) return profile_phase::warmup;
    return at + 1 < cycle ? profile_phase::active : profile_phase::save;
}

namespace detail {

inline void check_schedule(const profile_schedule& s) {
    const long least = s.wait | s.warmup | s.active | s.repeat | s.skip_first;  // negative if any of them is
    if (least == 0 || (least > 0 && s.active > 0)) return;
    refuse("profile: schedule {.wait = " + std::to_string(s.wait) + ", .warmup = " + std::to_string(s.warmup) +
           ", .active = " + std::to_string(s.active) + ", .repeat = " + std::to_string(s.repeat) +
           ", .skip_first = " + std::to_string(s.skip_first) + "}: active must be at least 1, the others at least 0");
}

}  // namespace detail
}  // namespace headwise
