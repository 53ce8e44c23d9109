// A comparison of any names, numbers and samples, written as JSON: valid, and every string and number reads back as it
// was.
#include <bit>
#include <cmath>
#include <sstream>

#include <headwise/harness.hpp>

#include "input.hpp"
#include "json_reader.hpp"

namespace {

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

headwise::comparison take_comparison(fuzz::input& in) {
    const auto number = [&in] { return std::bit_cast<double>(in.word()); };
    headwise::comparison c;
    c.confidence = number(), c.margin = number(), c.seconds = number();
    c.blocks = in.byte(), c.seed = in.word();
    for (std::ptrdiff_t arms = in.between(1, 4); arms > 0; --arms) {
        headwise::arm_result arm;
        arm.name = in.text(20), arm.reason = in.text(30);
        arm.verdict = static_cast<headwise::verdict>(in.between(0, 5));
        if (in.byte() % 2 == 0) arm.speedup = headwise::interval{number(), number(), number()};
        arm.time.median = number(), arm.detectable = number();
        for (std::ptrdiff_t samples = in.between(0, 6); samples > 0; --samples) {
            arm.samples.push_back(number());
            arm.spoiled.push_back(in.byte() % 2 == 0);
        }
        c.arms.push_back(std::move(arm));
    }
    for (std::ptrdiff_t notes = in.between(0, 3); notes > 0; --notes) c.notes.push_back(in.text(30));
    return c;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    const headwise::comparison c = take_comparison(in);
    std::ostringstream text, table, markdown, csv;
    headwise::write_json(text, c);
    const fuzz::json_reader::found found = fuzz::json_reader(text.str()).read();
    const auto is_there = [&](const std::string& string) {
        return std::find(found.strings.begin(), found.strings.end(), string) != found.strings.end();
    };
    for (const headwise::arm_result& arm : c.arms) {
        fuzz::must(is_there(arm.name) && is_there(arm.reason), "a name or a reason is lost");
        for (const double sample : arm.samples) {
            bool kept = !std::isfinite(sample);
            for (const std::string& number : found.numbers)
                kept = kept || same(std::strtod(number.c_str(), nullptr), sample);
            fuzz::must(kept, "a sample is lost");
        }
    }
    for (const std::string& note : c.notes) fuzz::must(is_there(note), "a note is lost");
    table << c;
    headwise::write_markdown(markdown, c);
    headwise::write_csv(csv, c);
    return 0;
}
