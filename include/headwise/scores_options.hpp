// How a call of batched scores is to be run.
#pragma once

#include <cstddef>
#include <span>

#include <headwise/kernel/isa.hpp>
#include <headwise/parallel.hpp>

namespace headwise {

/// How results are written: `streaming` goes around the caches (for outputs larger than they are, not read at once),
/// `automatic` decides by the size of the output.
enum class stores : unsigned char { automatic, cached, streaming };

struct scores_options {
    int threads = 1;                ///< 1: the calling thread; 0: as many as the process may use; n: at most n.
    double scale = 1;               ///< out = scale * (q . k), one rounding after the sum.
    enum isa isa = isa::automatic;  ///< Refused when the machine lacks it. HEADWISE_ISA overrides automatic.
    enum stores stores = stores::automatic;
    thread_pool* pool = nullptr;          ///< Whose threads to use when threads != 1; null: a shared pool.
    std::span<std::byte> workspace = {};  ///< Memory to pack in, of `scores_workspace_bytes`; empty: our own.
};

}  // namespace headwise
