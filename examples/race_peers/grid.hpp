// The shapes of the race, and what each asks of a machine.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <headwise/harness/roofline.hpp>

namespace race {

/// q (B, H, L, D), k (B, H, M, D). `views`: q and k are (b, l, h, d) buffers, seen as (b, h, l, d).
struct shape {
    std::ptrdiff_t batches, heads, rows, columns, depth;
    bool views = false;

    [[nodiscard]] std::string text() const {
        std::string result(1, '(');
        for (const std::ptrdiff_t n : {batches, heads, rows, columns, depth}) result += std::to_string(n) + ',';
        result.back() = ')';
        return views ? result + " blhd" : result;
    }
    [[nodiscard]] headwise::work work(std::size_t scalar_bytes) const {
        const auto heads_count = static_cast<double>(batches * heads), l = static_cast<double>(rows);
        const auto m = static_cast<double>(columns), d = static_cast<double>(depth);
        const auto bytes = static_cast<double>(scalar_bytes);
        return {2 * heads_count * l * m * d, heads_count * (l + m) * d * bytes, heads_count * l * m * bytes};
    }
};

/// Tiny heads, vision transformers, BERT, long contexts, decoding, speech, cross attention, odd sizes, small depth.
inline const std::vector<shape> grid{
    {1, 1, 4, 4, 8},         {2, 3, 8, 8, 16},       {2, 3, 7, 5, 13},         {4, 4, 32, 32, 32},
    {64, 3, 49, 49, 32},     {32, 12, 128, 128, 64}, {8, 12, 197, 197, 64},    {1, 16, 577, 577, 64},
    {8, 12, 512, 512, 64},   {16, 12, 256, 256, 32}, {1, 32, 2048, 2048, 128}, {1, 1, 8192, 8192, 128},
    {1, 8, 1024, 1024, 256}, {1, 32, 1, 4096, 128},  {1, 32, 8, 4096, 128},    {1, 20, 448, 1500, 64},
    {2, 16, 1024, 77, 80},   {3, 5, 131, 257, 61},   {8, 1, 1024, 1024, 16},   {8, 12, 512, 512, 64, true}};

/// Two shapes whose speeds are held against each other; the second on one thread, if `second_alone`.
struct pair_of_shapes {
    std::string title;
    shape first, second;
    bool second_alone = false;
};

/// Strides, a row length that is a power of two (lines of a column share few cache sets), and sheer size.
inline const std::vector<pair_of_shapes> extra_pairs{
    {"(b,l,h,d) views against dense", {8, 12, 512, 512, 64, true}, {8, 12, 512, 512, 64}},
    {"M = 4096 against M = 4100", {1, 8, 512, 4096, 64}, {1, 8, 512, 4100, 64}},
    {"L = M = 16384 against 2048", {1, 1, 16384, 16384, 128}, {1, 1, 2048, 2048, 128}}};

}  // namespace race
