// The header of an npy file: magic, version, length, and a Python dict literal with three keys.
//
//   "\x93NUMPY" major minor length  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 8, 16), }  spaces "\n"
//
// The length takes two bytes in version 1.0 and four in 2.0 and 3.0, least first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <headwise/error.hpp>
#include <headwise/tensor.hpp>

namespace headwise::detail {

struct npy_header {
    std::string descr;                     ///< Byte order, kind, size: "<f4".
    bool fortran_order = false;            ///< The first axis varies fastest.
    shape4 shape{};                        ///< Missing leading dimensions are 1.
    std::streamoff bytes_that_follow = 0;  ///< From the end of the header to the end of the file.
};

/// Text from a file as a message may show it: printable, not long.
inline std::string excerpt(std::string_view text) {
    constexpr std::size_t shown = 40;
    std::string result = "'";
    for (const char c : text.substr(0, shown)) result += c >= ' ' && c <= '~' ? c : '?';
    return result + (text.size() > shown ? "...'" : "'");
}

/// "<f4" is float32, "|O" a pickled object; what has no name stays as it is.
inline std::string npy_type_name(const std::string& descr) {
    const std::string_view kind_and_size = std::string_view(descr).substr(1);
    if (kind_and_size == "b1") return "bool";
    if (kind_and_size == "O") return "pickled Python objects";
    if (kind_and_size == "V2") return "pairs of raw bytes, as which NumPy saves bfloat16";
    if (kind_and_size.starts_with('S') || kind_and_size.starts_with('U')) return "strings";
    const char* family = kind_and_size.starts_with('f')   ? "float"
                         : kind_and_size.starts_with('i') ? "int"
                         : kind_and_size.starts_with('u') ? "uint"
                         : kind_and_size.starts_with('c') ? "complex"
                                                          : nullptr;
    const std::string_view size = kind_and_size.substr(std::min<std::size_t>(1, kind_and_size.size()));
    int bytes = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), bytes);
    const bool known =
        family != nullptr && error == std::errc() && end == size.data() + size.size() && bytes >= 1 && bytes <= 32;
    return known ? family + std::to_string(8 * bytes) : "values of dtype " + excerpt(descr);
}

/// Reads the dict literal. Strict: the three keys once each, in any order, nothing else.
class npy_dict_parser {
public:
    npy_dict_parser(std::string_view text, const std::string& file_name) : rest_(text), file_name_(file_name) {}

    npy_header parse() {
        std::optional<std::string> descr;
        std::optional<bool> fortran_order;
        std::optional<shape4> shape;
        expect('{');
        while (!take('}')) {
            const std::string key = string_literal();
            expect(':');
            if (key == "descr" && !descr) descr = type_literal();
            else if (key == "fortran_order" && !fortran_order) fortran_order = bool_literal();
            else if (key == "shape" && !shape) shape = shape_literal();
            else reject(std::string("the key ") + excerpt(key) + " is unknown or given twice");
            if (take(',')) continue;
            expect('}');
            break;
        }
        skip_spaces();
        if (!rest_.empty()) reject(std::string("text after the dict, ") + excerpt(rest_));
        if (!descr || !fortran_order || !shape) reject("the keys descr, fortran_order and shape must all be there");
        return {*descr, *fortran_order, *shape};
    }

private:
    [[noreturn]] void reject(const std::string& rule) const { refuse(file_name_ + ": npy header: " + rule); }

    void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size())); }

    bool take(char c) {
        skip_spaces();
        if (!rest_.starts_with(c)) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool take_word(std::string_view word) {
        skip_spaces();
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }

    void expect(char c) {
        if (!take(c))
            reject(std::string("expected '") + c + "' before " + (rest_.empty() ? "its end" : excerpt(rest_)));
    }

    std::string string_literal() {
        skip_spaces();
        const char quote = rest_.starts_with('"') ? '"' : '\'';
        expect(quote);
        const std::size_t length = rest_.find(quote);
        if (length == std::string_view::npos) reject(std::string("a string does not end: ") + excerpt(rest_));
        std::string text(rest_.substr(0, length));
        rest_.remove_prefix(length + 1);
        return text;
    }

    std::string type_literal() {
        skip_spaces();
        if (rest_.starts_with('[')) reject(std::string("structured dtypes are not read: ") + excerpt(rest_));
        std::string descr = string_literal();
        if (descr.size() < 2 || std::string_view("<>=|").find(descr[0]) == std::string_view::npos)
            reject(std::string("descr ") + excerpt(descr) + " must begin with the byte order <, >, = or |");
        return descr;
    }

    bool bool_literal() {
        if (take_word("True")) return true;
        if (take_word("False")) return false;
        reject(std::string("fortran_order must be True or False, not ") + excerpt(rest_));
    }

    std::ptrdiff_t extent_literal() {
        skip_spaces();
        if (rest_.starts_with('-')) reject(std::string("a negative extent in shape: ") + excerpt(rest_));
        std::ptrdiff_t extent = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
        if (error == std::errc::result_out_of_range)
            reject(std::string("an extent overflows ptrdiff_t: ") + excerpt(rest_));
        if (error != std::errc()) reject(std::string("shape must hold integers, not ") + excerpt(rest_));
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote it
        return extent;
    }

    shape4 shape_literal() {
        std::vector<std::ptrdiff_t> extents;
        expect('(');
        while (!take(')')) {
            extents.push_back(extent_literal());
            if (take(',')) continue;
            expect(')');
            if (extents.size() == 1) reject("shape must be a tuple: (3,), not (3)");
            break;
        }
        if (extents.size() > 4)
            reject(std::string("shape has ") + std::to_string(extents.size()) + " dimensions, at most 4 are read");
        shape4 shape{1, 1, 1, 1};
        std::copy_backward(extents.begin(), extents.end(), shape.end());
        return shape;
    }

    std::string_view rest_;
    const std::string& file_name_;
};

/// The number of bytes from here to the end of a stream.
inline std::streamoff bytes_left(std::istream& in, const std::string& name) {
    const auto here = in.tellg();
    in.seekg(0, std::ios::end);
    const auto end = in.tellg();
    in.seekg(here);
    if (!in || here < 0 || end < here) fail(name + ": its size cannot be found");
    return end - here;
}

/// Reads up to the first value. No length that the file states is believed before it is compared with the file's own.
inline npy_header read_npy_header(std::istream& in, const std::string& name) {
    constexpr std::string_view magic("\x93NUMPY", 6);
    constexpr std::ptrdiff_t longest = 0xffff;  // the longest of version 1.0; a plain array needs about a hundred bytes
    std::array<char, 12> start{};
    in.read(start.data(), 8);
    if (in.gcount() != 8 || std::string_view(start.data(), 6) != magic)
        refuse(name + ": is not an npy file: it does not begin with \\x93NUMPY and a version");
    const auto byte = [&start](std::size_t i) { return static_cast<unsigned char>(start[i]); };
    const unsigned major = byte(6), minor = byte(7);
    if (major < 1 || major > 3 || minor != 0)
        refuse(name + ": npy version " + std::to_string(major) + '.' + std::to_string(minor) +
               "; versions 1.0, 2.0 and 3.0 are read");

    const std::ptrdiff_t width = major == 1 ? 2 : 4;
    in.read(start.data() + 8, width);
    if (in.gcount() != width) refuse(name + ": the file ends inside the npy header");
    std::ptrdiff_t length = byte(8) | byte(9) << 8;
    if (major > 1) length += static_cast<std::ptrdiff_t>(byte(10) | byte(11) << 8) * 65536;
    const std::streamoff left = bytes_left(in, name);
    if (length > left)
        refuse(name + ": the npy header claims " + std::to_string(length) + " bytes, the file has " +
               std::to_string(left) + " more");
    if (length > longest)
        refuse(name + ": the npy header claims " + std::to_string(length) + " bytes; one of at most " +
               std::to_string(longest) + " is read");

    std::string dict(static_cast<std::size_t>(length), ' ');
    in.read(dict.data(), length);
    if (in.gcount() != length) fail(name + ": the npy header cannot be read");
    npy_header header = npy_dict_parser(dict, name).parse();
    header.bytes_that_follow = left - length;
    return header;
}

/// The first bytes of a dense C-order file of version 1.0, padded so that the values begin at a multiple of 64.
inline std::string npy_header_bytes(const std::string& kind_and_size, const shape4& shape) {
    constexpr std::size_t prefix = 10, alignment = 64;
    std::string dict = std::endian::native == std::endian::little ? "{'descr': '<" : "{'descr': '>";
    dict += kind_and_size + "', 'fortran_order': False, 'shape': " + text_of(shape) + ", }";
    // NumPy leaves room for the first extent to grow to 21 digits in place, then pads.
    dict.append(21 - std::to_string(shape[0]).size(), ' ');
    dict.append(alignment - (prefix + dict.size() + 1) % alignment, ' ');
    dict += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(dict.size() & 0xff);
    bytes += static_cast<char>(dict.size() >> 8);
    return bytes + dict;
}

}  // namespace headwise::detail
