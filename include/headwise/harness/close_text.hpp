// How a close_report reads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <iterator>
#include <ostream>
#include <string>

#include <headwise/harness/close_report.hpp>

namespace headwise {

namespace detail {

inline std::string format(const char* pattern, double x) {
    char text[64];
    std::snprintf(text, sizeof text, pattern, x);
    return text;
}

/// "1.5 (0x1.8p+0)". Zero needs no second spelling.
inline std::string value_text(double x, bool single) {
    const auto bits = to_bits(x);
    if (is_nan<double>(bits)) return "nan";
    if (!is_finite<double>(bits)) return bits >> 63 ? "-inf" : "inf";
    std::string text = format(single ? "%.9g" : "%.17g", x);
    return magnitude<double>(bits) == 0 ? text : text + format(" (%a)", x);
}

/// Three digits, rounded up: a tolerance that is printed would pass.
inline std::string ceiling_text(double x) {
    std::string text = format("%.2e", x);
    const char* exponent = text.c_str() + text.find('e') + 1;
    const double half_a_step = 0.5e-2 * std::pow(10.0, std::strtol(exponent, nullptr, 10));
    return std::strtod(text.c_str(), nullptr) < x ? format("%.2e", x + half_a_step) : text;
}

inline std::string tolerance_text(const tolerance& rule) {
    const allclose_options& options = rule.options();
    std::string plain = std::string("rtol ") + format("%.3g", options.rtol) + ", atol " + format("%.3g", options.atol) +
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
    std::string text = index_text(d.index, report.rank) + ": actual " + value_text(d.actual, single) + ", expected " +
                       value_text(d.expected, single);
    if (d.ulps && *d.ulps != not_comparable) text += std::string(", ") + std::to_string(*d.ulps) + " ulp";
    return text;
}

inline std::string matching_text(const close_report& r) {
    std::string text = std::string("all ") + std::to_string(r.total) + " values agree (" + tolerance_text(r.rule) + ")";
    if (!r.greatest_absolute || !(r.greatest_absolute->absolute > 0)) return text + "; no difference\n";
    text += std::string("; greatest difference ") + format("%.3g", r.greatest_absolute->absolute) + " at " +
            index_text(r.greatest_absolute->index, r.rank);
    if (r.rule.arithmetic() && r.worst)
        text += std::string(", at worst ") + format("%.3g", r.worst_ratio) + " of the tolerance";
    if (r.dot_ratio) text += std::string(", |a - b| / (u |q| |k|) ") + format("%.3g", *r.dot_ratio);
    return text + "\n";
}

inline std::string counts_text(const close_report& r) {
    std::string text = std::to_string(r.mismatches) + " of " + std::to_string(r.total) + " values differ (" +
                       format("%.3g", 100.0 * static_cast<double>(r.mismatches) / static_cast<double>(r.total)) +
                       " %; " + tolerance_text(r.rule) + "): " + std::to_string(r.finite) + " finite";
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
    if (greatest_absolute) line("absolute difference", format("%.6g", greatest_absolute->absolute), *greatest_absolute);
    if (greatest_relative)
        line("relative difference", format("%.6g", *greatest_relative->relative), *greatest_relative);
    if (worst && rule.arithmetic()) {
        const bool boundless = !(worst_ratio < std::numeric_limits<double>::max());
        line("|a - b| / tolerance", boundless ? "infinite" : format("%.6g", worst_ratio), *worst);
    }
    if (dot_ratio) text += std::string("  |a - b| / (u |q| |k|) is up to ") + format("%.6g", *dot_ratio) + "\n";
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
