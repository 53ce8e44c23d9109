// The scheduler: which arm runs when, how many calls at a time, and when it is enough. It measures; it judges nothing.
//
// An *epoch* is a row of calls of one arm between two readings of the clock; every epoch of every arm has the same
// number of calls. A *block* runs each arm's epoch in a random order and then in the mirror of it (ABBA or BAAB by the
// toss of a coin; for more arms a random permutation, which balances carry-over too), so that drift which is linear
// over the block cancels, and so that identical code gives +x and -x equally often. Epochs last about 100 us: a timer
// tick or a hypervisor's excursion of 20 us hits 2-3 % of them, a scheduler slice of 3-4 ms holds some thirty, and a
// block loses nothing as long as each arm keeps one of its two epochs.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <headwise/harness/system_noise.hpp>

namespace headwise::detail {

template <class Clock>
concept sampling_clock = requires(Clock& clock) {
    { clock.now() } -> std::same_as<std::int64_t>;
    { clock.on_core() } -> std::same_as<std::int64_t>;
    { clock.switches_so_far() } -> std::same_as<switches>;
};

/// One epoch as it was read: nanoseconds on the wall and on a core, and what happened to the thread meanwhile.
struct epoch {
    std::int64_t wall = 0;
    std::int64_t on_core = -1;  ///< -1: not known
    switches before, after;
};

/// Times `calls` calls of an arm; `lead_in` asks for an untimed call first, so that the caches and predictors which the
/// other arms have just used are this arm's again.
template <class Clock>
using runner = std::function<epoch(Clock&, std::size_t calls, bool lead_in)>;

/// The epochs of one arm, in the order in which they ran: nanoseconds an epoch, and whether something came between.
struct arm_trace {
    std::vector<double> ns;
    std::vector<bool> spoiled;
};

/// All that was measured. Each arm has `epochs_per_block` epochs in every block; the control (arm 0 once more, under
/// another label) and the empty arm ride along in every eighth block only, since each costs the others time.
struct trace {
    std::size_t calls = 1;             ///< calls an epoch
    std::size_t epochs_per_block = 2;  ///< 2: mirrored; 1: pairs, when time allows too few blocks
    std::size_t blocks = 0;
    double tick_ns = 0;       ///< the least step that the clock was seen to make
    double reading_ns = 0;    ///< what a reading of it costs
    std::size_t rescued = 0;  ///< preempted epochs whose time on the core is known
    std::size_t look = 0;     ///< how often the data has been looked at, this time included
    std::vector<arm_trace> arms;
    arm_trace control, control_partner;  ///< arm 0 as "A/A", and arm 0 in the same blocks
    arm_trace empty;
};

/// When the data may be looked at, as shares of the budget, and the share of the permitted error that each look may
/// spend. They sum to one, so that the total error is as promised however many looks there are (the union bound); the
/// last look keeps nine tenths, so that early stopping costs the full run less than 3 % of its interval's width.
struct look {
    double at, error;
};
inline constexpr std::array<look, 7> looks{{{1.0 / 64, 0.002},
                                            {1.0 / 32, 0.003},
                                            {1.0 / 16, 0.005},
                                            {1.0 / 8, 0.01},
                                            {1.0 / 4, 0.02},
                                            {1.0 / 2, 0.06},
                                            {1.0, 0.90}}};

struct sampling_plan {
    std::int64_t start = 0, budget = 0;  ///< nanoseconds, on the sampler's clock
    std::int64_t epoch = 100'000;        ///< the length that an epoch should have
    std::size_t calls = 0;               ///< calls an epoch; 0: calibrate
    std::size_t blocks = 0;              ///< exactly so many; 0: as the budget allows
    bool lead_in = true;
    std::uint64_t seed = 0;
};

/// A small generator (SplitMix64, Steele, Lea & Flood 2014): the order of the arms must be unpredictable, nothing more.
class order_generator {
public:
    explicit order_generator(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t operator()() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /// A uniformly random permutation, in place (Fisher & Yates); the bias of the modulo is below 2^-55.
    void shuffle(std::vector<std::size_t>& order) noexcept {
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[static_cast<std::size_t>((*this)() % i)]);
    }

private:
    std::uint64_t state_;
};

template <sampling_clock Clock>
class sampler {
public:
    /// `runners`: the arms, then the empty one. `first_call`: what each arm's first call took, in
    /// nanoseconds, an upper bound.
    sampler(Clock& clock, const sampling_plan& plan, std::vector<runner<Clock>> runners, std::vector<double> first_call)
        : clock_(clock),
          plan_(plan),
          runners_(std::move(runners)),
          call_ns_(std::move(first_call)),
          random_(plan.seed) {
        trace_.arms.resize(runners_.size() - 1);
    }

    /// Measures until `enough(trace)` says so at one of the looks, the budget is spent, or the blocks asked for are
    /// done. `after_block(blocks)` is called after each.
    template <class Enough, class AfterBlock>
    trace run(Enough&& enough, const AfterBlock& after_block) {
        const std::int64_t step = tick();
        trace_.tick_ns = static_cast<double>(step);
        trace_.reading_ns = reading_cost();
        plan_.epoch =
            std::max(plan_.epoch, std::min(1000 * step, plan_.budget / 64));  // a coarse clock needs long epochs
        calibrate();
        settle();
        if (plan_.blocks != 0 || remaining() < 16 * 2 * round_ns_) trace_.epochs_per_block = 1;
        std::size_t next = 0;
        while (more()) {
            run_block();
            after_block(trace_.blocks);
            if (plan_.blocks != 0) continue;
            const double spent = 1 - remaining() / static_cast<double>(plan_.budget);
            if (next + 1 >= looks.size() || spent < looks[next].at) continue;
            while (next + 2 < looks.size() && spent >= looks[next + 1].at) ++next;
            trace_.look = next++;
            if (enough(std::as_const(trace_))) return std::move(trace_);
        }
        trace_.look = looks.size() - 1;
        return std::move(trace_);
    }

    template <class Enough>
    trace run(Enough&& enough) {
        return run(enough, [](std::size_t) {});
    }

private:
    double remaining() const { return static_cast<double>(plan_.start + plan_.budget - clock_.now()); }
    bool more() const {
        if (plan_.blocks != 0) return trace_.blocks < plan_.blocks;
        return remaining() >= round_ns_ * static_cast<double>(trace_.epochs_per_block);
    }
    std::size_t arms() const noexcept { return trace_.arms.size(); }
    bool lead_in() const noexcept {
        return plan_.lead_in && trace_.calls >= 8;
    }  // it costs an eighth of the time at most

    /// The least step that two readings in a row can be apart: the clock's resolution, or the cost of a reading.
    std::int64_t tick() {
        std::int64_t least = std::numeric_limits<std::int64_t>::max(), last = clock_.now();
        for (int i = 0; i < 1000; ++i) {
            const std::int64_t now = clock_.now();
            if (now > last) least = std::min(least, now - last);
            last = now;
        }
        return least == std::numeric_limits<std::int64_t>::max() ? 0 : least;
    }

    /// The least of ten means of a hundred: the clock may be coarse, and the thread interrupted.
    double reading_cost() {
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (int i = 0; i < 10; ++i) {
            const std::int64_t start = clock_.now();
            for (int reading = 1; reading < 100; ++reading) static_cast<void>(clock_.now());
            least = std::min(least, clock_.now() - start);
        }
        return static_cast<double>(least) / 100;
    }

    double read(std::size_t i, double calls) {
        return static_cast<double>(runners_[i](clock_, static_cast<std::size_t>(calls), false).wall);
    }

    /// One number of calls for all arms: a different number would spread an epoch's fixed cost differently, a bias that
    /// no pairing removes. The fastest arm's epoch is given the planned length unless that makes the slowest one's more
    /// than four times as long; an epoch of one call may be as long as it likes. A reading counts once a second one, at
    /// the same number of calls, confirms it: one preemption would otherwise end the search far too early.
    void calibrate() {
        if (plan_.calls != 0) {
            trace_.calls = plan_.calls;
            return;
        }
        const std::int64_t share = plan_.budget / 10 / static_cast<std::int64_t>(arms());
        const auto wanted = static_cast<double>(plan_.epoch);
        for (std::size_t i = 0; i < arms(); ++i) {
            const std::int64_t until = std::min(clock_.now() + share, plan_.start + plan_.budget);
            double calls = 1;
            while (call_ns_[i] < wanted && calls < 10 * wanted && clock_.now() < until) {  // no call takes under 0.1 ns
                const double ns = std::max(1.0, std::min(read(i, calls), read(i, calls)));
                call_ns_[i] = std::min(call_ns_[i], ns / calls);
                if (ns >= wanted / 2) break;
                calls *= std::clamp(std::floor(wanted / ns), 2.0, 10.0);
            }
        }
        const auto [fastest, slowest] = std::minmax_element(call_ns_.begin(), call_ns_.end());
        trace_.calls =
            static_cast<std::size_t>(std::clamp(std::min(wanted / *fastest, 4 * wanted / *slowest), 1.0, 10 * wanted));
    }

    /// Warm-up: rounds at the final number of calls until no arm gets more than 1 % faster, for 5 % of the budget at
    /// most. First calls that fill a large part of the budget leave no time for it.
    void settle() {
        round_ns_ = static_cast<double>(trace_.calls) * std::accumulate(call_ns_.begin(), call_ns_.end(), 0.0);
        const double until = remaining() - static_cast<double>(plan_.budget) / 20;
        std::vector<double> best(arms(), std::numeric_limits<double>::infinity());
        for (bool settled = false; !settled && remaining() - until >= round_ns_;) {
            settled = true;
            const double before = remaining();
            for (std::size_t i = 0; i < arms(); ++i) {
                const double ns = read(i, static_cast<double>(trace_.calls));
                settled = settled && ns > 0.99 * best[i];
                best[i] = std::min(best[i], ns);
            }
            round_ns_ = std::max(round_ns_, before - remaining());  // with set-up and all
        }
        for (int i = 0; i < 5 && (i == 0 || remaining() > 0); ++i) record(arms(), trace_.empty);
    }

    void run_block() {
        constexpr std::size_t riders_every = 8;
        const std::size_t control = arms() + 1;
        const bool riders = plan_.blocks == 0 && trace_.blocks % riders_every == riders_every / 2;
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < arms(); ++i) order.push_back(i);
        if (riders) order.insert(order.end(), {arms(), control});
        random_.shuffle(order);
        for (std::size_t turn = 0; turn < trace_.epochs_per_block; ++turn) {
            for (const std::size_t who : order) {
                if (who == control) record(0, trace_.control);
                else if (who == arms()) record(who, trace_.empty);
                else record(who, trace_.arms[who]);
                if (riders && who == 0) {
                    trace_.control_partner.ns.push_back(trace_.arms[0].ns.back());
                    trace_.control_partner.spoiled.push_back(trace_.arms[0].spoiled.back());
                }
            }
            std::reverse(order.begin(), order.end());
        }
        ++trace_.blocks;
    }

    /// The rule for an epoch that something came between, fixed before any is seen: the thread lost its core and did
    /// not sleep, so wall time minus waiting is time on the core, less what reading that clock costs (the least seen so
    /// far); where the arm slept, moved to another core, or the system does not tell, the epoch is marked as spoiled.
    void record(std::size_t who, arm_trace& into) {
        const epoch e = runners_[who](clock_, trace_.calls, lead_in());
        auto ns = static_cast<double>(e.wall);
        bool spoiled = e.after.core != e.before.core;
        if (e.after.preempted != e.before.preempted) {
            if (e.on_core >= 0 && e.after.slept == e.before.slept && core_clock_cost_ >= 0) {
                ns = std::min(ns, static_cast<double>(e.on_core - core_clock_cost_));
                ++trace_.rescued;
            } else {
                spoiled = true;
            }
        } else if (e.on_core >= e.wall) {
            const std::int64_t cost = e.on_core - e.wall;
            core_clock_cost_ = core_clock_cost_ < 0 ? cost : std::min(core_clock_cost_, cost);
        }
        into.ns.push_back(ns);
        into.spoiled.push_back(spoiled);
    }

    Clock& clock_;
    sampling_plan plan_;
    std::vector<runner<Clock>> runners_;
    std::vector<double> call_ns_;  // the least time seen of a call, by arm
    order_generator random_;
    trace trace_;
    double round_ns_ = 0;  // what one epoch of every arm takes
    std::int64_t core_clock_cost_ = -1;
};

}  // namespace headwise::detail
