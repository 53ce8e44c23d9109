// A machine's peaks, measured once and kept in a file: read back only by the machine, and the compiler, that wrote it.
//
//     const known_machine here = recall_machine("machine.txt");  // measures when there is nothing to believe
//     std::cerr << here.note << '\n';
//
// The file lies where its user says; nothing is kept anywhere else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <headwise/atomic_file.hpp>
#include <headwise/error.hpp>
#include <headwise/harness/machine.hpp>
#include <headwise/harness/number_text.hpp>
#include <headwise/text_file.hpp>

namespace headwise {

namespace detail {

inline constexpr std::string_view machine_file_heading = "headwise machine 1";

[[nodiscard]] inline std::string machine_file_text(const machine_report& m) {
    const auto line = [](const char* key, std::string value) {
        for (char& ch : value) {
            if (static_cast<unsigned char>(ch) < 0x20) ch = ' ';
        }
        return key + (" " + value) + '\n';
    };
    const auto number = [](double x) { return " " + general(x, 9); };
    std::string text(machine_file_heading);
    text += '\n' + line("host", m.identity.host) + line("processor", m.identity.processor) +
            line("processors", std::to_string(m.identity.processors)) +
            line("instructions", m.identity.instruction_set) + line("compiler", m.identity.compiler) +
            line("measured", m.measured_on);
    for (const cache_level& c : m.identity.caches) {
        text +=
            line("cache", std::to_string(c.level) + " " + std::to_string(c.bytes) + " " + std::to_string(c.shared_by));
    }
    for (const machine_peak& p : m.peaks) {
        text += line("peak", p.scalar + " " + std::to_string(p.threads) + number(p.flops));
    }
    for (const machine_level& l : m.levels) {
        text += line("level", l.name + " " + std::to_string(l.threads) + " " + std::to_string(l.capacity) + " " +
                                  std::to_string(l.working_set) + number(l.read) + number(l.write) +
                                  number(l.streaming_write) + number(l.triad));
    }
    return text + "end\n";
}

/// The words of a line, taken one by one; `good` until one was missing or made no sense.
class machine_fields {
public:
    explicit machine_fields(std::string_view line) : rest_(line) {}

    [[nodiscard]] std::string word() {
        std::string found(rest_.substr(0, rest_.find(' ')));
        rest_.remove_prefix(std::min(rest_.size(), found.size() + 1));
        good_ = good_ && !found.empty();
        return found;
    }
    [[nodiscard]] std::size_t whole() {
        const std::string text = word();
        good_ = good_ && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
        return good_ ? static_cast<std::size_t>(std::strtoull(text.c_str(), nullptr, 10)) : 0;
    }
    [[nodiscard]] int count() {
        const std::size_t n = whole();
        good_ = good_ && n >= 1 && n <= 1 << 20;
        return good_ ? static_cast<int>(n) : 1;
    }
    [[nodiscard]] double rate() {
        const std::optional<double> value = number_in(word());
        good_ = good_ && value && std::isfinite(*value) && *value > 0;
        return value.value_or(0);
    }
    [[nodiscard]] std::string rest() { return std::string(std::exchange(rest_, {})); }
    [[nodiscard]] bool good() const { return good_ && rest_.empty(); }

private:
    std::string_view rest_;
    bool good_ = true;
};

/// Takes in one line; false when it makes no sense.
[[nodiscard]] inline bool take_machine_line(std::string_view line, machine_report& m) {
    machine_fields fields(line);
    const std::string key = fields.word();
    machine_identity& id = m.identity;
    if (key == "host") id.host = fields.rest();
    else if (key == "processor") id.processor = fields.rest();
    else if (key == "processors") id.processors = fields.count();
    else if (key == "instructions") id.instruction_set = fields.rest();
    else if (key == "compiler") id.compiler = fields.rest();
    else if (key == "measured") m.measured_on = fields.rest();
    else if (key == "cache") {
        const int level = fields.count();
        const std::size_t bytes = fields.whole();
        id.caches.push_back({level, bytes, fields.count()});
    } else if (key == "peak") {
        machine_peak peak{fields.word()};
        peak.threads = fields.count(), peak.flops = fields.rate();
        m.peaks.push_back(std::move(peak));
    } else if (key == "level") {
        machine_level level{fields.word()};
        level.threads = fields.count(), level.capacity = fields.whole(), level.working_set = fields.whole();
        level.read = fields.rate(), level.write = fields.rate();
        level.streaming_write = fields.rate(), level.triad = fields.rate();
        m.levels.push_back(std::move(level));
    } else {
        return false;
    }
    return fields.good();
}

/// A report, or in `trouble` what is wrong with the text: words that follow "it".
[[nodiscard]] inline std::optional<machine_report> parse_machine(std::string_view text, std::string& trouble) {
    machine_report m;
    int number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(text.size(), end + 1));
        if (++number == 1) continue;  // the heading
        if (line == "end" && text.empty() && !m.levels.empty()) return m;
        if (take_machine_line(line, m)) continue;
        trouble = "makes no sense in line " + std::to_string(number);
        return std::nullopt;
    }
    trouble = "ends too early";
    return std::nullopt;
}

}  // namespace detail

/// Keeps a machine's peaks in a small text file, which is replaced whole or not at all. Refuses a path that cannot be
/// a file; throws `std::runtime_error` when writing fails. What was there then stays as it was.
inline void save_machine(const std::string& path, const machine_report& m) {
    detail::write_text(path, detail::machine_file_text(m));
}

/// Reads what `save_machine` kept, of whatever machine. Refuses (`std::invalid_argument`) what is not such a file.
[[nodiscard]] inline machine_report load_machine(const std::string& path) {
    const std::optional<std::string> text = detail::read_text(path);
    if (!text) detail::refuse("load_machine: cannot read " + path);
    if (!text->starts_with(std::string(detail::machine_file_heading) + "\n"))
        detail::refuse("load_machine: " + path + " is not a headwise machine file, version 1");
    std::string trouble;
    const std::optional<machine_report> found = detail::parse_machine(*text, trouble);
    if (!found) detail::refuse("load_machine: " + path + " " + trouble);
    return *found;
}

/// A machine's peaks, and where they come from.
struct known_machine {
    machine_report report;
    bool measured = false;  ///< just now; else read from the file
    std::string note;       ///< one sentence for the user: where the figures come from, and why
};

/// This machine's peaks: from the file when it is of this machine, this compiler and all the numbers of threads asked
/// for; else measured, and the file replaced. The note says which of the two, and why: a file of another machine, or a
/// damaged one, is never believed silently. A file that is none of ours is refused (`std::invalid_argument`) and left
/// alone. There is no default place: the path is the user's.
[[nodiscard]] inline known_machine recall_machine(const std::string& path, const machine_options& options = {}) {
    std::string why = "there is no " + path + " yet";
    if (detail::kind_of_path(path) != detail::path_kind::nothing) {
        const std::optional<std::string> text = detail::read_text(path);
        if (!text) detail::refuse("recall_machine: cannot read " + path);
        if (!text->empty() && !text->starts_with("headwise machine "))
            detail::refuse("recall_machine: " + path + " is not a headwise machine file; it is left as it is");
        const machine_identity here = this_machine();
        std::string trouble;
        std::optional<machine_report> kept;
        if (text->starts_with(std::string(detail::machine_file_heading) + "\n"))
            kept = detail::parse_machine(*text, trouble);
        else trouble = "is of another version";
        if (kept) trouble = difference(kept->identity, here);
        if (kept && trouble.empty()) {
            for (const int threads : detail::thread_counts(options, here.processors)) {
                if (!kept->measured_with(threads)) trouble = "knows nothing of " + detail::threads_text(threads);
            }
        }
        const std::string date = kept ? kept->measured_on : "";
        if (kept && trouble.empty())
            return {std::move(*kept), false, "the machine's peaks are from " + path + ", measured on " + date};
        why = path + " " + trouble;
    }
    known_machine known{measure_machine(options), true, {}};
    save_machine(path, known.report);
    known.note = why + ": the machine was measured now, and " + path + " written";
    return known;
}

}  // namespace headwise
