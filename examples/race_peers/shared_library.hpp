// A library opened by itself. OpenBLAS and BLIS export the same names: opened privately, each runs its own code; opened
// at run time, each reads the environment as we have set it, not as it was before main.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

// Sanitizers stand in for malloc and refuse to be bypassed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADWISE_RACE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEADWISE_RACE_SANITIZED 1
#endif
#endif
#if !defined(HEADWISE_RACE_SANITIZED)
#define HEADWISE_RACE_SANITIZED 0
#endif

namespace race {

class shared_library {
public:
    explicit shared_library(const char* path) : handle_(dlopen(path, flags)) {
        if (handle_ == nullptr) throw std::runtime_error(dlerror());
    }

    /// The function of that name, or null.
    template <class Function>
    [[nodiscard]] Function* find(const char* name) const {
        return reinterpret_cast<Function*>(dlsym(handle_, name));
    }
    template <class Function>
    [[nodiscard]] Function* get(const char* name) const {
        if (Function* f = find<Function>(name)) return f;
        throw std::runtime_error(std::string("no function ") + name);
    }

    /// The name of the file that really provides a function.
    template <class Function>
    [[nodiscard]] static std::string provider(Function* f) {
        Dl_info info{};
        if (dladdr(reinterpret_cast<void*>(f), &info) == 0 || info.dli_fname == nullptr) return "unknown file";
        const std::string path = info.dli_fname;
        return path.substr(path.rfind('/') + 1);
    }

private:
#if defined(RTLD_DEEPBIND) && !HEADWISE_RACE_SANITIZED
    static constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;  // its own symbols before everyone else's
#else
    static constexpr int flags = RTLD_NOW | RTLD_LOCAL;
#endif
    void* handle_;  // never closed: its threads may outlive us
};

}  // namespace race
