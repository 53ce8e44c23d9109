// How headwise says no: one place, one exception type, messages that name the argument, the values and the rule.
#pragma once

#include <stdexcept>
#include <string>

#if !defined(__cpp_exceptions)
#include <cstdio>
#include <cstdlib>
#endif

namespace headwise::detail {

/// Throws `std::invalid_argument(message)`. Built with -fno-exceptions, prints the same message to stderr and aborts.
/// Every check stands before the first write, so a refused call leaves its outputs as they were.
[[noreturn]] inline void refuse(const std::string& message) {
#if defined(__cpp_exceptions)
    throw std::invalid_argument(message);
#else
    std::fprintf(stderr, "headwise: %s\n", message.c_str());
    std::abort();
#endif
}

}  // namespace headwise::detail
