// profile_scores: the main program. For each case: do the loop and the fused routine agree, and how long do they take?
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include <headwise/headwise.hpp>

#include "cases.hpp"
#include "options.hpp"
#include "report.hpp"
#include "report_page.hpp"

namespace {

using namespace profile_scores;

/// "ocr: 12 of 40" on stderr, for a person who waits: on a terminal only, and not for work that ends within a second.
class progress_line {
public:
    explicit progress_line(std::string name) : name_(std::move(name)) {}
    ~progress_line() {
        if (shown_) std::fputs("\r\033[K", stderr);
    }
    progress_line(const progress_line&) = delete;
    progress_line& operator=(const progress_line&) = delete;

    void operator()(int done, int total) {
        constexpr double patience_ms = 1000, refresh_ms = 100;
        if (!on_terminal() || since_start_.elapsed_ms() < patience_ms) return;
        if (shown_ && since_shown_.elapsed_ms() < refresh_ms) return;
        std::fprintf(stderr, "\r%s: run %d of %d\033[K", name_.c_str(), done, total);
        std::fflush(stderr);
        since_shown_.restart();
        shown_ = true;
    }

private:
    static bool on_terminal() {
#if __has_include(<unistd.h>)
        static const bool terminal = isatty(STDERR_FILENO) != 0;
        return terminal;
#else
        return false;
#endif
    }

    std::string name_;
    headwise::timer since_start_, since_shown_;
    bool shown_ = false;
};

/// /dev/null, /dev/stderr, a pipe: written to as they are. Anything else is replaced.
bool is_device(const std::string& file) {
    namespace fs = std::filesystem;
    return fs::exists(file) && !fs::is_regular_file(file) && !fs::is_directory(file);
}

/// Fails now if writing `file` would fail after the work.
void require_writable(const std::string& file) {
    if (!is_device(file)) headwise::detail::atomic_file probe(file);
}

void write_whole(const std::string& file, const std::string& text) {
    if (is_device(file)) {
        if (!(std::ofstream(file) << text << std::flush)) refuse(file + ": cannot be written");
        return;
    }
    headwise::detail::atomic_file out(file);
    out.write(text.data(), text.size());
    out.commit();
}

int run(const options& o) {
    if (!o.output_file.empty()) require_writable(o.output_file);
    if (!o.scores_file.empty()) headwise::detail::atomic_file probe(o.scores_file);
    std::optional<headwise::machine_report> machine;  // first: what it refuses, it refuses before the work
    if (o.format == format::html || o.format == format::svg) machine = machine_for(o);

    std::vector<finding> findings;
    bool all_match = true;
    for (const test_case& c : cases_of(o)) {
        const view q = c.q.bhld(), k = c.k.bhld();
        findings.push_back({c.name, headwise::profile_and_compare(q, k, o.runs, o.scores, progress_line(c.name))});
        all_match = all_match && findings.back().result.outputs_match;
        if (!o.scores_file.empty())
            headwise::save_npy(o.scores_file, headwise::batched_scores_vectorized(q, k, o.scores));
    }

    const std::string text = machine ? page(findings, *machine, o.format) : rendered(findings, o.format);
    if (!o.output_file.empty()) {
        write_whole(o.output_file, text);
    } else if (!(std::cout << text << std::flush)) {
        refuse("standard output: cannot write");
    }
    return all_match ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const std::vector<std::string_view> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
        const options o = parse(arguments);
        if (!o.help && !o.version) return run(o);
        if (o.help) std::cout << usage;
        else std::cout << "profile_scores " << HEADWISE_EXAMPLE_VERSION << '\n';
        return 0;
    } catch (const std::bad_alloc&) {
        std::cerr << "profile_scores: not enough memory for tensors of this shape\n";
    } catch (const std::exception& error) {
        std::cerr << "profile_scores: " << error.what() << '\n';
    }
    return 2;
}
