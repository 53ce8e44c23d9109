// compare: which of two or more implementations of the same thing is faster, by how much, and how sure is that?
//
//     const auto result = compare({}, arm{"loop", [&] { return by_loop(x); }},
//                                     arm{"fused", [&] { return fused(x); }});
//     std::cout << result;       // a table, then: fused is 7.31x as fast as loop (95 %: 7.24-7.38), outputs agree
//
// What an arm returns (numbers, arrays of numbers, anything with ==) is checked against arm 0's before and after
// timing: an arm whose answer is wrong has no speed-up. A result returned by value is constructed and destroyed by the
// timed calls; to leave that out, return a reference to, or a view of, an output that the arm writes. Such an output is
// overwritten with NaN before the calls that are checked. Arms must be able to run in any order, any number of times.
//
// The error rate: if all arms are alike, some verdict is `faster` or `slower` with probability at most 1 - confidence,
// over all arms and however early the run stops; likewise, no interval misses. What that rests on is in sampling.hpp
// and statistics.hpp; what it has been measured to be, in the README.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/error.hpp>
#include <headwise/harness/arms.hpp>
#include <headwise/harness/comparison.hpp>
#include <headwise/harness/gate.hpp>
#include <headwise/harness/sampling.hpp>
#include <headwise/harness/system_noise.hpp>
#include <headwise/harness/verdict.hpp>

namespace headwise {

struct compare_options {
    std::chrono::nanoseconds budget = std::chrono::seconds(1);  ///< wall clock of the whole comparison, checks included
    double confidence = 0.95;                                   ///< of all verdicts and intervals together
    double margin = 0.01;            ///< differences of up to this share count as none; 0: every difference counts
    std::vector<input> inputs = {};  ///< what no arm may change
    tolerance closeness = tolerance::within({});  ///< how close numbers must be
    double precision = 0.005;  ///< stop early once a resolved speed-up is known to this share, either way
    std::chrono::nanoseconds epoch = std::chrono::microseconds(100);  ///< the length of a row of calls
    std::size_t calls = 0;                                            ///< calls in such a row; 0: as many as fill it
    std::size_t rounds = 0;  ///< exactly so many rows of each arm, whatever they take; 0: as the budget allows
    cache_state cache = cache_state::hot;
    std::uint64_t seed = 0;  ///< of the random order; 0: another one each time
    /// Called after each round, outside the timing, with how many are done and how many there will be (0: unknown).
    std::function<void(std::size_t done, std::size_t rounds)> progress = {};
};

namespace detail {

inline void check_compare_options(const compare_options& o, const std::vector<std::string>& names) {
    const auto refuse_unless = [](bool fine, const char* rule, double value) {
        if (!fine) refuse("compare: " + std::string(rule) + ", is " + std::to_string(value));
    };
    refuse_unless(o.confidence > 0 && o.confidence < 1, "confidence must lie between 0 and 1", o.confidence);
    refuse_unless(o.margin >= 0 && o.margin < 1, "margin must be at least 0 and below 1", o.margin);
    refuse_unless(o.precision > 0, "precision must be positive", o.precision);
    refuse_unless(o.budget.count() > 0, "budget must be positive", static_cast<double>(o.budget.count()) / 1e9);
    refuse_unless(o.epoch.count() > 0, "epoch must be positive", static_cast<double>(o.epoch.count()) / 1e9);
    if (names.empty()) refuse("compare: there is no arm; at least one is needed");
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].empty()) refuse("compare: arm " + std::to_string(i) + " has no name");
        for (const char ch : names[i]) {
            if (static_cast<unsigned char>(ch) >= 0x20) continue;
            refuse("compare: the name of arm " + std::to_string(i) + " has a control character in it");
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (names[i] != names[j]) continue;
            refuse("compare: arms " + std::to_string(j) + " and " + std::to_string(i) + " are both called '" +
                   names[i] + "'");
        }
    }
}

/// Tells a person at a terminal that something is happening; silent otherwise, and for what is over in two seconds.
class progress {
public:
    explicit progress(const compare_options& o) {
#if defined(__unix__) || defined(__APPLE__)
        shown_ = o.rounds == 0 && o.budget > std::chrono::seconds(2) && isatty(STDERR_FILENO) == 1;
#else
        static_cast<void>(o);
#endif
    }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    ~progress() {
        if (shown_) std::fputs("\r                                        \r", stderr);
    }
    void at(double share, std::size_t blocks) const {
        if (shown_) std::fprintf(stderr, "\rcomparing: %.0f %%, %zu blocks", 100 * share, blocks);
    }

private:
    bool shown_ = false;
};

/// One comparison in progress. `Clock` is the machine's, or a test's.
template <class Clock, class Agreement, class... Arms>
class comparing {
    static constexpr std::size_t count = sizeof...(Arms);
    static constexpr auto all = std::make_index_sequence<count>{};
    template <std::size_t I>
    using result_of = typename std::tuple_element_t<I, std::tuple<contender<Arms>...>>::result;
    static constexpr bool checks = !std::is_void_v<result_of<0>>;

public:
    comparing(Clock& clock, const compare_options& options, const Agreement& agree, Arms&... arms)
        : clock_(clock),
          options_(options),
          agree_(agree),
          start_(clock.now()),
          evict_(options.cache == cache_state::cold),
          each_call_((contender<Arms>::has_setup || ...) || options.cache == cache_state::cold),
          contenders_(arms...) {
        found_.confidence = options.confidence;
        found_.margin = options.margin;
        found_.budget_seconds = static_cast<double>(options.budget.count()) / 1e9;
        for (const std::string* name : {&arms.name...}) {
            found_.arms.emplace_back();
            found_.arms.back().name = *name;
        }
    }

    comparison run() {
        const machine_time before = machine_time_so_far();
        for (const input& i : options_.inputs) hashes_.push_back(i.hash());
        open_each(all);
        measure();
        close_each(all);
        if (!baseline_broken_.empty()) {
            for (std::size_t i = 1; i < count; ++i) reject(i, baseline_broken_);
        }
        found_.seconds = static_cast<double>(clock_.now() - start_) / 1e9;
        found_.stolen = stolen_share(before, machine_time_so_far());
        annotate();
        return std::move(found_);
    }

private:
    template <std::size_t... I>
    void open_each(std::index_sequence<I...>) {
        (open<I>(), ...);
    }
    template <std::size_t... I>
    void close_each(std::index_sequence<I...>) {
        (close<I>(), ...);
    }

    /// The first call of arm I: what it returns must agree with arm 0's. Arm 0's is copied, then overwritten where it
    /// lies: an arm that returns arm 0's memory without having written it is found out.
    template <std::size_t I>
    void open() {
        auto& one = std::get<I>(contenders_);
        const epoch e = one.run(clock_, 1, false, each_call_, evict_);
        first_call_.push_back(static_cast<double>(std::max<std::int64_t>(e.wall, 1)));
        found_.arms[I].time = statistics::summarise({first_call_.back()});
        if constexpr (I == 0 && checks) {
            reference_.emplace(copy_of(std::as_const(one.last.get())));
            found_.arms[0].verified = true;
            remark_on_zeros();
            poison_output<0>();
        } else {
            check<I>();
        }
        check_inputs<I>();
    }

    /// The last word on arm I: what a timed call returned. An output that it refers to is overwritten with NaN, and
    /// written again by one more row of calls, made as the timed ones are.
    template <std::size_t I>
    void close() {
        if constexpr (std::is_void_v<result_of<I>> || !checks) return;
        else {
            if constexpr (refers<result_of<I>>) {
                poison_output<I>();
                std::get<I>(contenders_)
                    .run(clock_, std::max<std::size_t>(found_.calls_per_epoch, 1), false, each_call_, evict_);
            }
            check<I>();
            check_inputs<I>();
        }
    }

    template <std::size_t I>
    void check() {
        arm_result& arm = found_.arms[I];
        if constexpr (std::is_void_v<result_of<I>> || !checks) {
            arm.reason = "it returns nothing that could be checked";
        } else {
            const auto& output = std::as_const(std::get<I>(contenders_).last.get());
            agreement held = ask(agree_, output, *reference_);
            arm.verified = held.agrees && arm.verdict != verdict::mismatch && !all_zero_;
            if (held.agrees) return;
            const std::string why = explained(std::move(held.why), facts_of(output));
            if constexpr (I == 0)
                baseline_broken_ = "the output of " + arm.name + " itself changed from call to call: " + why;
            else reject(I, why);
        }
    }

    std::string explained(std::string why, const output_facts& facts) const {
        if (facts.unwritten != 0) {
            why = std::to_string(facts.unwritten) + " of its " + counted(facts.elements, "output") +
                  " were not written (or are NaN)";
        } else if (facts.all_zero()) {
            why = "its output is all zeros";
        }
        return found_.calls_per_epoch == 0 ? why : why + ", in calls after the first";  // 0: nothing is timed yet
    }

    void reject(std::size_t i, const std::string& why) {
        arm_result& arm = found_.arms[i];
        if (arm.verdict == verdict::mismatch) return;
        arm.verdict = verdict::mismatch;
        arm.verified = false;
        arm.speedup.reset();
        arm.detectable = 0;
        arm.reason = why;
    }

    template <std::size_t I>
    void check_inputs() {
        for (std::size_t k = 0; k < hashes_.size(); ++k) {
            if (options_.inputs[k].hash() == hashes_[k]) continue;
            const std::string why = found_.arms[I].name + " changed input " + std::to_string(k);
            found_.arms[I].verified = false;
            note(why + "; what ran after it ran on other data");
            if constexpr (I == 0) baseline_broken_ = why;
            else reject(I, "it changed input " + std::to_string(k));
            hashes_[k] = options_.inputs[k].hash();
        }
    }

    template <std::size_t I>
    void poison_output() {
        if constexpr (refers<result_of<I>> && comparable_array<result_of<I>>) {
            auto&& output = std::get<I>(contenders_).last.get();
            const auto elements = elements_of(output);
            for (const input& i : options_.inputs) {
                if (i.holds(elements.data)) return;
            }
            if (elements.at.size() != 0) poison(output);
        }
    }

    void remark_on_zeros() {
        const output_facts facts = facts_of(*reference_);
        all_zero_ = facts.all_zero();
        found_.arms[0].verified = !all_zero_;
        const double zeros =
            static_cast<double>(facts.zeros) / static_cast<double>(std::max<std::size_t>(facts.elements, 1));
        if (all_zero_) note("all outputs are zero: that they agree says nothing");
        else if (zeros > 0.9) note(percent_text(zeros) + " of the outputs are zero: that they agree says little");
        if (facts.unwritten != 0) note(counted(facts.unwritten, "output") + " of " + found_.arms[0].name + " are NaN");
    }

    void measure() {
        std::vector<runner<Clock>> runners;
        std::apply(
            [&](auto&... one) {
                (runners.push_back([this, &one](Clock& clock, std::size_t calls, bool lead_in) {
                    return one.run(clock, calls, lead_in, each_call_, evict_);
                }),
                 ...);
            },
            contenders_);
        arm empty_arm{"empty", [] {}};
        contender<arm<decltype(empty_arm.call)>> empty(empty_arm);
        cache_eviction nothing(false);
        runners.push_back([&](Clock& clock, std::size_t calls, bool lead_in) {
            return empty.run(clock, calls, lead_in, each_call_, nothing);
        });

        sampling_plan plan;
        plan.start = start_;
        plan.budget = options_.budget.count();
        plan.epoch = options_.epoch.count();
        plan.calls = options_.cache == cache_state::cold && options_.calls == 0 ? 1 : options_.calls;
        plan.blocks = options_.rounds;
        plan.seed = found_.seed = options_.seed != 0 ? options_.seed : std::uint64_t{std::random_device{}()} << 32 | 1;
        const judging how{options_.confidence, options_.margin, 0.3, each_call_};
        const progress shown(options_);
        sampler<Clock> sampling(clock_, plan, std::move(runners), first_call_);
        const trace measured = sampling.run(
            [&](const trace& so_far) {
                shown.at(looks[so_far.look].at, so_far.blocks);
                judge(so_far, how, found_);
                return settled(found_, options_.precision);
            },
            [&](std::size_t blocks) {
                if (options_.progress) options_.progress(blocks, options_.rounds);
            });
        judge(measured, how, found_);
        keep_samples(measured);
    }

    void keep_samples(const trace& measured) {
        for (std::size_t i = 0; i < count; ++i) {
            arm_result& arm = found_.arms[i];
            arm.spoiled = measured.arms[i].spoiled;
            for (const double ns : measured.arms[i].ns) arm.samples.push_back(ns / static_cast<double>(measured.calls));
            for (const bool spoiled : arm.spoiled) found_.spoiled += spoiled ? 1 : 0;
        }
    }

    void annotate() {
        if (found_.blocks == 0) {
            double calls = 0;
            for (const double ns : first_call_) calls += ns / 1e9;
            note("a budget of " + fixed(found_.budget_seconds, 3) + " s is too short: one call of each arm takes " +
                 fixed(calls, 3) + " s; the times shown are those of the first calls");
        }
        if (found_.control_failed)
            note("identical code came out different in this run: differences no larger are not believed");
        if (found_.stolen > 0.01) note("the hypervisor gave " + percent_text(found_.stolen) + " of the time to others");
        static std::atomic<bool> warned{false};  // once a process: the machine stays the same
        if (warned.exchange(true)) return;
        for (std::string& warning : environment_warnings()) note(std::move(warning));
    }

    void note(std::string text) { found_.notes.push_back(std::move(text)); }

    struct nothing_to_copy {};
    template <class Result>
    struct reference_type {
        using type = decltype(copy_of(std::declval<const std::remove_reference_t<Result>&>()));
    };
    template <class Result>
    requires std::is_void_v<Result>
    struct reference_type<Result> {
        using type = nothing_to_copy;
    };

    Clock& clock_;
    const compare_options& options_;
    const Agreement& agree_;
    std::int64_t start_;
    cache_eviction evict_;
    bool each_call_;
    std::tuple<contender<Arms>...> contenders_;
    comparison found_;
    std::optional<typename reference_type<result_of<0>>::type> reference_;
    std::vector<std::uint64_t> hashes_;
    std::vector<double> first_call_;
    std::string baseline_broken_;
    bool all_zero_ = false;
};

template <class Clock, class Agreement, class... Arms>
comparison compare_on(Clock& clock, const compare_options& options, const Agreement& agree, Arms&... arms) {
    check_compare_options(options, {arms.name...});
    if constexpr (sizeof...(Arms) == 0) return {};
    else return comparing<Clock, Agreement, Arms...>(clock, options, agree, arms...).run();
}

}  // namespace detail

/// Compares the arms with the first of them; what they return must agree, numbers within `options.closeness`, anything
/// else by ==. Refuses options out of range, arms without a name or with the same one, and an empty list of arms. What
/// an arm throws comes out nested in a `std::runtime_error` that names it.
template <class... Calls, class... Setups>
[[nodiscard]] comparison compare(const compare_options& options, arm<Calls, Setups>... arms) {
    detail::machine_clock clock;
    return detail::compare_on(clock, options, detail::default_agreement{options.closeness}, arms...);
}

/// The same, with an agreement of the caller's: `agree(actual, expected)` answers with anything that converts to bool,
/// and, if it can be printed, prints why. `expected` is a copy of what arm 0 returned first.
template <class Agreement, class... Calls, class... Setups>
requires(!detail::is_arm<Agreement>) [[nodiscard]] comparison
    compare(const compare_options& options, const Agreement& agree, arm<Calls, Setups>... arms) {
    detail::machine_clock clock;
    return detail::compare_on(clock, options, agree, arms...);
}

}  // namespace headwise
