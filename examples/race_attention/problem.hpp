// Attention as every contender is given it: raw pointers, dense (B, H, L, D), float.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../race_peers/contender.hpp"

namespace race {

struct attention_problem {
    const float *q, *k, *v;
    float* out;
    float* weights;  // room for (B, Hq, L, M), or null: for those who need it
    std::ptrdiff_t batches, heads, kv_heads, rows, columns, depth;  // B, Hq, Hkv, L, M, D (and Dv)
    bool causal;                                                    // the last row sees the last key

    [[nodiscard]] std::ptrdiff_t group() const { return heads / kv_heads; }
    [[nodiscard]] float scale() const;
};

struct attention_contender {
    std::string name;
    runner (*prepare)(const attention_problem&);  ///< empty where it cannot do that
};

// What CMake found; each in a file of its own.
std::vector<attention_contender> onednn_attention();
std::vector<attention_contender> openblas_attention();

}  // namespace race
