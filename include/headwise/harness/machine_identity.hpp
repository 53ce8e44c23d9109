// Which machine is this? Enough to tell whether figures that were kept are still its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/harness/roofline_targets.hpp>
#include <headwise/harness/units.hpp>

namespace headwise {

/// A data cache, as one processor sees it.
struct cache_level {
    int level = 1;
    std::size_t bytes = 0;
    int shared_by = 1;  ///< processors
    friend bool operator==(const cache_level&, const cache_level&) = default;
};

/// The name that the machine goes by, its processor, and what this program was built with.
struct machine_identity {
    std::string host, processor;
    int processors = 0;           ///< that run at once
    std::string instruction_set;  ///< the widest that it runs, and that the probes use
    std::string compiler;
    std::vector<cache_level> caches;  ///< ascending; where the system does not tell, what most machines have
    friend bool operator==(const machine_identity&, const machine_identity&) = default;
};

namespace detail {

/// The first line of a file, without what cannot be printed; empty when it cannot be read.
[[nodiscard]] inline std::string first_line(const std::string& path) {
    std::string line;
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return line;
    for (int ch = std::fgetc(file); ch != EOF && ch != '\n'; ch = std::fgetc(file)) {
        line += ch < 0x20 ? ' ' : static_cast<char>(ch);
    }
    std::fclose(file);
    return line;
}

/// How many processors "0-3,8,10-11" names.
[[nodiscard]] inline int processors_in(std::string_view list) {
    int count = 0;
    while (!list.empty()) {
        const std::string part(list.substr(0, list.find(',')));
        list.remove_prefix(std::min(list.size(), part.size() + 1));
        char* end = nullptr;
        const long first = std::strtol(part.c_str(), &end, 10);
        if (end == part.c_str()) return std::max(1, count);
        const long last = *end == '-' ? std::strtol(end + 1, nullptr, 10) : first;
        count += last >= first && last - first < 1 << 20 ? static_cast<int>(last - first) + 1 : 1;
    }
    return std::max(1, count);
}

/// The caches that Linux lists in `folder` (index0, index1, ...), without those of instructions.
[[nodiscard]] inline std::vector<cache_level> caches_in(const std::string& folder) {
    std::vector<cache_level> caches;
    for (int i = 0; i < 16; ++i) {
        const std::string index = folder + "/index" + std::to_string(i) + "/";
        const std::string type = first_line(index + "type"), size = first_line(index + "size");
        if (type != "Data" && type != "Unified") continue;
        char* suffix = nullptr;
        const unsigned long long amount = std::strtoull(size.c_str(), &suffix, 10);
        const int shift = *suffix == 'K' ? 10 : *suffix == 'M' ? 20 : *suffix == 'G' ? 30 : 0;
        const int level = std::atoi(first_line(index + "level").c_str());
        if (amount == 0 || level < 1) continue;
        caches.push_back(
            {level, static_cast<std::size_t>(amount) << shift, processors_in(first_line(index + "shared_cpu_list"))});
    }
    std::sort(caches.begin(), caches.end(),
              [](const cache_level& a, const cache_level& b) { return a.level < b.level; });
    return caches;
}

/// The value of the first "key : value" line of a file such as /proc/cpuinfo.
[[nodiscard]] inline std::string value_in(const std::string& path, std::string_view key) {
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return {};
    std::string value;
    char line[4096];
    while (value.empty() && std::fgets(line, sizeof line, file) != nullptr) {
        const std::string_view text(line);
        const std::size_t colon = text.find(':');
        if (!text.starts_with(key) || colon == std::string_view::npos) continue;
        value = text.substr(std::min(text.size(), colon + 2));
        while (!value.empty() && static_cast<unsigned char>(value.back()) <= ' ') value.pop_back();
    }
    std::fclose(file);
    return value;
}

[[nodiscard]] inline std::string host_name() {
#if defined(__unix__) || defined(__APPLE__)
    char name[256]{};
    if (gethostname(name, sizeof name - 1) == 0 && name[0] != '\0') return name;
#endif
    return "unnamed";
}

[[nodiscard]] inline std::string processor_name() {
    std::string name = value_in("/proc/cpuinfo", "model name");
    if (name.empty()) name = first_line("/sys/firmware/devicetree/base/model");
    if (name.empty()) {
        const std::string part = value_in("/proc/cpuinfo", "CPU part");  // ARM names its cores by number
        if (!part.empty()) name = "ARM " + value_in("/proc/cpuinfo", "CPU implementer") + " part " + part;
    }
    return name.empty() ? "unknown processor" : name;
}

[[nodiscard]] inline std::string compiler_name() {
#if defined(__clang__)
    return "Clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
           std::to_string(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "GCC " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
           std::to_string(__GNUC_PATCHLEVEL__);
#else
    return "unknown compiler";
#endif
}

}  // namespace detail

/// This machine, and the compiler of this program.
[[nodiscard]] inline machine_identity this_machine() {
    machine_identity identity{detail::host_name(),
                              detail::processor_name(),
                              static_cast<int>(std::thread::hardware_concurrency()),
                              detail::best_roofline_kernels().instruction_set,
                              detail::compiler_name(),
                              detail::caches_in("/sys/devices/system/cpu/cpu0/cache")};
    if (identity.caches.empty()) identity.caches = {{1, 32 << 10, 1}, {2, 1 << 20, 1}};
    return identity;
}

/// In what the machine of kept figures differs from this one, in words that follow "it": "is of the processor X, not
/// Y". Empty when it does not.
[[nodiscard]] inline std::string difference(const machine_identity& kept, const machine_identity& here) {
    const auto words = [](const char* what, const std::string& a, const std::string& b) {
        return std::string("is of ") + what + " " + a + ", not " + b;
    };
    if (kept.host != here.host) return words("the host", kept.host, here.host);
    if (kept.processor != here.processor) return words("the processor", kept.processor, here.processor);
    if (kept.processors != here.processors)
        return "is of a machine with " + std::to_string(kept.processors) + " processors, not " +
               std::to_string(here.processors);
    if (kept.instruction_set != here.instruction_set)
        return words("the instruction set", kept.instruction_set, here.instruction_set);
    if (kept.compiler != here.compiler) return words("the compiler", kept.compiler, here.compiler);
    if (kept.caches != here.caches) return "is of a machine with other caches";
    return {};
}

/// "AMD EPYC, 2 processors, AVX-512; L1 48 KiB, L2 1 MiB, L3 32 MiB (of 2); host name; GCC 12.2.0"
inline std::ostream& operator<<(std::ostream& out, const machine_identity& m) {
    out << m.processor << ", " << m.processors << (m.processors == 1 ? " processor, " : " processors, ")
        << m.instruction_set << ';';
    const char* separator = " ";
    for (const cache_level& c : m.caches) {
        out << separator << 'L' << c.level << ' ' << detail::bytes_text(static_cast<double>(c.bytes));
        if (c.shared_by > 1) out << " (of " << c.shared_by << ')';
        separator = ", ";
    }
    return out << "; " << m.host << "; " << m.compiler;
}

}  // namespace headwise
