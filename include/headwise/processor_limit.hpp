// How many processors this process may use: those that it may run on, or what a container's limit leaves of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include <headwise/text_file.hpp>

namespace headwise::detail {

/// The folders of the control groups that may limit this process, of Linux's cgroup versions 1 and 2: each group, then
/// those around it. Some may not be there, as in a container, which sees its own alone. Tests put a tree of their own
/// under `root`.
[[nodiscard]] inline std::vector<std::string> control_groups(const std::string& root = {}) {
    std::vector<std::string> folders;
    const std::string lines = read_text(root + "/proc/self/cgroup").value_or("");
    for (std::size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const std::string line = lines.substr(begin, end - begin);  // "4:cpu,cpuacct:/a/b", or "0::/a/b" in version 2
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        std::string controllers = ",";
        controllers.append(line, first + 1, second - first - 1).append(",");
        const bool version1 = controllers.find(",cpu,") != std::string::npos;
        if (!version1 && controllers != ",,") continue;
        const std::string top = root + (version1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup");
        std::string group = line.substr(second + 1);
        for (std::size_t last; (last = group.rfind('/')) != std::string::npos; group.erase(last))
            if (last + 1 != group.size()) folders.push_back(top + group);
        folders.push_back(top);
    }
    return folders;
}

/// Processors' worth of time in every period, by the tightest of the groups; infinity where none has a limit.
[[nodiscard]] inline double processor_quota(const std::vector<std::string>& groups) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::string& group : groups) {
        const std::string limit =  // "max 100000" and "-1 100000" are none
            read_text(group + "/cpu.max")
                .value_or(read_text(group + "/cpu.cfs_quota_us").value_or("") + ' ' +
                          read_text(group + "/cpu.cfs_period_us").value_or(""));
        long long quota = 0, period = 0;
        if (std::sscanf(limit.c_str(), "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
            least = std::min(least, static_cast<double>(quota) / static_cast<double>(period));
    }
    return least;
}

/// How often the groups' limits have stopped what runs in them, since they were made.
[[nodiscard]] inline std::int64_t times_stopped(const std::vector<std::string>& groups) {
    constexpr std::string_view name = "nr_throttled ";
    std::int64_t times = 0;
    for (const std::string& group : groups) {
        const std::string statistics = read_text(group + "/cpu.stat").value_or("");
        const std::size_t at = statistics.find(name);
        if (at != std::string::npos) times += std::strtoll(statistics.c_str() + at + name.size(), nullptr, 10);
    }
    return times;
}

/// Those that the process's first thread may run on (taskset and cpusets leave it some), where the system tells.
[[nodiscard]] inline int permitted_processors() noexcept {
#if defined(__linux__)
    cpu_set_t permitted;
    if (sched_getaffinity(getpid(), sizeof permitted, &permitted) == 0) return CPU_COUNT(&permitted);
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
}

/// So many processors, or as many as a quota leaves work for.
[[nodiscard]] inline int usable_processors(int permitted, double quota) noexcept {
    return std::max(1, quota < permitted ? static_cast<int>(std::ceil(quota)) : permitted);
}

/// The threads of which each may have a processor, as it was at the first call. A thread more would not run longer, but
/// stop all others until the period ends: under a quota of one processor, calls of 2.2 ms took up to 52 on two threads.
[[nodiscard]] inline int hardware_threads() {
    static const int count = usable_processors(permitted_processors(), processor_quota(control_groups()));
    return count;
}

}  // namespace headwise::detail
