// A call watched instruction by instruction, on x86-64 Linux: with its trap flag set, the processor signals after each
// one, and the handler looks at the next. What no result shows can be seen so: which stores went around the caches, and
// whether a fence came after them.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__linux__)
#define HEADWISE_TEST_CAN_STEP 1
#include <csignal>
#include <ucontext.h>
#include <x86intrin.h>
#endif

namespace headwise::test {

/// What a call's instructions were. No steps: this machine (an emulator, say) does not signal them.
struct stepped {
    long steps = 0;
    long streamed = 0;  ///< Stores around the caches.
    long unfenced = 0;  ///< Of those, the ones after the last fence.
};

#if defined(HEADWISE_TEST_CAN_STEP)

namespace detail {

/// Whether the instruction there is a store of a vector around the caches: movntps, movntpd or movntdq, in the encoding
/// of SSE2, AVX or AVX-512.
inline bool is_streaming_store(const std::uint8_t* code) {
    const auto stores = [](std::uint8_t opcode) { return opcode == 0x2b || opcode == 0xe7; };
    switch (code[0]) {
        case 0x62:
            return (code[1] & 7) == 1 && stores(code[4]);  // map 0f, with operands of 512 bits or masks
        case 0xc4:
            return (code[1] & 0x1f) == 1 && stores(code[3]);  // map 0f, three bytes before the opcode
        case 0xc5:
            return stores(code[2]);
        default:
            break;
    }
    if (code[0] == 0x66) ++code;
    if ((code[0] & 0xf0) == 0x40) ++code;  // a register beyond the eighth
    return code[0] == 0x0f && stores(code[1]);
}

inline bool is_store_fence(const std::uint8_t* code) {
    return code[0] == 0x0f && code[1] == 0xae && (code[2] == 0xf8 || code[2] == 0xf0);  // sfence or mfence
}

inline stepped seen;

inline void on_step(int, siginfo_t*, void* context) {
    const auto next = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    const auto* const code = reinterpret_cast<const std::uint8_t*>(next);
    ++seen.steps;
    if (is_streaming_store(code)) ++seen.streamed, ++seen.unfenced;
    if (is_store_fence(code)) seen.unfenced = 0;
}

}  // namespace detail

/// Calls `f`, which must not throw, and tells what this thread did in it.
template <class F>
stepped step_through(const F& f) {
    constexpr unsigned long long trap = 0x100;
    struct sigaction watch {
    }, before;
    watch.sa_sigaction = detail::on_step;
    watch.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &watch, &before);
    detail::seen = {};
    __writeeflags(__readeflags() | trap);
    f();
    __writeeflags(__readeflags() & ~trap);
    sigaction(SIGTRAP, &before, nullptr);
    return detail::seen;
}

#else

template <class F>
stepped step_through(const F& f) {
    f();
    return {};
}

#endif

}  // namespace headwise::test
