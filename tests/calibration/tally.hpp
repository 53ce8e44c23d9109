// What many trials found, and a row of the table.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <headwise/harness/statistics.hpp>

#include "tools.hpp"

namespace calibration {

inline void print_heading() {
    std::printf("%-7s %6s %6s %6s %6s  %-9s %5s %-18s %-18s %-18s %-18s %8s %7s\n", "machine", "us", "effect", "s",
                "margin", "tool", "n", "faster %", "slower %", "equivalent %", "covered %", "width %", "took s");
}

struct tally {
    std::int64_t trials = 0, faster = 0, slower = 0, equivalent = 0, covered = 0;
    double seconds = 0;
    std::vector<double> widths{};

    void add(const outcome& o, double truth) {
        ++trials;
        faster += o.found == verdict::faster;
        slower += o.found == verdict::slower;
        equivalent += o.found == verdict::equivalent;
        covered += o.low <= truth && truth <= o.high;
        seconds += o.seconds;
        widths.push_back(o.high - o.low);
    }
};

inline std::string rate(std::int64_t k, std::int64_t n) {
    const interval p = statistics::proportion(k, n);
    char text[64];
    std::snprintf(text, sizeof text, "%5.1f (%4.1f-%5.1f)", 100 * p.estimate, 100 * p.low, 100 * p.high);
    return text;
}

inline void print_row(const char* where, double call_us, double effect, double seconds, double margin, const char* name,
                      const tally& t, const char* target) {
    std::printf("%-7s %6.0f %6.2f %6.2f %6.1f  %-9s %5lld %s %s %s %s %8.3f %7.3f  %s\n", where, call_us, 100 * effect,
                seconds, 100 * margin, name, static_cast<long long>(t.trials), rate(t.faster, t.trials).c_str(),
                rate(t.slower, t.trials).c_str(), rate(t.equivalent, t.trials).c_str(),
                rate(t.covered, t.trials).c_str(), 100 * statistics::median(t.widths),
                t.trials ? t.seconds / static_cast<double>(t.trials) : 0, target);
    std::fflush(stdout);
}

}  // namespace calibration
