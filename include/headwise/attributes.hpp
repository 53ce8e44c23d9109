// What is asked of the compiler beyond C++: a handful of attributes, empty where a compiler has none.
#pragma once

#if defined(__GNUC__)
#define HEADWISE_INLINE __attribute__((always_inline)) inline
#define HEADWISE_NOINLINE __attribute__((noinline))
#define HEADWISE_COLD __attribute__((cold, noinline))
#define HEADWISE_PREFETCH(address) __builtin_prefetch(address, 0, 3)
#define HEADWISE_PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1, 3)
#define HEADWISE_OPAQUE(pointer) asm("" : "+r"(pointer))  // the compiler forgets how it came by the value
#else
#define HEADWISE_INLINE inline
#define HEADWISE_NOINLINE
#define HEADWISE_COLD
#define HEADWISE_PREFETCH(address) ((void)(address))
#define HEADWISE_PREFETCH_TO_WRITE(address) ((void)(address))
#define HEADWISE_OPAQUE(pointer) ((void)(pointer))
#endif

// GCC at -O2 leaves loops over register arrays rolled, and the arrays in memory, unless asked: UNROLL. The loop around
// them is to stay as it is: Clang would unroll it too, load ahead, and spill accumulators (10 % of its speed):
// KEEP_ROLLED.
#if defined(__clang__)
#define HEADWISE_UNROLL _Pragma("clang loop unroll(full)")
#define HEADWISE_KEEP_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define HEADWISE_UNROLL _Pragma("GCC unroll 32")
#define HEADWISE_KEEP_ROLLED _Pragma("GCC unroll 1")
#else
#define HEADWISE_UNROLL
#define HEADWISE_KEEP_ROLLED
#endif
