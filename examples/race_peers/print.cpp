#include "print.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>

#include "print_page.hpp"

namespace race {
namespace {

std::string processor() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown processor";
}

std::string compiler() {
#if defined(__clang__)
    return "Clang " __clang_version__;
#elif defined(__GNUC__)
    return "GCC " __VERSION__;
#else
    return "another compiler";
#endif
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now))};
}

std::string formatted(const char* pattern, double value) {
    char text[48];
    return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, pattern, value))};
}

/// A rate in three digits or so, whatever its size.
std::string digits(double rate) { return formatted(rate < 0.995 ? "%.2f" : rate < 99.95 ? "%.1f" : "%.0f", rate); }

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + "\"";
}

/// A figure in GFLOP/s, or why there is none.
std::string gflops(const result& r, const figure& f) {
    if (f.state == standing::wrong) return "wrong";
    if (f.state == standing::unable) return "-";
    return digits(r.work.flops / f.seconds / 1e9);
}

std::string interval_text(const std::optional<headwise::interval>& i) {
    if (!i) return "too few rounds";
    return formatted("%.3f", i->estimate) + " [" + formatted("%.3f", i->low) + ", " + formatted("%.3f", i->high) + "]";
}

std::string pair_text(const pair_result& p) {
    return p.title + ": " + digits(p.first_rate) + " against " + digits(p.second_rate) +
           " GFLOP/s, time per flop " + interval_text(p.ratio);
}

}  // namespace

report::report(const options& o, const std::vector<contender>& who, std::string scalar)
    : options_(o), scalar_(std::move(scalar)), who_(who) {
    if (options_.output == format::table) heading();
}

void report::add(result r) {
    for (const figure& f : r.figures) ours_right_ = ours_right_ && !(f.ours && f.state == standing::wrong);
    results_.push_back(std::move(r));
    if (options_.output == format::table) row(results_.back());
}

void report::add(const std::optional<pair_result>& r) {
    ours_right_ = ours_right_ && r.has_value();
    if (r) pairs_.push_back(*r);
}

void report::heading() const {
    std::printf("%s, %s, %d thread%s of %u, %s time, %s, %s\n", today().c_str(), scalar_.c_str(), options_.threads,
                options_.threads == 1 ? "" : "s", std::thread::hardware_concurrency(),
                options_.cpu_time ? "processor" : "wall", processor().c_str(), compiler().c_str());
    for (const contender& c : who_) std::printf("  %-10s %s\n", c.name.c_str(), c.version.c_str());
    std::printf(
        "\nratio: time of the best peer over that of fused, in paired rounds, [95 %% interval]\n\n"
        "%-22s %13s %8s %6s  %-18s %s\n",
        "shape (B,H,L,M,D)", "fused", "limit", "share", "best peer", "ratio");
    std::fflush(stdout);
}

void report::row(const result& r) const {
    const figure& fused = r.figures.front();
    std::printf("%-22s ", r.shape.text().c_str());
    if (r.fused_raced())
        std::printf("%8s %s %8s %4.0f %%  ", digits(r.rate(fused.seconds)).c_str(), r.unit(),
                    digits(r.rate(r.limit.seconds)).c_str(), 100 * r.limit.share(fused.seconds));
    else std::printf("%13s %8s %6s  ", gflops(r, fused).c_str(), digits(r.rate(r.limit.seconds)).c_str(), "");
    if (r.best_peer) {
        const figure& best = r.figures[*r.best_peer];
        std::printf("%-10s %7s  %s", best.name.c_str(), digits(r.rate(best.seconds)).c_str(),
                    r.fused_raced() ? interval_text(r.ratio).c_str() : "");
    }
    std::printf("\n");
    std::fflush(stdout);
}

report::means report::summarise() const {
    means m;
    double log_ratio = 0, log_fused = 0;
    std::size_t fused = 0;
    for (const result& r : results_) {
        if (!r.fused_raced()) continue;
        const double seconds = r.figures.front().seconds;
        log_fused += std::log(r.work.flops / seconds / 1e9);
        ++fused;
        constexpr double worth_a_share = 1e6;
        if (r.work.flops > worth_a_share &&
            (!m.worst_share ||
             r.limit.share(seconds) < m.worst_share->limit.share(m.worst_share->figures.front().seconds)))
            m.worst_share = &r;
        if (!r.ratio) continue;
        ++m.shapes;
        log_ratio += std::log(r.ratio->estimate);
        if (!m.worst_ratio || r.ratio->estimate < m.worst_ratio->ratio->estimate) m.worst_ratio = &r;
    }
    if (m.shapes > 0) m.ratio = std::exp(log_ratio / static_cast<double>(m.shapes));
    if (fused > 0) m.fused = std::exp(log_fused / static_cast<double>(fused));
    return m;
}

void report::figures_table() const {
    std::size_t shape_width = 5;
    for (const result& r : results_) shape_width = std::max(shape_width, r.shape.text().size());
    const auto width = [](const std::string& name) {
        return static_cast<int>(std::max<std::size_t>(name.size(), 6) + 1);
    };
    std::printf("\nGFLOP/s, medians; a star marks the best peer\n\n%-*s", static_cast<int>(shape_width), "shape");
    for (const contender& c : who_) std::printf("%*s", width(c.name), c.name.c_str());
    std::printf("\n");
    for (const result& r : results_) {
        std::printf("%-*s", static_cast<int>(shape_width), r.shape.text().c_str());
        for (std::size_t i = 0; i < r.figures.size(); ++i) {
            const std::string star = r.best_peer && *r.best_peer == i ? "*" : "";
            std::printf("%*s", width(r.figures[i].name), (gflops(r, r.figures[i]) + star).c_str());
        }
        std::printf("\n");
    }
}

void report::markdown() const {
    std::printf("%s, %s, %d thread(s), %s, %s: `race_peers %s`\n\n", today().c_str(), scalar_.c_str(), options_.threads,
                processor().c_str(), compiler().c_str(), options_.command.c_str());
    for (const contender& c : who_) std::printf("- %s: %s\n", c.name.c_str(), c.version.c_str());
    std::printf("\nGFLOP/s, medians; the best peer in bold.\n\n| shape |");
    for (const contender& c : who_) std::printf(" %s |", c.name.c_str());
    std::printf(" limit | share | ratio to the best peer |\n|---|");
    for (std::size_t i = 0; i < who_.size() + 2; ++i) std::printf("--:|");
    std::printf("---|\n");
    for (const result& r : results_) {
        std::printf("| %s |", r.shape.text().c_str());
        for (std::size_t i = 0; i < r.figures.size(); ++i) {
            const char* bold = r.best_peer && *r.best_peer == i ? "**" : "";
            std::printf(" %s%s%s |", bold, gflops(r, r.figures[i]).c_str(), bold);
        }
        std::printf(" %s%s |", digits(r.work.flops / r.limit.seconds / 1e9).c_str(),
                    r.limit.memory_bound ? " (memory)" : "");
        if (r.fused_raced()) std::printf(" %.0f %% |", 100 * r.limit.share(r.figures.front().seconds));
        else std::printf(" |");
        std::printf(" %s |\n", r.best_peer && r.fused_raced() ? interval_text(r.ratio).c_str() : "");
    }
}

void report::json() const {
    const auto number = [](double x) { return std::isfinite(x) ? formatted("%.9g", x) : std::string("null"); };
    const auto interval = [&](const std::optional<headwise::interval>& i) {
        if (!i) return std::string("null");
        return "{\"estimate\": " + number(i->estimate) + ", \"low\": " + number(i->low) +
               ", \"high\": " + number(i->high) + "}";
    };
    std::printf(
        "{\n  \"date\": %s, \"command\": %s, \"scalar\": %s, \"threads\": %d,\n  \"processor\": %s, \"compiler\": %s,\n"
        "  \"contenders\": [",
        quoted(today()).c_str(), quoted(options_.command).c_str(), quoted(scalar_).c_str(), options_.threads,
        quoted(processor()).c_str(), quoted(compiler()).c_str());
    const char* separator = "";
    for (const contender& c : who_) {
        std::printf("%s\n    {\"name\": %s, \"ours\": %s, \"version\": %s}", separator, quoted(c.name).c_str(),
                    c.ours ? "true" : "false", quoted(c.version).c_str());
        separator = ",";
    }
    std::printf("\n  ],\n  \"shapes\": [");
    separator = "";
    for (const result& r : results_) {
        const shape& s = r.shape;
        std::printf(
            "%s\n    {\"shape\": [%td, %td, %td, %td, %td], \"views\": %s, \"flops\": %s, \"bytes_read\": %s, "
            "\"bytes_written\": %s,\n     \"peak\": {\"flops\": %s, \"bytes_read\": %s, \"bytes_written\": %s}, "
            "\"limit_seconds\": %s, \"memory_bound\": %s,\n     \"best_peer\": %s, \"ratio\": %s,\n     \"figures\": [",
            separator, s.batches, s.heads, s.rows, s.columns, s.depth, s.views ? "true" : "false",
            number(r.work.flops).c_str(), number(r.work.bytes_read).c_str(), number(r.work.bytes_written).c_str(),
            number(r.machine.flops).c_str(), number(r.machine.bytes_read).c_str(),
            number(r.machine.bytes_written).c_str(), number(r.limit.seconds).c_str(),
            r.limit.memory_bound ? "true" : "false",
            r.best_peer ? quoted(r.figures[*r.best_peer].name).c_str() : "null", interval(r.ratio).c_str());
        separator = ",";
        const char* comma = "";
        for (const figure& f : r.figures) {
            const char* state = f.state == standing::raced ? "raced" : f.state == standing::wrong ? "wrong" : "unable";
            std::printf("%s\n      {\"name\": %s, \"state\": \"%s\", \"seconds\": %s, \"rounds\": %zu}", comma,
                        quoted(f.name).c_str(), state, f.state == standing::raced ? number(f.seconds).c_str() : "null",
                        f.rounds);
            comma = ",";
        }
        std::printf("]}");
    }
    std::printf("\n  ],\n  \"pairs\": [");
    separator = "";
    for (const pair_result& p : pairs_) {
        std::printf("%s\n    {\"title\": %s, \"gflops\": [%s, %s], \"time_per_flop_ratio\": %s}", separator,
                    quoted(p.title).c_str(), number(p.first_rate).c_str(), number(p.second_rate).c_str(),
                    interval(p.ratio).c_str());
        separator = ",";
    }
    std::printf("\n  ],\n");
    const means m = summarise();
    std::printf("  \"geometric_mean_ratio\": %s, \"geometric_mean_gflops\": %s, \"worst_shape\": %s\n}\n",
                m.shapes ? number(m.ratio).c_str() : "null", number(m.fused).c_str(),
                m.worst_ratio ? quoted(m.worst_ratio->shape.text()).c_str() : "null");
}

void report::page() const {
    const means m = summarise();
    if (options_.output == format::svg) {
        std::printf("%s", ratios_picture(results_).c_str());
        return;
    }
    page_text text;
    text.verdict = m.shapes == 0 ? "No ratio was measured"
                                 : "fused takes " + formatted("%.3f", 1 / m.ratio) +
                                       " of the time of each shape's best peer, geometric mean over " +
                                       std::to_string(m.shapes) + (m.shapes == 1 ? " shape" : " shapes");
    if (!ours_right_) text.verdict = "An output of ours was WRONG";
    text.facts = today() + ", " + scalar_ + ", " + std::to_string(options_.threads) + " thread(s), " +
                 (options_.cpu_time ? "processor" : "wall") + " time, " + processor() + ", " + compiler();
    text.command = "race_peers " + options_.command;
    text.wrong = !ours_right_;
    for (const pair_result& p : pairs_) text.pairs.push_back(pair_text(p));
    std::printf("%s", page_of(text, who_, results_, gflops).c_str());
}

bool report::finish() {
    if (options_.output == format::html || options_.output == format::svg) {
        page();
        return ours_right_;
    }
    if (options_.output == format::json) {
        json();
        return ours_right_;
    }
    if (options_.output == format::markdown) markdown();
    else figures_table();
    const means m = summarise();
    std::printf("\n");
    for (const pair_result& p : pairs_) std::printf("%s\n", pair_text(p).c_str());
    if (m.shapes > 0)
        std::printf("Geometric mean over %zu shape(s): ratio to each shape's best peer %.3f, fused %s GFLOP/s.\n",
                    m.shapes, m.ratio, digits(m.fused).c_str());
    if (m.worst_ratio)
        std::printf("Worst ratio: %.3f to %s at %s.\n", m.worst_ratio->ratio->estimate,
                    m.worst_ratio->figures[*m.worst_ratio->best_peer].name.c_str(),
                    m.worst_ratio->shape.text().c_str());
    if (m.worst_share)
        std::printf("Worst share of its limit, above 1 Mflop: %.0f %% at %s.\n",
                    100 * m.worst_share->limit.share(m.worst_share->figures.front().seconds),
                    m.worst_share->shape.text().c_str());
    if (!ours_right_) std::printf("An output of ours was WRONG.\n");
    return ours_right_;
}

}  // namespace race
