// Comparisons on a machine whose truth is known.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <headwise/harness/compare.hpp>

#include "simulated_machine.hpp"

template <class... Arms>
headwise::comparison on(simulated_machine& machine, const headwise::compare_options& options, Arms... arms) {
    return headwise::detail::compare_on(machine, options, headwise::detail::default_agreement{options.closeness},
                                        arms...);
}

inline const headwise::compare_options brief{.budget = std::chrono::milliseconds(50), .seed = 1};
using numbers = std::vector<double>;

inline bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
