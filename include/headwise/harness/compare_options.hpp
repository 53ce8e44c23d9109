// What a comparison can be asked to do, and what is refused.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/harness/arms.hpp>
#include <headwise/harness/gate.hpp>

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
    /// Exactly so many rows of each arm, whatever they take: no mirrored blocks, no control, no early end. 0: as many
    /// as the budget allows.
    std::size_t rounds = 0;
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

}  // namespace detail
}  // namespace headwise
