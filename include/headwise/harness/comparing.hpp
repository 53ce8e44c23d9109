// One comparison while it runs: the gate before, the measurement, the gate after. `compare` is its public face.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/harness/arms.hpp>
#include <headwise/harness/compare_options.hpp>
#include <headwise/harness/comparison.hpp>
#include <headwise/harness/gate.hpp>
#include <headwise/harness/sampling.hpp>
#include <headwise/harness/system_noise.hpp>
#include <headwise/harness/verdict.hpp>
#include <headwise/processor_limit.hpp>

namespace headwise::detail {

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
          evict_(options.cache != cache_state::hot),
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
        const std::vector<std::string> groups = control_groups();
        const std::int64_t stops_before = times_stopped(groups);
        for (const input& i : options_.inputs) hashes_.push_back(i.hash());
        open_each(all);
        measure();
        if (!inputs_are_the_same()) ask_each(all);
        close_each(all);
        if (!baseline_broken_.empty()) {
            for (std::size_t i = 1; i < count; ++i) reject(i, baseline_broken_);
        }
        found_.seconds = static_cast<double>(clock_.now() - start_) / 1e9;
        found_.stolen = stolen_share(before, machine_time_so_far());
        found_.stopped = times_stopped(groups) - stops_before;
        annotate();
        return std::move(found_);
    }

private:
    [[nodiscard]] bool starts_cold() const noexcept { return options_.cache == cache_state::cold; }
    [[nodiscard]] static bool times_each_call(bool cold) noexcept {
        return cold || (contender<Arms>::has_setup || ...);
    }
    [[nodiscard]] cache_eviction& eviction(bool cold) noexcept { return cold ? evict_ : no_eviction_; }

    template <std::size_t... I>
    void open_each(std::index_sequence<I...>) {
        (open<I>(), ...);
    }
    /// After the timing some input is another: which arm changes it?
    template <std::size_t... I>
    void ask_each(std::index_sequence<I...>) {
        changed_ = "an input changed while the arms were timed";
        for (std::size_t k = 0; k < hashes_.size(); ++k) hashes_[k] = options_.inputs[k].hash();
        ((run_again<I>(), check_inputs<I>()), ...);
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
        const epoch e = one.run(clock_, 1, false, times_each_call(starts_cold()), eviction(starts_cold()));
        first_call_.push_back(static_cast<double>(std::max<std::int64_t>(e.wall, 1)));
        found_.arms[I].time = statistics::summarise({first_call_.back()});
        if constexpr (I == 0 && checks) {
            reference_.emplace(copy_of(std::as_const(one.last.get())));
            address_ = address_of(std::as_const(one.last.get()));
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
                run_again<I>();
            }
            check<I>();
            check_inputs<I>();
        }
    }

    template <std::size_t I>
    void run_again() {
        std::get<I>(contenders_)
            .run(clock_, std::max<std::size_t>(found_.calls_per_epoch, 1), false, times_each_call(starts_cold()),
                 eviction(starts_cold()));
    }

    template <std::size_t I>
    void check() {
        arm_result& arm = found_.arms[I];
        if constexpr (std::is_void_v<result_of<I>> || !checks) {
            arm.reason = "it returns nothing that could be checked";
        } else {
            const auto& output = std::as_const(std::get<I>(contenders_).last.get());
            if constexpr (I == 0) address_ = address_of(output);
            agreement held = ask(agree_, output, *reference_);
            arm.verified = held.agrees && arm.verdict != verdict::mismatch && !all_zero_;
            if (held.agrees && I != 0 && !can_be_poisoned<result_of<I>> && address_ != nullptr &&
                address_of(output) == address_) {
                arm.verified = false;
                arm.reason =
                    "it returns what " + found_.arms[0].name + " wrote, constant: whether it wrote it cannot be seen";
            }
            if (held.agrees) return;
            const std::string why = changed_.empty() ? explained(std::move(held.why), facts_of(output)) : changed_;
            if constexpr (I == 0)
                baseline_broken_ =
                    changed_.empty() ? "the output of " + arm.name + " itself changed from call to call: " + why : why;
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
        arm.cold.reset();
        arm.detectable = 0;
        arm.reason = why;
    }

    template <std::size_t I>
    void check_inputs() {
        for (std::size_t k = 0; k < hashes_.size(); ++k) {
            if (options_.inputs[k].hash() == hashes_[k]) continue;
            const std::string why = found_.arms[I].name + " changed input " + std::to_string(k);
            found_.arms[I].verified = false;
            found_.arms[I].reason = std::string("it changed input ") + std::to_string(k);
            note(why + "; what ran after it ran on other data");
            changed_ = why;
            if constexpr (I == 0) baseline_broken_ = why;
            else reject(I, "it changed input " + std::to_string(k));
            hashes_[k] = options_.inputs[k].hash();
        }
    }

    [[nodiscard]] bool inputs_are_the_same() const {
        for (std::size_t k = 0; k < hashes_.size(); ++k)
            if (options_.inputs[k].hash() != hashes_[k]) return false;
        return true;
    }

    template <std::size_t I>
    void poison_output() {
        if constexpr (can_be_poisoned<result_of<I>>) {
            auto&& output = std::get<I>(contenders_).last.get();
            const void* const address = address_of(output);
            for (const input& i : options_.inputs) {
                if (i.holds(address)) return;
            }
            if (address != nullptr) poison(output);
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
        const std::size_t nans = nans_in(*reference_);
        if (nans != 0)
            note(counted(nans, "output") + " of " + found_.arms[0].name + (nans == 1 ? " is" : " are") + " NaN");
    }

    void measure() {
        measure(starts_cold(), found_);
        if (options_.cache != cache_state::both) return;
        comparison cold = found_;
        measure(true, cold);
        for (std::size_t i = 0; i < count; ++i) {
            arm_result& arm = cold.arms[i];
            if (arm.verdict == verdict::mismatch) continue;
            found_.arms[i].cold = cold_result{arm.verdict, arm.speedup, arm.time};
        }
    }

    /// Takes what it finds into `found`: into all of the result, or into one that only its cold times are taken from.
    void measure(bool cold, comparison& found) {
        const bool each_call = times_each_call(cold);
        cache_eviction& evict = eviction(cold);
        std::vector<runner<Clock>> runners;
        std::apply(
            [&](auto&... one) {
                (runners.push_back([each_call, &one, &evict](Clock& clock, std::size_t calls, bool lead_in) {
                    return one.run(clock, calls, lead_in, each_call, evict);
                }),
                 ...);
            },
            contenders_);
        arm empty_arm{"empty", [] {}};
        contender<arm<decltype(empty_arm.call)>> empty(empty_arm);
        runners.push_back([&](Clock& clock, std::size_t calls, bool lead_in) {
            return empty.run(clock, calls, lead_in, each_call, no_eviction_);
        });

        const judging how{options_.confidence, options_.margin, 0.3, each_call};
        const progress shown(options_);
        sampler<Clock> sampling(clock_, plan(cold), std::move(runners), first_call_);
        const trace measured = sampling.run(
            [&](const trace& so_far) {
                shown.at(looks[so_far.look].at, so_far.blocks);
                judge(so_far, how, found);
                return settled(found, options_.precision);
            },
            [&](std::size_t blocks) {
                if (options_.progress) options_.progress(blocks, options_.rounds);
            });
        judge(measured, how, found);
        keep_samples(measured, each_call ? 0 : measured.reading_ns, found);
    }

    /// Under `both`, the cold calls have what is left of the budget.
    sampling_plan plan(bool cold) {
        const bool both = options_.cache == cache_state::both;
        sampling_plan plan;
        plan.start = both && cold ? clock_.now() : start_;
        plan.budget = options_.budget.count();
        if (both) plan.budget = cold ? start_ + plan.budget - plan.start : plan.budget / 4 * 3;
        plan.epoch = options_.epoch.count();
        plan.calls = cold && (both || options_.calls == 0) ? 1 : options_.calls;
        plan.blocks = options_.rounds;
        if (found_.seed == 0) found_.seed = options_.seed != 0 ? options_.seed : another_seed();
        plan.seed = found_.seed;
        return plan;
    }

    /// Of the time and of where this lies: another one each time, which is all that is asked.
    [[nodiscard]] std::uint64_t another_seed() const noexcept {
        order_generator mixing(static_cast<std::uint64_t>(start_) ^ reinterpret_cast<std::uintptr_t>(this));
        return mixing() | 1;
    }

    /// Without what reading the clock adds to a row of calls.
    void keep_samples(const trace& measured, double reading_ns, comparison& found) {
        for (std::size_t i = 0; i < count; ++i) {
            arm_result& arm = found.arms[i];
            arm.samples.clear();
            arm.spoiled = measured.arms[i].spoiled;
            for (const double ns : measured.arms[i].ns)
                arm.samples.push_back(std::max(0.0, ns - reading_ns) / static_cast<double>(measured.calls));
            for (const bool spoiled : arm.spoiled) found.spoiled += spoiled ? 1 : 0;
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
        remark_on_short_calls();
        if (found_.stolen > 0.01) note("the hypervisor gave " + percent_text(found_.stolen) + " of the time to others");
        if (found_.stopped > 0)
            note("a limit of processor time (a container's) was reached " +
                 (found_.stopped == 1 ? std::string("once") : std::to_string(found_.stopped) + " times") +
                 ": in the long run all is slower than shown, most of all what uses several threads");
        bool first = false;
        [[maybe_unused]] static const bool once = first = true;  // in one call of a process: the machine stays the same
        if (!first) return;
        for (std::string& warning : environment_warnings()) note(std::move(warning));
    }

    /// A row of calls can be as long as it must be; a call that is timed by itself is as long as it is.
    void remark_on_short_calls() {
        if (found_.blocks == 0 || !(contender<Arms>::has_setup || ...)) return;
        const arm_result* shortest = nullptr;
        for (const arm_result& arm : found_.arms)
            if (shortest == nullptr || arm.time.median < shortest->time.median) shortest = &arm;
        if (shortest->time.median < 1000)
            note("each call is timed by itself, since an arm has a setup: calls below 1 us, as those of " +
                 shortest->name + ", cannot be timed well so");
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
    cache_eviction evict_, no_eviction_{false};
    std::tuple<contender<Arms>...> contenders_;
    comparison found_;
    std::optional<typename reference_type<result_of<0>>::type> reference_;
    std::vector<std::uint64_t> hashes_;
    std::vector<double> first_call_;
    std::string baseline_broken_, changed_;  // who changed which input
    const void* address_ = nullptr;          // of what arm 0 returned
    bool all_zero_ = false;
};

}  // namespace headwise::detail
