// One implementation under comparison: how it is named, called, timed, and what is kept of what it returns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/attributes.hpp>
#include <headwise/harness/gate.hpp>
#include <headwise/harness/keep.hpp>
#include <headwise/harness/sampling.hpp>

namespace headwise {

struct no_setup {
    void operator()() const noexcept {}
};

/// One implementation: its name, and a callable that makes one call of it. `setup` is called, untimed, before every
/// call; each call is then timed on its own (in all arms), which calls below a microsecond do not bear well.
template <class Call, class Setup = no_setup>
struct arm {
    static_assert(std::is_invocable_v<Call&>, "arm: it is called without arguments: [&] { return f(x); }");
    explicit arm(std::string its_name, Call its_call, Setup its_setup = {})
        : name(std::move(its_name)), call(std::move(its_call)), setup(std::move(its_setup)) {}
    std::string name;
    Call call;
    Setup setup;
};

/// hot: calls follow one another. cold: before each call, untimed, twice as much memory as the caches hold is written.
/// both: hot, and then, for the last quarter of the budget, cold; the verdict is the hot one.
enum class cache_state { hot, cold, both };

namespace detail {

template <class>
inline constexpr bool is_arm = false;
template <class Call, class Setup>
inline constexpr bool is_arm<arm<Call, Setup>> = true;

/// Runs `f`; what it throws is nested in a `std::runtime_error` that names the arm.
template <class F>
decltype(auto) on_behalf_of([[maybe_unused]] const std::string& name, F&& f) {
#if defined(__cpp_exceptions)
    try {
        return f();
    } catch (const std::exception& e) {
        std::throw_with_nested(std::runtime_error("compare: arm '" + name + "' threw: " + e.what()));
    } catch (...) {
        std::throw_with_nested(
            std::runtime_error("compare: arm '" + name + "' threw something that is not a std::exception"));
    }
#else
    return f();
#endif
}

/// Puts other data where an arm's was: writes a buffer of twice the last cache's size.
class cache_eviction {
public:
    explicit cache_eviction(bool wanted) {
        if (!wanted) return;
        long size = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
        size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        buffer_.resize(2 * static_cast<std::size_t>(std::clamp(size, 8L << 20, 128L << 20)));
    }
    [[nodiscard]] explicit operator bool() const noexcept { return !buffer_.empty(); }
    void operator()() noexcept {
        for (std::size_t i = 0; i < buffer_.size(); i += 64) ++buffer_[i];
        keep();
    }

private:
    std::vector<unsigned char> buffer_;
};

/// An arm, what it last returned, and how its calls are timed.
template <class Arm>
struct contender {
    using result = std::invoke_result_t<decltype(Arm::call)&>;
    static constexpr bool has_setup = !std::is_same_v<decltype(Arm::setup), no_setup>;

    contender(Arm& its_arm) : self(its_arm) {}  // NOLINT(google-explicit-constructor): made in place, in a tuple

    Arm& self;
    kept_result<result> last{};

    /// The last call's result is kept, so that what is checked afterwards is what a timed call produced. Not inlined:
    /// arms of one type are measured by the same instructions at the same addresses. Inlined once for each arm, the
    /// loop around identical calls told them apart: by 5 ns an epoch, for seconds on end by 0.7 ns a call.
    template <class Clock>
    HEADWISE_NOINLINE epoch run(Clock& clock, std::size_t calls, bool lead_in, bool each_call, cache_eviction& evict) {
        return on_behalf_of(self.name, [&] {
            last.clear();
            if (lead_in && !each_call) call_once();
            return each_call ? run_each(clock, calls, evict) : run_row(clock, calls);
        });
    }

private:
    void call_once() {
        if constexpr (std::is_void_v<result>) {
            self.call();
            keep();
        } else {
            auto&& value = self.call();
            keep(value);
        }
    }
    void call_and_keep() {
        last.take(self.call);
        keep(last);
    }

    template <class Clock>
    epoch run_row(Clock& clock, std::size_t calls) {
        epoch e;
        e.before = clock.switches_so_far();
        const std::int64_t core = clock.on_core(), start = clock.now();
        for (std::size_t i = 1; i < calls; ++i) call_once();
        call_and_keep();
        e.wall = clock.now() - start;
        e.on_core = core < 0 ? -1 : clock.on_core() - core;
        e.after = clock.switches_so_far();
        return e;
    }

    template <class Clock>
    epoch run_each(Clock& clock, std::size_t calls, cache_eviction& evict) {
        epoch e;
        e.before = clock.switches_so_far();
        for (std::size_t i = 0; i < calls; ++i) {
            last.clear();
            self.setup();
            if (evict) evict();
            const std::int64_t start = clock.now();
            call_and_keep();
            e.wall += clock.now() - start;
        }
        e.after = clock.switches_so_far();
        return e;
    }
};

}  // namespace detail
}  // namespace headwise
