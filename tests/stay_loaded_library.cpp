// What test_stay_loaded.cpp loads and unloads, as a program does with a plugin.
#include <headwise/scores.hpp>

/// A product large enough to be shared by two threads.
extern "C" float multiply(int threads) {
    const headwise::tensor<float> q({4, 8, 128, 64}), k({4, 8, 128, 64});
    return headwise::batched_scores_vectorized(q, k, {.threads = threads}).data()[0];
}
