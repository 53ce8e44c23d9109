// headwise/headwise.hpp - attention scores written twice, and the harness that says which to believe.
//
//     out[b,h,l,m] = sum over d of q[b,h,l,d] * k[b,h,m,d], that is einsum("bhld,bhmd->bhlm", q, k)
//
// Everything; needs Eigen. The harness alone, without it, is <headwise/harness.hpp>. In reading order:
#pragma once

#if (defined(_MSVC_LANG) && _MSVC_LANG < 202002L) || (!defined(_MSVC_LANG) && __cplusplus < 202002L)
#error "headwise needs C++20: -std=c++20, or /std:c++20"
#endif

#include <headwise/version.hpp>

#include <headwise/tensor.hpp>
#include <headwise/npy.hpp>

#include <headwise/scores_loop.hpp>
#include <headwise/scores.hpp>
#include <headwise/backward.hpp>
#include <headwise/einsum.hpp>
#include <headwise/attention_loop.hpp>
#include <headwise/attention.hpp>
#include <headwise/attention_weights.hpp>
#include <headwise/merge_attention.hpp>
#include <headwise/interop.hpp>

#include <headwise/harness.hpp>
#include <headwise/profile.hpp>
