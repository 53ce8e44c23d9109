// A profile drawn over time: a file in the trace event format that chrome://tracing, Perfetto and speedscope open.
//
// The JSON object format of "Trace Event Format" (Google, 2016): complete events ("X") for scopes, counter events ("C")
// for `record_value`, metadata ("M") for the names of the process and its threads.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/atomic_file.hpp>
#include <headwise/harness/profiler.hpp>

namespace headwise {

struct trace_options {
    std::string_view process_name = "headwise";
    std::int64_t process_id = 0;  ///< 0: this process's own
};

namespace detail {

/// The length of the UTF-8 sequence that `text` begins with; 0 where there is none (Unicode 15, table 3-7).
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
    const unsigned first = byte(0), second = byte(1);
    if (first < 0x80) return text.empty() ? 0 : 1;
    if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second > 0x9F;
        return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const bool overlong = first == 0xF0 && second < 0x90, beyond = first == 0xF4 && second > 0x8F;
        return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

/// JSON's text, piece by piece, into whatever takes bytes: `sink(const char*, std::size_t)`. A buffer between them
/// keeps calls few; nothing else is held in memory.
template <class Sink>
class json_stream {
public:
    explicit json_stream(const Sink& sink) : sink_(sink) { buffer_.reserve(capacity); }

    json_stream& operator<<(std::string_view text) {
        buffer_.append(text);
        if (buffer_.size() > capacity - 1024) flush();
        return *this;
    }
    json_stream& operator<<(std::int64_t number) {
        char digits[24];
        return *this << std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    }
    json_stream& operator<<(double number) {
        if (!detail::is_finite_number(number)) return *this << "null";
        char digits[32];
        return *this << std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    }

    /// Quoted and escaped; what is not UTF-8 becomes U+FFFD.
    json_stream& quoted(std::string_view text) {
        *this << "\"";
        while (!text.empty()) {
            const std::size_t length = utf8_length(text);
            if (length == 0) *this << "\xEF\xBF\xBD";
            else if (length == 1) character(text[0]);
            else *this << text.substr(0, length);
            text.remove_prefix(length == 0 ? 1 : length);
        }
        return *this << "\"";
    }

    /// Nanoseconds as microseconds with exactly three decimals: no rounding, whatever the size.
    json_stream& microseconds(std::int64_t ns) {
        const bool negative = ns < 0;
        const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
        const auto rest = static_cast<unsigned>(size % 1000);
        const char decimals[4]{'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                               static_cast<char>('0' + rest % 10)};
        if (negative) *this << "-";
        return *this << static_cast<std::int64_t>(size / 1000) << std::string_view(decimals, 4);
    }

    void flush() {
        if (!buffer_.empty()) sink_(buffer_.data(), buffer_.size());
        buffer_.clear();
    }

private:
    static constexpr std::size_t capacity = 1 << 16;

    void character(char ch) {
        constexpr std::string_view digits = "0123456789abcdef";
        const auto code = static_cast<unsigned char>(ch);
        if (ch == '"' || ch == '\\') buffer_ += '\\', buffer_ += ch;
        else if (code >= 0x20 && code != 0x7F) buffer_ += ch;
        else *this << "\\u00" << digits.substr(code >> 4, 1) << digits.substr(code & 15, 1);
    }

    const Sink& sink_;
    std::string buffer_;
};

template <class Sink>
class trace_writer {
public:
    trace_writer(const Sink& sink, const trace_options& options) : json_(sink), options_(options) {
#if defined(__unix__) || defined(__APPLE__)
        if (options_.process_id == 0) options_.process_id = getpid();
#endif
    }

    void write(const std::vector<recording>& recordings) {
        json_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
        metadata("process_name", 0, options_.process_name);
        const std::int64_t origin = recordings.empty() ? 0 : recordings.front().start;
        std::vector<int> named;
        for (const recording& recorded : recordings) {
            for (const thread_recording& thread : recorded.threads) {
                if (std::find(named.begin(), named.end(), thread.number) == named.end()) {
                    named.push_back(thread.number);
                    metadata("thread_name", thread.number,
                             thread.name.empty() ? "thread " + std::to_string(thread.number) : thread.name);
                }
                for (const scope_run& run : thread.runs) complete(thread, run, origin);
                for (const value_sample& value : thread.values) counter(thread, value, origin);
            }
        }
        json_ << "\n]}\n";
        json_.flush();
    }

private:
    /// What every event begins with.
    void begin(std::string_view name, std::string_view phase, int thread) {
        json_ << (first_ ? "\n{\"name\":" : ",\n{\"name\":");
        first_ = false;
        json_.quoted(name) << ",\"ph\":\"" << phase << "\",\"pid\":" << options_.process_id
                           << ",\"tid\":" << std::int64_t{thread};
    }

    void metadata(std::string_view what, int thread, std::string_view name) {
        begin(what, "M", thread);
        json_ << ",\"args\":{\"name\":";
        json_.quoted(name) << "}}";
    }

    void complete(const thread_recording& thread, const scope_run& run, std::int64_t origin) {
        begin(run.name, "X", thread.number);
        json_ << ",\"cat\":\"scope\",\"ts\":";
        json_.microseconds(run.begin - origin) << ",\"dur\":";
        json_.microseconds(run.duration());
        if (run.extra != none || run.open) arguments(thread, run);
        json_ << "}";
    }

    void arguments(const thread_recording& thread, const scope_run& run) {
        json_ << ",\"args\":{";
        const char* separator = "\"";
        const auto key = [&](std::string_view name) {
            json_ << separator << name << "\":";
            separator = ",\"";
        };
        const auto number = [&](std::string_view name, double value) {
            if (value > 0) key(name), json_ << value;
        };
        if (run.shape != nullptr) key("shape"), json_.quoted(run.shape);
        if (run.extra != none) {
            const run_details& details = thread.details[run.extra];
            number("flops", details.done.flops);
            number("bytes read", details.done.bytes_read);
            number("bytes written", details.done.bytes_written);
            number("allocations", static_cast<double>(details.memory.allocations));
            number("allocated bytes", static_cast<double>(details.memory.allocated_bytes));
            number("releases", static_cast<double>(details.memory.releases));
            number("released bytes", static_cast<double>(details.memory.released_bytes));
        }
        if (run.open) key("had not ended"), json_ << "true";
        json_ << "}";
    }

    /// JSON has no infinity: a value that is none is left out.
    void counter(const thread_recording& thread, const value_sample& value, std::int64_t origin) {
        if (!detail::is_finite_number(value.value)) return;
        begin(value.name, "C", thread.number);
        json_ << ",\"ts\":";
        json_.microseconds(value.time - origin) << ",\"args\":{\"value\":" << value.value << "}}";
    }

    json_stream<Sink> json_;
    trace_options options_;
    bool first_ = true;
};

template <class Sink>
void write_trace_to(const Sink& sink, const std::vector<recording>& recordings, const trace_options& options) {
    trace_writer<Sink>(sink, options).write(recordings);
}

}  // namespace detail

/// Times are relative to the start of the first recording, in microseconds with three decimals. Written as it goes: a
/// trace of any length needs 64 KiB. Threads are numbered from 1; with a clock that threads do not share, their times
/// cannot be compared. Whether the stream took it all is the caller's to ask, as with any stream.
inline void write_trace(std::ostream& out, const std::vector<recording>& recordings,
                        const trace_options& options = {}) {
    const auto sink = [&](const char* text, std::size_t size) { out.write(text, static_cast<std::streamsize>(size)); };
    detail::write_trace_to(sink, recordings, options);
}
inline void write_trace(std::ostream& out, const profile& p, const trace_options& options = {}) {
    write_trace(out, p.recordings(), options);
}

/// The same into a file, which is replaced as a whole or, when anything fails (`std::runtime_error`), not at all.
inline void save_trace(const std::string& path, const std::vector<recording>& recordings,
                       const trace_options& options = {}) {
    detail::atomic_file file(path);
    const auto sink = [&](const char* text, std::size_t size) { file.write(text, size); };
    detail::write_trace_to(sink, recordings, options);
    file.commit();
}
inline void save_trace(const std::string& path, const profile& p, const trace_options& options = {}) {
    save_trace(path, p.recordings(), options);
}

}  // namespace headwise
