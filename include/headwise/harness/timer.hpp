// A monotonic stopwatch, and the warm-up that comes before it.
#pragma once

#include <chrono>

namespace headwise {

/// A stopwatch on `std::chrono::steady_clock`: it starts when it is made and is never set back by a clock adjustment.
class timer {
public:
    using clock = std::chrono::steady_clock;

    timer() noexcept : start_(clock::now()) {}

    /// Wall time since construction or the last `restart()`, in milliseconds.
    [[nodiscard]] double elapsed_ms() const noexcept {
        return std::chrono::duration<double, std::milli>(clock::now() - start_).count();
    }

    void restart() noexcept { start_ = clock::now(); }

private:
    clock::time_point start_;
};

/// Calls `f` `times` times, untimed, so that first-call costs (page faults, cold caches, lazy set-up) are paid outside
/// the measurement that follows. A count of zero or less calls nothing.
template <class Callable>
void warmup(Callable&& f, int times = 1) {
    for (int i = 0; i < times; ++i) f();
}

}  // namespace headwise
