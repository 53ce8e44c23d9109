// The processor's and the kernel's counters around a stretch of code, on the calling thread: Linux's perf_event_open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#if defined(__linux__) && __has_include(<linux/perf_event.h>)
#define HEADWISE_HAVE_PERF_EVENTS 1
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <headwise/harness/comparison.hpp>
#include <headwise/harness/counter_scaling.hpp>

namespace headwise {

/// The first five are the processor's, counted together as one group, so that their ratios are of the same stretch; the
/// last four are the kernel's. task_clock is in nanoseconds.
enum class counter {
    cycles,
    instructions,
    branches,
    branch_misses,
    cache_misses,
    task_clock,
    page_faults,
    context_switches,
    migrations
};
inline constexpr std::size_t counter_kinds = 9, hardware_counters = 5;

[[nodiscard]] constexpr const char* text_of(counter kind) noexcept {
    constexpr const char* names[counter_kinds]{"cycles",        "instructions",     "branches",
                                               "branch misses", "cache misses",     "task clock",
                                               "page faults",   "context switches", "migrations"};
    return names[static_cast<std::size_t>(kind)];
}

/// What was counted. A counter that could not be is empty, never 0.
struct counter_values {
    std::array<std::optional<counted_events>, counter_kinds> values;
    std::string hardware_missing, software_missing;  ///< why some of either are empty, in a sentence; else empty

    [[nodiscard]] const std::optional<counted_events>& operator[](counter kind) const noexcept {
        return values[static_cast<std::size_t>(kind)];
    }

    /// a per b, such as instructions per cycle; empty unless both were counted.
    [[nodiscard]] std::optional<double> ratio(counter a, counter b) const noexcept {
        const auto &x = (*this)[a], &y = (*this)[b];
        if (!x || !y || !(y->value > 0)) return std::nullopt;
        return x->value / y->value;
    }
};

namespace detail {

/// Why a counter could not be opened. `paranoid`: /proc/sys/kernel/perf_event_paranoid, where it can be read.
[[nodiscard]] inline std::string why_not_counted(int error, std::optional<int> paranoid) {
#if defined(HEADWISE_HAVE_PERF_EVENTS)
    switch (error) {
        case 0: return "";
        case ENOENT:
        case ENODEV:
        case EOPNOTSUPP: return "this machine has no counter for it (a virtual machine often has no PMU)";
        case EACCES:
        case EPERM:
            return "no permission: kernel.perf_event_paranoid is " +
                   (paranoid ? std::to_string(*paranoid) : std::string("not readable")) +
                   (paranoid && *paranoid <= 2 ? ", so a container or seccomp forbids it"
                                               : "; 2 or less, or CAP_PERFMON, would allow it");
        case ENOSYS: return "this kernel was built without perf_event_open";
        case EMFILE:
        case ENFILE: return "no file descriptor is left for it";
        default: return std::string("perf_event_open failed: ") + std::strerror(error);
    }
#else
    return (void)error, (void)paranoid, "this system has no perf_event_open";
#endif
}

/// Cycles and instructions pass in any stretch of code: where one of them is zero, the processor's counters are there
/// in name only, as in some virtual machines, and none of the group is believed.
inline void disbelieve_what_stands_still(counter_values& counted) {
    const auto stands_still = [&](counter kind) { return counted[kind] && !(counted[kind]->value > 0); };
    if (!stands_still(counter::cycles) && !stands_still(counter::instructions)) return;
    for (std::size_t i = 0; i < hardware_counters; ++i) counted.values[i].reset();
    counted.hardware_missing = "its counters stand still (a virtual machine may offer some that count nothing)";
}

#if defined(HEADWISE_HAVE_PERF_EVENTS)

/// A file descriptor that closes itself.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() {
        if (fd_ >= 0) close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_ = -1;
};

/// The calling thread, on every processor; begins to count at once, since readings are subtracted.
inline descriptor open_counter(std::uint32_t type, std::uint64_t config, bool with_kernel, int group) noexcept {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = type;
    attributes.config = config;
    attributes.exclude_kernel = with_kernel ? 0 : 1;
    attributes.exclude_hv = 1;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_GROUP;
    return descriptor(static_cast<int>(
        syscall(SYS_perf_event_open, &attributes, 0, -1, group, static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC))));
}

[[nodiscard]] inline std::optional<int> paranoid_level() noexcept {
    std::FILE* const file = std::fopen("/proc/sys/kernel/perf_event_paranoid", "r");
    if (file == nullptr) return std::nullopt;
    int level = 0;
    const bool read = std::fscanf(file, "%d", &level) == 1;
    std::fclose(file);
    return read ? std::optional(level) : std::nullopt;
}

struct counter_code {
    std::uint32_t type;
    std::uint64_t config;
    bool with_kernel;  // the kernel's own events happen in the kernel
};

inline constexpr std::array<counter_code, counter_kinds> counter_codes{{
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, false},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true},
}};

#endif

}  // namespace detail

#if defined(HEADWISE_HAVE_PERF_EVENTS)

/// `counters c; c.start(); ...; auto counted = c.stop();` Opened when made, by the thread that is to be counted; code
/// in user mode. What this machine, this kernel or this user may not count stays empty, with the reason.
class counters {
public:
    counters() {
        std::array<int, counter_kinds> errors{};
        for (std::size_t i = 0; i < counter_kinds; ++i) errors[i] = open(i);
        const auto paranoid = detail::paranoid_level();
        for (std::size_t i = 0; i < counter_kinds; ++i) {
            std::string& why = i < hardware_counters ? hardware_missing_ : software_missing_;
            if (errors[i] != 0 && why.empty()) why = detail::why_not_counted(errors[i], paranoid);
        }
    }

    void start() noexcept { before_ = read(); }

    /// Since the last `start()`; may be asked again.
    [[nodiscard]] counter_values stop() const {
        const auto after = read();
        counter_values result{{}, hardware_missing_, software_missing_};
        for (std::size_t i = 0; i < counter_kinds; ++i) {
            if (before_[i] && after[i]) result.values[i] = events_between(*before_[i], *after[i]);
        }
        detail::disbelieve_what_stands_still(result);
        return result;
    }

private:
    using readings = std::array<std::optional<counter_reading>, counter_kinds>;

    /// Opens one, in the group of the hardware where it is the processor's. 0, or why it failed.
    int open(std::size_t kind) {
        const detail::counter_code& code = detail::counter_codes[kind];
        const bool grouped = kind < hardware_counters;
        files_[kind] = detail::open_counter(code.type, code.config, code.with_kernel, grouped ? leader_ : -1);
        if (!files_[kind]) return errno;
        if (grouped && leader_ < 0) leader_ = files_[kind].get();
        if (grouped) places_[kind] = members_++;
        return 0;
    }

    /// The group in one read, so that its counters are of the same moment; each of the kernel's by itself.
    [[nodiscard]] readings read() const noexcept {
        readings all;
        std::array<std::uint64_t, 3 + hardware_counters> group{};  // how many, enabled, running, values
        const bool has_group = leader_ >= 0 && read_all(leader_, group.data(), 3 + members_);
        for (std::size_t i = 0; i < counter_kinds; ++i) {
            if (!files_[i]) continue;
            if (i < hardware_counters) {
                if (has_group) all[i] = {group[3 + places_[i]], group[1], group[2]};
            } else if (std::array<std::uint64_t, 4> one{}; read_all(files_[i].get(), one.data(), one.size())) {
                all[i] = {one[3], one[1], one[2]};
            }
        }
        return all;
    }

    static bool read_all(int file, std::uint64_t* words, std::size_t count) noexcept {
        const std::size_t bytes = count * sizeof *words;
        return ::read(file, words, bytes) == static_cast<ssize_t>(bytes);
    }

    std::array<detail::descriptor, counter_kinds> files_;
    std::array<std::size_t, hardware_counters> places_{};
    std::size_t members_ = 0;
    int leader_ = -1;
    readings before_;
    std::string hardware_missing_, software_missing_;
};

#else

class counters {
public:
    void start() noexcept {}
    [[nodiscard]] counter_values stop() const {
        return {{}, detail::why_not_counted(0, std::nullopt), detail::why_not_counted(0, std::nullopt)};
    }
};

#endif

/// A counter a line, then the reasons why some are missing.
inline std::ostream& operator<<(std::ostream& out, const counter_values& counted) {
    for (std::size_t i = 0; i < counter_kinds; ++i) {
        const auto& value = counted.values[i];
        const std::string name = text_of(static_cast<counter>(i));
        out << name << std::string(18 - name.size(), ' ');
        if (!value) out << "not counted\n";
        else if (value->share < 1)
            out << detail::fixed(value->value, 0) << " (scaled: counted " << detail::percent_text(value->share)
                << " of the time)\n";
        else out << detail::fixed(value->value, 0) << '\n';
    }
    if (const auto ipc = counted.ratio(counter::instructions, counter::cycles))
        out << "instructions a cycle: " << detail::fixed(*ipc, 2) << '\n';
    if (!counted.hardware_missing.empty()) out << "the processor's: " << counted.hardware_missing << '\n';
    if (!counted.software_missing.empty()) out << "the kernel's: " << counted.software_missing << '\n';
    return out;
}

}  // namespace headwise
