// Agreement inside a doctest test: a failing check prints the whole report. Include <doctest/doctest.h> first.
#pragma once

#include <headwise/harness/agreement.hpp>

#if !defined(DOCTEST_VERSION)
#error "include <doctest/doctest.h> before <headwise/doctest.hpp>"
#endif

/// HEADWISE_CHECK_CLOSE(actual, expected [, options or tolerance]) fails, and prints the close_report, unless allclose.
/// HEADWISE_REQUIRE_CLOSE ends the test as well. Braces are welcome: HEADWISE_CHECK_CLOSE(a, b, {.rtol = 1e-5, .atol =
/// 0}).
#define HEADWISE_CHECK_CLOSE(...) HEADWISE_ASSERT_CLOSE(CHECK_MESSAGE, __VA_ARGS__)
#define HEADWISE_REQUIRE_CLOSE(...) HEADWISE_ASSERT_CLOSE(REQUIRE_MESSAGE, __VA_ARGS__)

#define HEADWISE_ASSERT_CLOSE(assertion, ...)                                                    \
    do {                                                                                         \
        const ::headwise::close_report headwise_report(__VA_ARGS__);                             \
        assertion(headwise_report.matches, "close(" #__VA_ARGS__ ")\n", headwise_report.text()); \
    } while (false)
