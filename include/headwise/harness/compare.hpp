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

#include <headwise/harness/comparing.hpp>

namespace headwise {

namespace detail {

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
