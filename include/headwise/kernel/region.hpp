// Target regions: code between HEADWISE_TARGET_BEGIN and HEADWISE_TARGET_END is compiled for the instruction set that
// the target's header names, whatever the compiler's flags say. Three rules keep a region safe: no #include inside one
// (a shared std function compiled in it would crash older machines), every helper template inside the target's own
// namespace, no lambda (it does not inherit the attribute).
#pragma once

#include <headwise/attributes.hpp>
#include <headwise/probe.hpp>

#define HEADWISE_PRAGMA_TEXT(text) _Pragma(#text)
#define HEADWISE_PRAGMA(text) HEADWISE_PRAGMA_TEXT(text)

// Inside, GCC warns of its own: of an array bound that is a dependent `int`, and of the value that its AVX-512
// intrinsics leave undefined on purpose.
#if defined(__clang__)
#define HEADWISE_QUIET_BEGIN
#define HEADWISE_QUIET_END
#elif defined(__GNUC__)
#define HEADWISE_QUIET_BEGIN                                                               \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"") \
        _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")                              \
            _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")
#define HEADWISE_QUIET_END _Pragma("GCC diagnostic pop")
#else
#define HEADWISE_QUIET_BEGIN
#define HEADWISE_QUIET_END
#endif

#if defined(__clang__)
#define HEADWISE_REGION_BEGIN(features) \
    HEADWISE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define HEADWISE_REGION_END _Pragma("clang attribute pop")
#elif defined(__GNUC__)
#define HEADWISE_REGION_BEGIN(features) \
    HEADWISE_QUIET_BEGIN _Pragma("GCC push_options") HEADWISE_PRAGMA(GCC target(features))
#define HEADWISE_REGION_END _Pragma("GCC pop_options") HEADWISE_QUIET_END
#endif
