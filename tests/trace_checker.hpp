// The rules of the trace event format, as far as headwise writes it, held against a text: strict JSON in valid UTF-8,
// and events that a viewer can draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headwise::test {

/// A JSON value; numbers keep their text.
struct json_value {
    enum { null, boolean, number, string, array, object } kind = null;
    std::string text;                // of a string, its escapes undone; of a number, as written
    std::vector<json_value> items;   // of an array, or the values of an object
    std::vector<std::string> names;  // of an object's values

    [[nodiscard]] const json_value* find(std::string_view key) const {
        for (std::size_t i = 0; i < names.size(); ++i)
            if (names[i] == key) return &items[i];
        return nullptr;
    }
};

/// Reads RFC 8259, nothing more lenient.
class json_reader {
public:
    explicit json_reader(std::string_view text) : text_(text) {}

    [[noreturn]] void fail(const std::string& why) const {
        throw std::runtime_error(why + " at byte " + std::to_string(at_));
    }
    void space() {
        while (at_ < text_.size() && std::string_view(" \n\r\t").find(text_[at_]) != std::string_view::npos) ++at_;
    }
    [[nodiscard]] char peek() {
        space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    [[nodiscard]] bool accept(char ch) {
        if (peek() != ch) return false;
        ++at_;
        return true;
    }
    void expect(char ch) {
        if (!accept(ch)) fail(std::string("expected ") + ch);
    }
    [[nodiscard]] bool at_end() {
        space();
        return at_ == text_.size();
    }

    /// Calls f(key) for each member, which reads the value; refuses a key that comes twice.
    template <class F>
    void object(const F& f) {
        std::set<std::string> seen;
        expect('{');
        if (accept('}')) return;
        do {
            if (peek() != '"') fail("expected a key");
            const std::string key = string();
            if (!seen.insert(key).second) fail("key " + key + " twice");
            expect(':');
            f(key);
        } while (accept(','));
        expect('}');
    }
    template <class F>
    void array(const F& f) {
        expect('[');
        if (accept(']')) return;
        do f();
        while (accept(','));
        expect(']');
    }

    [[nodiscard]] json_value value() {
        json_value v;
        switch (peek()) {
            case '{':
                v.kind = json_value::object;
                object([&](const std::string& key) {
                    v.items.push_back(value());
                    v.names.push_back(key);
                });
                return v;
            case '[':
                v.kind = json_value::array;
                array([&] { v.items.push_back(value()); });
                return v;
            case '"':
                v.kind = json_value::string, v.text = string();
                return v;
            case 't':
                v.kind = json_value::boolean, word("true");
                return v;
            case 'f':
                v.kind = json_value::boolean, word("false");
                return v;
            case 'n':
                word("null");
                return v;
            default:
                v.kind = json_value::number, v.text = number();
                return v;
        }
    }

    [[nodiscard]] std::string string() {
        std::string out;
        expect('"');
        for (;;) {
            if (at_ >= text_.size()) fail("a string that does not end");
            const auto byte = static_cast<unsigned char>(text_[at_]);
            if (byte == '"') return ++at_, out;
            if (byte < 0x20) fail("a control character in a string");
            if (byte == '\\') escape(out);
            else if (byte < 0x80) out += text_[at_++];
            else utf8(out);
        }
    }

private:
    void word(std::string_view expected) {
        if (text_.substr(at_, expected.size()) != expected) fail("expected a value");
        at_ += expected.size();
    }

    std::string number() {
        const std::size_t begin = at_;
        const auto digits = [&] {
            const std::size_t first = at_;
            while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
            if (at_ == first) fail("expected a digit");
            return at_ - first;
        };
        const auto next_is = [&](std::string_view any) {
            return at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos;
        };
        if (next_is("-")) ++at_;
        const bool zero = next_is("0");
        if (digits() > 1 && zero) fail("a leading zero");
        if (next_is(".")) ++at_, digits();
        if (next_is("eE")) {
            ++at_;
            if (next_is("+-")) ++at_;
            digits();
        }
        return std::string(text_.substr(begin, at_ - begin));
    }

    void escape(std::string& out) {
        ++at_;
        const char kind = at_ < text_.size() ? text_[at_++] : '\0';
        const std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
        if (const auto place = from.find(kind); place != std::string_view::npos) {
            out += to[place];
        } else if (kind == 'u' && at_ + 4 <= text_.size()) {
            const std::string hex(text_.substr(at_, 4));
            if (hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) fail("a bad \\u escape");
            const long code = std::strtol(hex.c_str(), nullptr, 16);
            if (code >= 0x80) fail("an escape that headwise has no need of");
            out += static_cast<char>(code);
            at_ += 4;
        } else {
            fail("a bad escape");
        }
    }

    /// Decodes one character beyond ASCII: not the tables of the writer, but arithmetic.
    void utf8(std::string& out) {
        const auto first = static_cast<unsigned char>(text_[at_]);
        const std::size_t length = first >= 0xF8 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
        if (length == 0 || at_ + length > text_.size()) fail("not UTF-8");
        std::uint32_t code = first & (0x7Fu >> length);
        for (std::size_t i = 1; i < length; ++i) {
            const auto byte = static_cast<unsigned char>(text_[at_ + i]);
            if ((byte & 0xC0u) != 0x80u) fail("not UTF-8");
            code = code << 6 | (byte & 0x3Fu);
        }
        const std::uint32_t least[]{0, 0, 0x80, 0x800, 0x10000};
        if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("not UTF-8");
        out += text_.substr(at_, length);
        at_ += length;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// What a trace holds, for tests to compare.
struct trace_summary {
    std::size_t scopes = 0, counters = 0;
    std::string process;
    std::map<std::int64_t, std::string> threads;
    std::set<std::string> names;
    std::int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
};

/// Throws `std::runtime_error` naming the first rule that is broken.
class trace_checker {
public:
    [[nodiscard]] trace_summary check(std::string_view text) {
        json_reader reader(text);
        bool has_events = false;
        reader.object([&](const std::string& key) {
            if (key != "traceEvents") {
                if (reader.value().text != "ns" || key != "displayTimeUnit") reader.fail("an unknown key " + key);
                return;
            }
            has_events = true;
            reader.array([&] { event(reader.value()); });
        });
        if (!reader.at_end()) reader.fail("text after the end");
        if (!has_events) reader.fail("no traceEvents");
        for (const auto& [thread, stack] : open_) {
            if (!summary_.threads.contains(thread)) reader.fail("a thread without a name");
        }
        if (summary_.process.empty()) reader.fail("a process without a name");
        return summary_;
    }

private:
    [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error(why); }

    static const json_value& member(const json_value& v, const char* key, int kind) {
        const json_value* const found = v.find(key);
        if (found == nullptr || found->kind != kind) fail(std::string("an event lacks ") + key);
        return *found;
    }
    static std::int64_t integer(const json_value& v, const char* key) {
        const std::string& text = member(v, key, json_value::number).text;
        if (text.find_first_of(".eE") != std::string::npos) fail(std::string(key) + " is not an integer");
        return std::stoll(text);
    }
    /// Microseconds with exactly three decimals -> nanoseconds.
    static std::int64_t time(const json_value& v, const char* key) {
        std::string text = member(v, key, json_value::number).text;
        const std::size_t point = text.find('.');
        if (point == std::string::npos || text.size() - point != 4 || text.find_first_of("eE") != std::string::npos)
            fail(std::string(key) + " has not three decimals: " + text);
        text.erase(point, 1);
        const std::int64_t ns = std::stoll(text);
        if (ns < 0) fail(std::string(key) + " is negative");
        return ns;
    }

    void event(const json_value& v) {
        if (v.kind != json_value::object) fail("an event is not an object");
        const std::string& name = member(v, "name", json_value::string).text;
        const std::string& phase = member(v, "ph", json_value::string).text;
        const std::int64_t process = integer(v, "pid"), thread = integer(v, "tid");
        if (process_ == 0) process_ = process;
        if (process != process_ || process <= 0) fail("several processes");
        if (phase == "M") return metadata(v, name, thread);
        const std::int64_t begin = time(v, "ts");
        if (phase == "C") {
            ++summary_.counters;
            const std::vector<json_value>& values = member(v, "args", json_value::object).items;
            if (values.empty()) fail("a counter without a value");
            for (const json_value& value : values) {
                if (value.kind != json_value::number) fail("a counter that is no number");
            }
            return;
        }
        if (phase != "X") fail("phase " + phase);
        ++summary_.scopes;
        summary_.names.insert(name);
        nest(thread, begin, begin + time(v, "dur"));
    }

    void metadata(const json_value& v, const std::string& what, std::int64_t thread) {
        const std::string& name = member(member(v, "args", json_value::object), "name", json_value::string).text;
        if (what == "process_name") summary_.process = name;
        else if (what != "thread_name") fail("metadata " + what);
        else if (!summary_.threads.emplace(thread, name).second) fail("a thread with two names");
    }

    /// On its thread an event begins no earlier than the one before it, and lies within or behind each that is open.
    void nest(std::int64_t thread, std::int64_t begin, std::int64_t end) {
        auto& stack = open_[thread];
        auto& last = last_begin_[thread];
        if (begin < last) fail("events out of order");
        last = begin;
        while (!stack.empty() && stack.back() <= begin && !(stack.back() == begin && end == begin)) stack.pop_back();
        if (!stack.empty() && end > stack.back()) fail("events overlap without nesting");
        stack.push_back(end);
        summary_.first_ns = summary_.first_ns < begin ? summary_.first_ns : begin;
        summary_.last_ns = summary_.last_ns > end ? summary_.last_ns : end;
    }

    trace_summary summary_;
    std::int64_t process_ = 0;
    std::map<std::int64_t, std::vector<std::int64_t>> open_;
    std::map<std::int64_t, std::int64_t> last_begin_;
};

[[nodiscard]] inline trace_summary check_trace(std::string_view text) { return trace_checker().check(text); }

}  // namespace headwise::test
