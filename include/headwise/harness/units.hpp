// How amounts of bytes and rates read.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <headwise/harness/number_text.hpp>

namespace headwise::detail {

/// Three digits, or all before the point up to a million: "0.520", "12.6", "207", "31000", "5e+14".
[[nodiscard]] inline std::string three_digits(double value) {
    const double size = std::abs(value);
    const int decimals = size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return size < 0.0995 || size >= 999999.5 ? general(value, 3) : fixed(value, decimals);
}

/// "207 GFLOP/s", "38.4 GB/s", without a unit "38.4 G": thousands, as the makers of machines count.
[[nodiscard]] inline std::string rate_text(double per_second, const char* unit = "") {
    if (!std::isfinite(per_second)) return "-";
    constexpr const char* prefixes[]{"", "k", "M", "G", "T", "P"};
    std::size_t prefix = 0;
    while (prefix < 5 && per_second >= 999.5) per_second /= 1000, ++prefix;
    const std::string of = std::string(prefixes[prefix]) + unit;
    return three_digits(per_second) + (of.empty() ? "" : " ") + of;
}

/// "48 KiB": binary, as caches are.
[[nodiscard]] inline std::string bytes_text(double bytes) {
    constexpr const char* prefixes[]{"", "Ki", "Mi", "Gi", "Ti"};
    std::size_t prefix = 0;
    while (prefix < 4 && bytes >= 1024) bytes /= 1024, ++prefix;
    std::string text = three_digits(bytes);
    if (text.find('.') != std::string::npos) {
        text.erase(text.find_last_not_of('0') + 1);
        if (text.back() == '.') text.pop_back();
    }
    return text + " " + prefixes[prefix] + "B";
}

[[nodiscard]] inline std::string threads_text(int threads) {
    return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

/// "63.0 %", "4.51 %": of a limit. Above 100 %, the limit was measured too low: it is said as it is.
[[nodiscard]] inline std::string share_text(double share) {
    return std::isfinite(share) ? three_digits(100 * share) + " %" : "-";
}

}  // namespace headwise::detail
