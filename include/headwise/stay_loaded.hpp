// A shared library whose code threads may run is not unloaded under them.
#pragma once

#include <cstddef>  // __GLIBC__

#if defined(__GLIBC__) && !defined(__UCLIBC__)
#define HEADWISE_HAVE_GLIBC 1
#include <dlfcn.h>
#include <link.h>
#endif

namespace headwise::detail {

#if defined(HEADWISE_HAVE_GLIBC)

extern "C" {
// Weak: a program that is linked statically, or (before glibc 2.34) without -ldl, may not have them. Nor does it unload
// anything.
[[gnu::weak]] decltype(::dladdr1) dladdr1;
[[gnu::weak]] decltype(::dlsym) dlsym;
}

/// Keeps the shared library that the calling code is in, if it is in one, from being unloaded by `dlclose`: a pool's
/// threads wake up in it. Other systems do not unload a library that has thread-local objects. Hidden, so that each
/// library asks for itself even where its inline functions are another's.
[[gnu::visibility("hidden")]] inline void stay_loaded() noexcept {
    static const bool asked = [] {
        static const char here = 0;
        Dl_info symbol{};
        link_map* library = nullptr;
        if (dlsym == nullptr || dladdr1 == nullptr ||
            dladdr1(&here, &symbol, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) == 0 || library == nullptr ||
            library->l_name[0] == '\0')  // the program itself
            return false;
        // By name: linked statically, a reference to it is warned of.
        const auto open = reinterpret_cast<decltype(&::dlopen)>(dlsym(RTLD_DEFAULT, "dlopen"));
        return open && open(library->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
    }();
    static_cast<void>(asked);
}

#else

inline void stay_loaded() noexcept {}

#endif

}  // namespace headwise::detail
