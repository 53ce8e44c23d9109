// The command line of profile_scores: what may be asked for, and what is refused.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <headwise/headwise.hpp>

namespace profile_scores {

constexpr std::string_view usage =
    R"(usage: profile_scores [--q FILE --k FILE | --shape B,H,L,D | --shape B,H,L,M,D] [options]

Attention scores, einsum("bhld,bhmd->bhlm", q, k), computed by the readable loop and by the fused routine:
do the two agree, and how long does a call of each take? Without q, k and a shape: random tensors of
shape (2, 3, 8, 16), then the heads of a text-recognition model that come with headwise.

  --q FILE, --k FILE    float32 .npy files, q (B, H, L, D) and k (B, H, M, D)
  --shape B,H,L[,M],D   random normal q (B, H, L, D) and k (B, H, M, D); M is L unless given
  --seed N              of the random tensors (default 0)
  --layout bhld|blhd    order of the axes in memory, and in the files (default bhld); blhd is read in place
  --runs N              timed calls of each (default 10)
  --threads N           of the fused routine (default 1; 0: one for each core)
  --isa NAME            instruction set of the fused routine (default automatic)
  --format NAME         table, json (one object a line), csv, markdown, html (a page to look at) or svg (the
                        roofline alone) (default table)
  --machine FILE        for html and svg: keep this machine's peaks there, and read them from there the next time
  --output FILE         write there instead of to standard output; replaced whole or not at all
  --save-scores FILE    save the fused routine's scores, (B, H, L, M), as .npy
  --help, --version

Exit status: 0 all outputs match, 1 some do not, 2 bad usage or input.
)";

enum class format { table, json, csv, markdown, html, svg };

struct options {
    std::string q_file, k_file;
    std::optional<std::array<std::ptrdiff_t, 5>> shape;  // b, h, l, m, d
    std::uint64_t seed = 0;
    bool blhd = false;
    int runs = 10;
    headwise::scores_options scores;
    profile_scores::format format = format::table;
    std::string output_file, scores_file, machine_file;
    bool help = false, version = false;
};

[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

inline std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

/// The whole of `text` as a number from `least` on, or a refusal that names the option.
template <class Integer>
Integer whole_number(std::string_view option, std::string_view text, Integer least) {
    Integer value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::invalid_argument || stop != end)
        refuse(std::string(option) + ": " + in_quotes(text) + " is not a whole number");
    if (error == std::errc::result_out_of_range || value < least)
        refuse(std::string(option) + ": " + std::string(text) + " is out of range; " + std::to_string(least) + " to " +
               std::to_string(std::numeric_limits<Integer>::max()) + " is accepted");
    return value;
}

inline std::array<std::ptrdiff_t, 5> parse_shape(std::string_view text) {
    std::vector<std::ptrdiff_t> numbers;
    for (std::size_t first = 0; first <= text.size();) {
        const std::size_t comma = std::min(text.find(',', first), text.size());
        numbers.push_back(whole_number<std::ptrdiff_t>("--shape", text.substr(first, comma - first), 0));
        first = comma + 1;
    }
    if (numbers.size() == 4) return {numbers[0], numbers[1], numbers[2], numbers[2], numbers[3]};
    if (numbers.size() == 5) return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    refuse("--shape: " + in_quotes(text) + " has " + std::to_string(numbers.size()) +
           (numbers.size() == 1 ? " number" : " numbers") + "; B,H,L,D or B,H,L,M,D is expected");
}

inline headwise::isa parse_isa(std::string_view name) {
    std::string runnable = "automatic";
    if (name == runnable) return headwise::isa::automatic;
    for (const headwise::isa supported : headwise::supported_isas()) {
        if (name == headwise::to_string(supported)) return supported;
        (runnable += ", ") += headwise::to_string(supported);
    }
    refuse("--isa: " + in_quotes(name) + " is not one of " + runnable + ", which this machine runs");
}

/// The value that stands beside `name` in `choices`.
template <class Value, std::size_t count>
Value chosen(std::string_view option, std::string_view name,
             const std::pair<std::string_view, Value> (&choices)[count]) {
    std::string known;
    for (const auto& [choice, value] : choices) {
        if (choice == name) return value;
        known += (known.empty() ? "" : ", ") + std::string(choice);
    }
    refuse(std::string(option) + ": " + in_quotes(name) + " is not one of " + known);
}

inline void set(options& o, std::string_view option, std::string_view value) {
    if (option == "--q") o.q_file = value;
    else if (option == "--k") o.k_file = value;
    else if (option == "--shape") o.shape = parse_shape(value);
    else if (option == "--seed") o.seed = whole_number<std::uint64_t>(option, value, 0);
    else if (option == "--layout") o.blhd = chosen<bool>(option, value, {{"bhld", false}, {"blhd", true}});
    else if (option == "--runs") o.runs = whole_number<int>(option, value, 1);
    else if (option == "--threads") o.scores.threads = whole_number<int>(option, value, 0);
    else if (option == "--isa") o.scores.isa = parse_isa(value);
    else if (option == "--output") o.output_file = value;
    else if (option == "--save-scores") o.scores_file = value;
    else if (option == "--machine") o.machine_file = value;
    else
        o.format = chosen<format>(option, value, {{"table", format::table}, {"json", format::json},
                                                  {"csv", format::csv}, {"markdown", format::markdown},
                                                  {"html", format::html}, {"svg", format::svg}});
}

/// `--option value` or `--option=value`, each at most once. Throws `std::invalid_argument` with one line to show.
inline options parse(std::span<const std::string_view> arguments) {
    constexpr std::string_view with_value[] = {"--q",    "--k",       "--shape", "--seed",   "--layout", "--runs",
                                               "--threads", "--isa", "--format", "--output", "--save-scores",
                                               "--machine"};
    options o;
    std::vector<std::string_view> seen;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::size_t equals = arguments[i].starts_with("--") ? arguments[i].find('=') : std::string_view::npos;
        const std::string_view option = arguments[i].substr(0, equals);
        if (arguments[i] == "--help" || arguments[i] == "-h") o.help = true;
        else if (arguments[i] == "--version") o.version = true;
        else if (std::find(std::begin(with_value), std::end(with_value), option) == std::end(with_value))
            refuse(in_quotes(arguments[i]) + " is not an option; --help shows them all");
        else {
            if (std::find(seen.begin(), seen.end(), option) != seen.end())
                refuse(std::string(option) + " is given twice");
            seen.push_back(option);
            const bool joined = equals != std::string_view::npos;
            if (!joined && ++i == arguments.size()) refuse(std::string(option) + " needs a value");
            const std::string_view value = joined ? arguments[i].substr(equals + 1) : arguments[i];
            if (value.empty()) refuse(std::string(option) + " needs a value");
            set(o, option, value);
        }
    }
    if (o.help || o.version) return o;
    if (o.q_file.empty() != o.k_file.empty()) refuse("--q and --k go together; one is missing");
    if (!o.q_file.empty() && o.shape)
        refuse("--shape asks for random tensors, --q and --k for those of files; give one or the other");
    if (!o.scores_file.empty() && o.q_file.empty() && !o.shape)
        refuse("--save-scores needs --q and --k, or --shape: by default there are two cases");
    if (!o.machine_file.empty() && o.format != format::html && o.format != format::svg)
        refuse("--machine goes with --format html and --format svg, which show the machine's limits");
    if (!o.machine_file.empty() && (o.machine_file == o.output_file || o.machine_file == o.scores_file))
        refuse("--machine and another option name the same file");
    if (!o.scores_file.empty() && o.scores_file == o.output_file)
        refuse("--output and --save-scores name the same file");
    return o;
}

}  // namespace profile_scores
