// headwise/harness.hpp - compare two implementations of anything: do they agree, and which is faster?
//
// Standard library only; usable without the tensors, without Eigen. In reading order:
#pragma once

#include <headwise/version.hpp>

#include <headwise/harness/timer.hpp>
#include <headwise/harness/keep.hpp>
#include <headwise/harness/agreement.hpp>
#include <headwise/harness/compare.hpp>
#include <headwise/harness/report.hpp>
#include <headwise/harness/baseline.hpp>
#include <headwise/harness/sweep.hpp>
#include <headwise/harness/roofline.hpp>
