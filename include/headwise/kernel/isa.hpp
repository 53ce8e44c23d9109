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
#include <cpuid.h>
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADWISE_HAVE_NEON_TARGET 1
#endif

namespace headwise {

/// An instruction set that the kernels exist for. `baseline` is what the compiler's flags give (SSE2 on x86-64).
/// `avx512_bf16` multiplies pairs of bfloat16, and is what `automatic` means for them where the machine has it; for all
/// other types it is avx512.
enum class isa : unsigned char { automatic, baseline, avx2, avx512, neon, avx512_bf16 };

namespace detail {

inline constexpr std::array<std::string_view, 6> isa_names{"automatic", "baseline", "avx2",
                                                           "avx512",    "neon",     "avx512_bf16"};

struct isa_list {
    std::array<isa, 4> names{};
    std::size_t count = 0;
    bool avx512_bf16 = false;
};

#if defined(HEADWISE_HAVE_X86_TARGETS)
/// Clang 14's __builtin_cpu_supports does not know the name.
inline bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

inline isa_list detect_isas() {
    isa_list found;
    found.names[found.count++] = isa::baseline;
#if defined(HEADWISE_HAVE_X86_TARGETS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
        found.names[found.count++] = isa::avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl")) {
            found.names[found.count++] = isa::avx512;
            found.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
        }
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

namespace detail {

inline const isa_list& this_machine() {
    static const isa_list found = detect_isas();
    return found;
}

}  // namespace detail

/// The instruction sets that this machine runs, from the least to the best; detected once. Without avx512_bf16, which
/// is one type's: `supports` tells.
[[nodiscard]] inline std::span<const isa> supported_isas() {
    return {detail::this_machine().names.data(), detail::this_machine().count};
}

/// Whether a call may name it; `automatic` always.
[[nodiscard]] inline bool supports(isa name) {
    if (name == isa::automatic) return true;
    if (name == isa::avx512_bf16) return detail::this_machine().avx512_bf16;
    for (const isa one : supported_isas())
        if (one == name) return true;
    return false;
}

namespace detail {

inline std::string none_of_the_isas() {
    std::string text = "none of ";
    for (const std::string_view name : isa_names) (text += name == isa_names[0] ? "" : ", ") += name;
    return text;
}

inline isa parse_isa(std::string_view name, const std::string& origin) {
    for (std::size_t i = 0; i < isa_names.size(); ++i)
        if (isa_names[i] == name) return static_cast<isa>(i);
    refuse(origin + "'" + std::string(name) + "' is " + none_of_the_isas());
}

}  // namespace detail

/// "avx2" -> isa::avx2. Refuses a name that is none, with the names there are.
[[nodiscard]] inline isa parse_isa(std::string_view name) { return detail::parse_isa(name, "isa "); }

namespace detail {

/// What a call runs on: `wanted`, or for `automatic` the environment's HEADWISE_ISA, or else `best`. Refuses one that
/// this machine lacks, naming those it has.
inline isa resolve_isa(isa wanted, isa best) {
    const char* origin = "options.isa";
    if (wanted == isa::automatic) {
        if (const char* text = std::getenv("HEADWISE_ISA"); text != nullptr && *text != '\0') {
            origin = "environment variable HEADWISE_ISA";
            wanted = parse_isa(text, std::string(origin) + " = ");
        }
    }
    if (wanted == isa::automatic) return best;
    if (supports(wanted)) return wanted;
    std::string names;
    for (const isa name : supported_isas()) names += (names.empty() ? "" : ", ") + std::string(to_string(name));
    if (supports(isa::avx512_bf16)) names += ", avx512_bf16";
    refuse(std::string(origin) + " = " + std::string(to_string(wanted)) + ": this machine has " + names);
}

/// The answers so far: the environment is read once, a call costs one load.
class isa_memory {
public:
    template <class Resolve>
    isa operator()(isa wanted, const Resolve& resolve) {
        const auto index = static_cast<std::size_t>(wanted);
        if (index >= isa_names.size()) [[unlikely]]
            refuse("options.isa = " + std::to_string(index) + ": " + none_of_the_isas());
        const unsigned char known = answers_[index].load(std::memory_order_relaxed);
        if (known != 0) [[likely]]
            return static_cast<isa>(known);
        const isa chosen = resolve(wanted);
        answers_[index].store(static_cast<unsigned char>(chosen), std::memory_order_relaxed);
        return chosen;
    }

private:
    std::atomic<unsigned char> answers_[isa_names.size()] = {};  // 0: not asked yet
};

/// `resolve_isa`, remembered after the first answer.
inline isa choose_isa(isa wanted) {
    static constinit isa_memory answer;
    return answer(wanted, [](isa asked) {
        const isa chosen = resolve_isa(asked, supported_isas().back());
        return chosen == isa::avx512_bf16 ? isa::avx512 : chosen;
    });
}

/// The same for bfloat16.
inline isa choose_bfloat16_isa(isa wanted) {
    static constinit isa_memory answer;
    return answer(wanted, [](isa asked) {
        return resolve_isa(asked, supports(isa::avx512_bf16) ? isa::avx512_bf16 : supported_isas().back());
    });
}

}  // namespace detail
}  // namespace headwise
