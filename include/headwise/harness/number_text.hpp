// Numbers as text, and back: with a point, and without marks between thousands, whatever locale the process or the
// stream is in.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>  // std::locale with it: <locale> itself would cost as much as <vector>
#include <string>

namespace headwise::detail {

/// Neither infinite nor NaN; by its bits, since -ffast-math takes every number to be finite.
[[nodiscard]] constexpr bool is_finite_number(double x) noexcept {
    constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000;
    return (std::bit_cast<std::uint64_t>(x) & exponent) != exponent;
}

[[nodiscard]] inline std::string number_text(double value, std::chars_format format, int digits) {
    char buffer[400];  // the longest double has 309 digits before the point
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format, digits).ptr};
}

/// "12.60" for two decimals, as %.2f.
[[nodiscard]] inline std::string fixed(double value, int decimals) {
    return number_text(value, std::chars_format::fixed, decimals);
}

/// "12.6", "1.26e+07" for three digits, as %.3g.
[[nodiscard]] inline std::string general(double value, int digits) {
    return number_text(value, std::chars_format::general, digits);
}

/// "1.26e+01" for two decimals, as %.2e.
[[nodiscard]] inline std::string scientific(double value, int decimals) {
    return number_text(value, std::chars_format::scientific, decimals);
}

/// The number that all of the text is; nothing where it is none.
[[nodiscard]] inline std::optional<double> number_in(const std::string& text) {
    std::istringstream in(text);  // std::from_chars reads no double yet with libc++
    in.imbue(std::locale::classic());
    double value = 0;
    if (!(in >> std::noskipws >> value) || in.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
    return value;
}

}  // namespace headwise::detail
