// A strict reader of JSON (RFC 8259), for checking what the writers write: values are kept, in order, as text.
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "input.hpp"

namespace fuzz {

class json_reader {
public:
    explicit json_reader(std::string_view text) : rest_(text) {}

    /// The strings and numbers of one value, and nothing after it.
    struct found {
        std::vector<std::string> strings, numbers;
    };
    found read() {
        value(0);
        spaces();
        must(rest_.empty(), "text after the JSON value");
        return std::move(found_);
    }

private:
    void spaces() {
        while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos)
            rest_.remove_prefix(1);
    }
    bool take(std::string_view word) {
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    void value(int depth) {
        must(depth < 50, "JSON nested without end");
        spaces();
        if (take("{")) members(depth, "}", true);
        else if (take("[")) members(depth, "]", false);
        else if (rest_.starts_with('"')) found_.strings.push_back(string());
        else if (!take("true") && !take("false") && !take("null")) number();
    }
    void members(int depth, std::string_view end, bool keys) {
        spaces();
        if (take(end)) return;
        do {
            spaces();
            if (keys) {
                static_cast<void>(string());
                spaces();
                must(take(":"), "no colon after a key");
            }
            value(depth + 1);
            spaces();
        } while (take(","));
        must(take(end), "an array or an object that does not end");
    }
    std::string string() {
        must(take("\""), "no string where one must be");
        std::string text;
        while (!take("\"")) {
            must(!rest_.empty(), "a string that does not end");
            char c = rest_[0];
            must(static_cast<unsigned char>(c) >= 0x20, "a control character in a string");
            rest_.remove_prefix(1);
            if (c == '\\') {
                must(!rest_.empty(), "a backslash at the end");
                c = rest_[0];
                rest_.remove_prefix(1);
                if (c == 'u') c = escaped();
                else must(c == '"' || c == '\\' || c == '/', "an escape that the writers have no need of");
            }
            text += c;
        }
        return text;
    }
    char escaped() {
        must(rest_.size() >= 4, "an escape cut short");
        unsigned code = 0;
        for (int i = 0; i < 4; ++i) {
            must(std::isxdigit(static_cast<unsigned char>(rest_[0])) != 0, "an escape that is no number");
            code = code * 16 + static_cast<unsigned>(std::strtoul(std::string(1, rest_[0]).c_str(), nullptr, 16));
            rest_.remove_prefix(1);
        }
        must(code < 0x20, "an escape that the writers have no need of");
        return static_cast<char>(code);
    }
    void digits() {
        must(!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0])) != 0, "a digit is missing");
        while (!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0])) != 0) rest_.remove_prefix(1);
    }
    void number() {
        const std::string_view start = rest_;
        take("-");
        if (!take("0")) digits();
        if (take(".")) digits();
        if (take("e") || take("E")) {
            if (!take("+")) take("-");
            digits();
        }
        found_.numbers.emplace_back(start.substr(0, start.size() - rest_.size()));
    }

    std::string_view rest_;
    found found_;
};

}  // namespace fuzz
