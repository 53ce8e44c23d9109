// Any text, a line an argument, as the command line of profile_scores: options within their bounds, or one line of
// refusal.
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "../../examples/profile_scores/options.hpp"
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<std::string_view> arguments;
    for (std::size_t first = 0; first < size && arguments.size() < 40;) {
        const std::size_t end = std::min(text.find('\n', first), size);
        arguments.push_back(text.substr(first, end - first));
        first = end + 1;
    }
    try {
        const profile_scores::options o = profile_scores::parse(arguments);
        fuzz::must(o.runs >= 1 && o.scores.threads >= 0, "a number out of bounds was accepted");
        if (o.shape)
            for (const std::ptrdiff_t extent : *o.shape) fuzz::must(extent >= 0, "a negative extent was accepted");
        if (!o.help && !o.version) fuzz::must(o.q_file.empty() == o.k_file.empty(), "--q without --k, or the reverse");
    } catch (const std::invalid_argument& refusal) {
        fuzz::must(std::strlen(refusal.what()) > 0, "a refusal without a word");
    }
    return 0;
}
