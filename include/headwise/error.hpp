// How headwise says no: one place, and messages that name the argument, the values and the rule. They begin with
// std::string("...") because GCC 12 warns (-Wrestrict) of a literal plus a temporary, for no reason.
#pragma once

#include <stdexcept>
#include <string>

#if !defined(__cpp_exceptions)
#include <cstdio>
#include <cstdlib>
#endif

namespace headwise::detail {

template <class Error>
[[noreturn]] inline void throw_or_abort(const std::string& message) {
#if defined(__cpp_exceptions)
    throw Error(message);
#else
    std::fprintf(stderr, "headwise: %s\n", message.c_str());
    std::abort();
#endif
}

/// Throws `std::invalid_argument(message)`. Built with -fno-exceptions, prints the same message to stderr and aborts.
/// Every check stands before the first write, so a refused call leaves its outputs as they were.
[[noreturn]] inline void refuse(const std::string& message) { throw_or_abort<std::invalid_argument>(message); }

/// The same with `std::runtime_error`: the arguments were right, but the system did not do what was asked of it.
[[noreturn]] inline void fail(const std::string& message) { throw_or_abort<std::runtime_error>(message); }

}  // namespace headwise::detail
