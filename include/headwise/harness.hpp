// headwise/harness.hpp - compare two implementations of anything: do they agree, and which is faster?
//
// Standard library only; usable without the tensors, without Eigen. In reading order. Why something is slow is asked by
// including it, so that nobody waits for what is not asked:
//
//     <headwise/harness/profiler.hpp>         where the time goes, scope by scope   (scope.hpp: the scopes alone)
//     <headwise/harness/trace.hpp>            the same as a Chrome trace
//     <headwise/harness/counters.hpp>         cycles, misses, faults, where the system counts them
//     <headwise/harness/roofline.hpp>         what the machine could do             (machine_file.hpp: in a file)
//     <headwise/harness/page_comparison.hpp>  a comparison as a page or a picture   (page_profile.hpp: a profile)
//     <headwise/harness/timers.hpp>           other clocks                          (cuda_timer.hpp: a device's events)
//     <headwise/harness/memory_hooks.hpp>     counting of allocations, in one file of a program
#pragma once

#if (defined(_MSVC_LANG) && _MSVC_LANG < 202002L) || (!defined(_MSVC_LANG) && __cplusplus < 202002L)
#error "headwise needs C++20: -std=c++20, or /std:c++20"
#endif

#include <headwise/version.hpp>

#include <headwise/harness/timer.hpp>
#include <headwise/harness/keep.hpp>
#include <headwise/harness/agreement.hpp>
#include <headwise/harness/compare.hpp>
#include <headwise/harness/report.hpp>
#include <headwise/harness/baseline.hpp>
#include <headwise/harness/sweep.hpp>
