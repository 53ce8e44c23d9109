// How a close_report reads.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>

#include <headwise/harness/close_report.hpp>
#include <headwise/harness/number_text.hpp>

namespace headwise {

namespace detail {

/// "0x1.8p+0", as %a.
inline std::string hex_text(double x) {
    char buffer[40];
    char* const end = std::to_chars(buffer, buffer + sizeof buffer, std::abs(x), std::chars_format::hex).ptr;
    return (x < 0 ? "-0x" : "0x") + std::string(buffer, end);
}

/// "1.5 (0x1.8p+0)". Zero needs no second spelling.
inline std::string value_text(double x, bool single) {
    const auto bits = to_bits(x);
    if (is_nan<double>(bits)) return "nan";
    if (!is_finite<double>(bits)) return bits >> 63 ? "-inf" : "inf";
    std::string text = general(x, single ? 9 : 17);
    return magnitude<double>(bits) == 0 ? text : text + " (" + hex_text(x) + ")";
}

/// An integer in full, a number in so many digits.
inline std::string short_text(double x, const std::optional<std::uint64_t>& integer, int digits) {
    if (integer) return std::string(x < 0 ? "-" : "") + std::to_string(*integer);
    const auto bits = to_bits(x);
    return is_finite<double>(bits) ? general(x, digits) : value_text(x, false);
}

/// "0.1 instead of 0.2": both in as many digits as tell them apart, at least six.
inline std::string instead_text(const close_report::difference& d, bool single) {
    std::string actual, expected;
    for (int digits = 6; digits <= (single ? 9 : 17) && actual == expected; ++digits) {
        actual = short_text(d.actual, d.actual_integer, digits);
        expected = short_text(d.expected, d.expected_integer, digits);
    }
    return actual + " instead of " + expected;
}

/// Three digits, rounded up: a tolerance that is printed would pass.
inline std::string ceiling_text(double x) {
    std::string text = scientific(x, 2);
    const double half_a_step = 0.5e-2 * std::pow(10.0, std::atoi(text.c_str() + text.find('e') + 1));
    return number_in(text).value_or(x) < x ? scientific(x + half_a_step, 2) : text;
}

inline std::string tolerance_text(const tolerance& rule) {
    const allclose_options& options = rule.options();
    std::string plain = std::string("rtol ") + general(options.rtol, 3) + ", atol " + general(options.atol, 3) +
                        (options.equal_nan ? ", NaN equals NaN" : "");
    switch (rule.kind()) {
        case tolerance::rule::plain:
            return plain;
        case tolerance::rule::ulps:
            return std::string("at most ") + std::to_string(rule.steps()) + " ulp";
        case tolerance::rule::bitwise:
            return "bit for bit";
        case tolerance::rule::dot:
            break;
    }
    return std::string("the rounding of a dot product of length ") + std::to_string(rule.bound()->depth) +
           (options.rtol > 0 || options.atol > 1e-30 ? std::string(", at least ") + plain : "");
}

inline std::string difference_text(const close_report::difference& d, const close_report& report) {
    const bool single = report.single;
    const auto value = [&](double x, const std::optional<std::uint64_t>& integer) {
        return integer ? short_text(x, integer, 0) : value_text(x, single);
    };
    std::string text = index_text(d.index, report.rank) + ": actual " + value(d.actual, d.actual_integer) +
                       ", expected " + value(d.expected, d.expected_integer);
    if (d.ulps && *d.ulps != not_comparable) text += std::string(", ") + std::to_string(*d.ulps) + " ulp";
    return text;
}

inline std::string matching_text(const close_report& r) {
    std::string text = std::string("all ") + std::to_string(r.total) + " values agree (" + tolerance_text(r.rule) + ")";
    if (!r.greatest_absolute || !(r.greatest_absolute->absolute > 0)) return text + "; no difference\n";
    text += std::string("; greatest difference ") + general(r.greatest_absolute->absolute, 3) + " at " +
            index_text(r.greatest_absolute->index, r.rank);
    if (r.rule.arithmetic() && r.worst)
        text += std::string(", at worst ") + general(r.worst_ratio, 3) + " of the tolerance";
    if (r.dot_ratio) text += std::string(", |a - b| / (u |q| |k|) ") + general(*r.dot_ratio, 3);
    return text + "\n";
}

inline std::string counts_text(const close_report& r) {
    std::string text = std::to_string(r.mismatches) + " of " + std::to_string(r.total) + " values differ (" +
                       general(100.0 * static_cast<double>(r.mismatches) / static_cast<double>(r.total), 3) + " %; " +
                       tolerance_text(r.rule) + "): " + std::to_string(r.finite) + " finite";
    if (r.nan_one_side) text += std::string(", ") + std::to_string(r.nan_one_side) + " with NaN on one side";
    if (r.nan_both) text += std::string(", ") + std::to_string(r.nan_both) + " with NaN on both sides";
    if (r.infinite) text += std::string(", ") + std::to_string(r.infinite) + " with an infinity";
    return text + "\n";
}

inline std::string passing_text(const close_report& r) {
    if (!r.rule.arithmetic()) return "";
    if (!r.passing_atol) return "  no tolerance would pass\n";
    std::string text = std::string("  would pass with atol ") + ceiling_text(*r.passing_atol);
    if (r.passing_rtol) text += std::string(", or with rtol ") + ceiling_text(*r.passing_rtol);
    return text + "\n";
}

}  // namespace detail

inline std::string close_report::text() const {
    using namespace detail;
    if (matches) return matching_text(*this);
    std::string text = counts_text(*this);
    const auto line = [&](const char* name, const std::string& value, const difference& d) {
        text += std::string("  greatest ") + name + " " + value + " at " + difference_text(d, *this) + "\n";
    };
    if (greatest_absolute) line("absolute difference", general(greatest_absolute->absolute, 6), *greatest_absolute);
    if (greatest_relative) line("relative difference", general(*greatest_relative->relative, 6), *greatest_relative);
    if (worst && rule.arithmetic()) {
        const bool boundless = !(worst_ratio < std::numeric_limits<double>::max());
        line("|a - b| / tolerance", boundless ? "infinite" : general(worst_ratio, 6), *worst);
    }
    if (dot_ratio) text += std::string("  |a - b| / (u |q| |k|) is up to ") + general(*dot_ratio, 6) + "\n";
    text += passing_text(*this);
    for (const std::string& suspicion : suspicions) text += std::string("  looks as if: ") + suspicion + "\n";
    const auto listed = std::min<std::ptrdiff_t>(mismatches, std::ssize(first));
    if (listed < mismatches) text += std::string("  the first ") + std::to_string(listed) + ":\n";
    else text += listed == 1 ? "  the one:\n" : "  all of them:\n";
    for (std::ptrdiff_t i = 0; i < listed; ++i)
        text += std::string("    ") + difference_text(first[static_cast<std::size_t>(i)], *this) + "\n";
    return text;
}

inline std::ostream& operator<<(std::ostream& out, const close_report& report) { return out << report.text(); }

}  // namespace headwise
