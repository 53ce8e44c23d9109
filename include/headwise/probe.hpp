// The scopes of the library's own operations: nothing, unless the program asks for them.
//
// HEADWISE_PROBE("pack") times the rest of its block when HEADWISE_PROFILE_OPERATIONS is defined for the whole program
// and a profile is recording. It goes through two pointers that harness/scope.hpp sets, so that operations do not
// include the harness; without it they stay null, and a probe does nothing. Safe inside target regions: what is called
// was compiled outside of them.
#pragma once

#if defined(HEADWISE_PROFILE_OPERATIONS)

namespace headwise::detail {

/// Room for what the harness must remember between a probe's begin and its end.
struct probe_state {
    void* words[4];
};

inline void (*probe_begin)(probe_state&, const char* name) noexcept = nullptr;
inline void (*probe_end)(probe_state&) noexcept = nullptr;

class probe {
public:
    explicit probe(const char* name) noexcept : state_{} {
        if (probe_begin != nullptr) probe_begin(state_, name);
    }
    probe(const probe&) = delete;
    probe& operator=(const probe&) = delete;
    ~probe() {
        if (probe_end != nullptr) probe_end(state_);
    }

private:
    probe_state state_;
};

}  // namespace headwise::detail

#define HEADWISE_PROBE_JOINED(line) headwise_probe_##line
#define HEADWISE_PROBE_NAME(line) HEADWISE_PROBE_JOINED(line)
#define HEADWISE_PROBE(name) const ::headwise::detail::probe HEADWISE_PROBE_NAME(__LINE__)(name)

#else
#define HEADWISE_PROBE(name) static_assert(true)
#endif
