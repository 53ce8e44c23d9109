// Agreement inside a doctest test: a failing check prints the whole report. Include <doctest/doctest.h> first.
#pragma once

#include <stdexcept>
#include <string>

#include <headwise/harness/agreement.hpp>

#if !defined(DOCTEST_VERSION)
#error "include <doctest/doctest.h> before <headwise/doctest.hpp>"
#endif

namespace headwise::detail {

struct close_finding {
    bool matches;
    std::string text;  ///< the close_report, or the words of the refusal; empty when all is close
};

/// What is refused (unlike shapes, a negative tolerance) is not close: the check fails at its line, and the test goes
/// on.
template <comparable_array Actual, comparable_array Expected, class Rule = allclose_options>
[[nodiscard]] close_finding find_close(const Actual& actual, const Expected& expected, const Rule& rule = {}) {
#if defined(__cpp_exceptions)
    try {
#endif
        const close_report report(actual, expected, rule);
        return {report.matches, report.matches ? std::string() : report.text()};
#if defined(__cpp_exceptions)
    } catch (const std::invalid_argument& refused) {
        return {false, refused.what()};
    }
#endif
}

}  // namespace headwise::detail

/// HEADWISE_CHECK_CLOSE(actual, expected [, options or tolerance]) fails, and prints the close_report, unless allclose;
/// where allclose refuses, it fails too, and prints why. HEADWISE_REQUIRE_CLOSE ends the test as well. Braces are
/// welcome: HEADWISE_CHECK_CLOSE(a, b, {.rtol = 1e-5, .atol = 0}).
#define HEADWISE_CHECK_CLOSE(...) HEADWISE_ASSERT_CLOSE(CHECK_MESSAGE, __VA_ARGS__)
#define HEADWISE_REQUIRE_CLOSE(...) HEADWISE_ASSERT_CLOSE(REQUIRE_MESSAGE, __VA_ARGS__)

#define HEADWISE_ASSERT_CLOSE(assertion, ...)                                                  \
    do {                                                                                       \
        const auto headwise_report = ::headwise::detail::find_close(__VA_ARGS__);              \
        assertion(headwise_report.matches, "close(" #__VA_ARGS__ ")\n", headwise_report.text); \
    } while (false)
