// Which instruction sets the kernels are compiled for, which of them this machine runs, and which one a call takes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <headwise/error.hpp>

// Target regions need GCC or Clang; other compilers get the baseline. So does 32-bit x86, with its eight registers.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADWISE_HAVE_X86_TARGETS 1
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADWISE_HAVE_NEON_TARGET 1
#endif

namespace headwise {

/// An instruction set that the kernels exist for. `baseline` is what the compiler's flags give (SSE2 on x86-64).
enum class isa : unsigned char { automatic, baseline, avx2, avx512, neon };

namespace detail {

inline constexpr std::array<std::string_view, 5> isa_names{"automatic", "baseline", "avx2", "avx512", "neon"};

struct isa_list {
    std::array<isa, 4> names{};
    std::size_t count = 0;
};

inline isa_list detect_isas() {
    isa_list found;
    found.names[found.count++] = isa::baseline;
#if defined(HEADWISE_HAVE_X86_TARGETS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        found.names[found.count++] = isa::avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl"))
            found.names[found.count++] = isa::avx512;
    }
#elif defined(HEADWISE_HAVE_NEON_TARGET)
    found.names[found.count++] = isa::neon;
#endif
    return found;
}

}  // namespace detail

[[nodiscard]] constexpr std::string_view to_string(isa name) noexcept {
    return detail::isa_names[static_cast<std::size_t>(name)];
}

/// The instruction sets that this machine runs, from the least to the best; detected once.
[[nodiscard]] inline std::span<const isa> supported_isas() {
    static const detail::isa_list found = detail::detect_isas();
    return {found.names.data(), found.count};
}

namespace detail {

inline isa parse_isa(std::string_view name, const std::string& origin) {
    for (std::size_t i = 0; i < isa_names.size(); ++i)
        if (isa_names[i] == name) return static_cast<isa>(i);
    refuse(origin + "'" + std::string(name) + "' is none of automatic, baseline, avx2, avx512, neon");
}

}  // namespace detail

/// "avx2" -> isa::avx2. Refuses a name that is none, with the names there are.
[[nodiscard]] inline isa parse_isa(std::string_view name) { return detail::parse_isa(name, "isa "); }

namespace detail {

/// What a call runs on: `wanted`, or for `automatic` the environment's HEADWISE_ISA, or else the best there is.
/// Refuses one that this machine lacks, naming those it has.
inline isa resolve_isa(isa wanted) {
    const char* origin = "options.isa";
    if (wanted == isa::automatic) {
        if (const char* text = std::getenv("HEADWISE_ISA"); text != nullptr && *text != '\0') {
            origin = "environment variable HEADWISE_ISA";
            wanted = parse_isa(text, std::string(origin) + " = ");
        }
    }
    if (wanted == isa::automatic) return supported_isas().back();
    std::string names;
    for (const isa name : supported_isas()) {
        if (name == wanted) return wanted;
        names += (names.empty() ? "" : ", ") + std::string(to_string(name));
    }
    refuse(std::string(origin) + " = " + std::string(to_string(wanted)) + ": this machine has " + names);
}

/// `resolve_isa`, remembered after the first answer: the environment is read once, a call costs one load.
inline isa choose_isa(isa wanted) {
    static constinit std::atomic<unsigned char> remembered[isa_names.size()] = {};  // 0: not asked yet
    std::atomic<unsigned char>& slot = remembered[static_cast<std::size_t>(wanted)];
    const unsigned char known = slot.load(std::memory_order_relaxed);
    if (known != 0) [[likely]]
        return static_cast<isa>(known);
    const isa chosen = resolve_isa(wanted);
    slot.store(static_cast<unsigned char>(chosen), std::memory_order_relaxed);
    return chosen;
}

}  // namespace detail
}  // namespace headwise
