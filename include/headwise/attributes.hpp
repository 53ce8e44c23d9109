// What is asked of the compiler beyond C++: a handful of attributes, empty where a compiler has none.
#pragma once

#if defined(__GNUC__)
#define HEADWISE_INLINE __attribute__((always_inline)) inline
#define HEADWISE_NOINLINE __attribute__((noinline))
#define HEADWISE_COLD __attribute__((cold, noinline))
#define HEADWISE_PREFETCH(address) __builtin_prefetch(address, 0, 3)
#define HEADWISE_OPAQUE(pointer) asm("" : "+r"(pointer))  // the compiler forgets how it came by the value
#else
#define HEADWISE_INLINE inline
#define HEADWISE_NOINLINE
#define HEADWISE_COLD
#define HEADWISE_PREFETCH(address) ((void)(address))
#define HEADWISE_OPAQUE(pointer) ((void)(pointer))
#endif

// GCC at -O2 leaves loops over register arrays rolled, and the arrays in memory, unless asked. UNROLL is for those;
// UNROLL_4 takes four steps of a long loop at a time.
#if defined(__clang__)
#define HEADWISE_UNROLL _Pragma("clang loop unroll(full)")
#define HEADWISE_UNROLL_4 _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define HEADWISE_UNROLL _Pragma("GCC unroll 32")
#define HEADWISE_UNROLL_4 _Pragma("GCC unroll 4")
#else
#define HEADWISE_UNROLL
#define HEADWISE_UNROLL_4
#endif
