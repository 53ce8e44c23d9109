// What is fetched ahead, seen by recording it: a fetch changes no result, only the time.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attributes.hpp>

namespace {
std::set<std::uintptr_t> lines;     // fetched to be read since the last clear(), as addresses / 64
std::set<std::uintptr_t> to_write;  // those fetched to be written
void record(const void* address) { lines.insert(reinterpret_cast<std::uintptr_t>(address) / 64); }
void record_to_write(const void* address) { to_write.insert(reinterpret_cast<std::uintptr_t>(address) / 64); }
}  // namespace

#undef HEADWISE_PREFETCH
#define HEADWISE_PREFETCH(address) record(address)
#undef HEADWISE_PREFETCH_TO_WRITE
#define HEADWISE_PREFETCH_TO_WRITE(address) record_to_write(address)
#include <headwise/attention.hpp>
#include <headwise/scores.hpp>

using namespace headwise;

namespace {

std::set<std::uintptr_t> lines_of(const void* first, std::ptrdiff_t rows, std::ptrdiff_t row_bytes,
                                  std::ptrdiff_t stride) {
    std::set<std::uintptr_t> all;
    for (std::ptrdiff_t row = 0; row < rows; ++row) {
        const auto at = reinterpret_cast<std::uintptr_t>(first) + static_cast<std::uintptr_t>(row * stride);
        for (std::uintptr_t line = at / 64; line <= (at + static_cast<std::uintptr_t>(row_bytes) - 1) / 64; ++line)
            all.insert(line);
    }
    return all;
}

std::set<std::uintptr_t> lines_of(const tensor<float>& t, std::ptrdiff_t first, std::ptrdiff_t heads) {
    const auto [B, H, L, D] = t.shape();
    return lines_of(t.data() + first * L * D, heads * L, D * 4, D * 4);
}

std::set<std::uintptr_t> pages_of(const std::set<std::uintptr_t>& some) {
    std::set<std::uintptr_t> pages;
    for (const std::uintptr_t line : some) pages.insert(line / 64);
    return pages;
}

// Tiles of a head differ by a row, blocks in their columns: what is planned by those of now misses a row or two of the
// next, or goes beyond. A percent or two may be missing, a few may lie elsewhere.

/// How many of `some` are not among `all`, in percent.
double percent_missing(const std::set<std::uintptr_t>& all, const std::set<std::uintptr_t>& some) {
    const auto missing =
        std::count_if(some.begin(), some.end(), [&](std::uintptr_t line) { return !all.contains(line); });
    return 100.0 * static_cast<double>(missing) / static_cast<double>(some.size());
}

/// Whether the pages to come are fetched, a line of each, and so beyond the end of `t`.
bool pages_fetched_after(const tensor<float>& t) {
    const auto end = reinterpret_cast<std::uintptr_t>(t.data() + t.size());
    return std::ranges::all_of(std::array<std::uintptr_t, 2>{20480, 24576}, [&](std::uintptr_t page) {
        const auto found = lines.lower_bound((end + page) / 64);
        return found != lines.end() && *found < (end + page + 4096) / 64;
    });
}

}  // namespace

TEST_CASE("a matrix is fetched along its unit stride, rows or columns; one without is left alone") {
    const tensor<float> memory({1, 1, 64, 64});
    const auto fetched = [&](std::ptrdiff_t row, std::ptrdiff_t column) {
        lines.clear();
        kernel::fetch_ahead ahead;
        ahead.plan_k(memory.data(), {row, column, 40, 48, 4}, 1);
        ahead.fetch_slices();
        return lines;
    };
    CHECK(fetched(64, 1) == lines_of(memory.data(), 40, 48 * 4, 256));
    CHECK(fetched(1, 64) == lines_of(memory.data(), 48, 40 * 4, 256));
    CHECK(fetched(2, 80).empty());
    // A run of 14 elements from 32 bytes into a line on: the line that it ends in, the next tile's first.
    lines.clear();
    kernel::fetch_ahead ahead;
    ahead.plan_q(memory.data() + 8, {1, 64, 14, 5, 4}, 1);
    ahead.plan_k(nullptr, {1, 64, 14, 5, 4}, 1);
    ahead.fetch_slices();
    CHECK(lines == lines_of(memory.data() + 16, 5, 4, 256));
}

TEST_CASE("a queue fetches each line of its rows once, in slices, and nothing else") {
    const tensor<float> memory({1, 1, 40, 64});
    for (const std::ptrdiff_t rows : {0, 1, 2, 7})
        for (const std::ptrdiff_t bytes : {4, 64, 100, 128, 256})
            for (const std::ptrdiff_t stride : {256, 512, -512}) {
                CAPTURE(rows);
                CAPTURE(bytes);
                CAPTURE(stride);
                lines.clear();
                const void* const first = memory.data() + 64 * 16;
                kernel::fetch_queue queue(first, rows, bytes, stride);
                const std::ptrdiff_t count = queue.lines();
                CHECK(count == static_cast<std::ptrdiff_t>(lines_of(first, rows, bytes, stride).size()));
                for (std::ptrdiff_t left = count; left > 0; left -= 3) queue.fetch(3);
                CHECK(lines == lines_of(first, rows, bytes, stride));
                lines.clear();
                queue.fetch(100);
                CHECK(lines.empty());
            }
}

TEST_CASE("large heads: the operands of all heads but the first are fetched ahead, and little else") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        for (const auto& [L, M, D] : {std::array<std::ptrdiff_t, 3>{128, 128, 64}, {100, 300, 48}, {197, 197, 64}}) {
            const std::ptrdiff_t heads = 12;
            const std::string shape = detail::text_of({1, L, M, D});
            CAPTURE(shape);
            const auto q = randn<float>({2, heads / 2, L, D}, 1), k = randn<float>({2, heads / 2, M, D}, 2);
            tensor<float> out({2, heads / 2, L, M});
            lines.clear();
            batched_scores_vectorized(q, k, out, {.isa = name});
            CHECK(percent_missing(lines, lines_of(k, 1, heads - 1)) <= 2);
            CHECK(percent_missing(lines, lines_of(q, 1, heads - 1)) <= 2);
            auto operands = lines_of(q, 0, heads);
            operands.merge(lines_of(k, 0, heads));
            CHECK(percent_missing(operands, lines) <= 4);
        }
    }
}

TEST_CASE("one large head: its later rows of Q, and its later blocks of K, are fetched ahead") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const auto q = randn<float>({1, 1, 60, 128}, 1), k = randn<float>({1, 1, 5000, 128}, 2);
        tensor<float> out({1, 1, 60, 5000});
        lines.clear();
        batched_scores_vectorized(q, k, out, {.isa = name});
        const std::ptrdiff_t block = kernel::packed_bytes / 4 / 128, most_tile_rows = 16;
        CHECK(percent_missing(lines, lines_of(k.data() + block * 128, 5000 - block, 512, 512)) <= 2);
        CHECK(percent_missing(lines, lines_of(q.data() + most_tile_rows * 128, 60 - most_tile_rows, 512, 512)) <= 2);
        auto operands = lines_of(q, 0, 1);
        operands.merge(lines_of(k, 0, 1));
        CHECK(percent_missing(operands, lines) <= 4);
    }
}

TEST_CASE("what sits in the cache is not fetched") {
    const auto q = randn<float>({4, 4, 32, 32}, 1), k = randn<float>({4, 4, 32, 32}, 2);
    tensor<float> out({4, 4, 32, 32});
    lines.clear();
    batched_scores_vectorized(q, k, out);
    CHECK(lines.empty());
}

TEST_CASE("rows about to be written: every line of theirs, and nothing else") {
    const tensor<float> memory({1, 1, 40, 64});
    for (const std::ptrdiff_t bytes : {4, 64, 100, 128})
        for (const std::ptrdiff_t stride : {100, 256, -788})
            for (const std::ptrdiff_t start : {0, 1, 15}) {
                CAPTURE(bytes);
                CAPTURE(stride);
                CAPTURE(start);
                const void* const first = memory.data() + 64 * 20 + start;
                to_write.clear();
                kernel::fetch_to_write(first, 5, bytes, stride);
                CHECK(to_write == lines_of(first, 5, bytes, stride));
            }
}

TEST_CASE("rows about to be streamed: one line of each of their pages, or two, and none of another page") {
    const tensor<float> memory({1, 1, 64, 1024});
    for (const std::ptrdiff_t bytes : {64, 1024, 4096, 10240})
        for (const std::ptrdiff_t stride : {bytes, bytes + 64, std::ptrdiff_t{16384}, std::ptrdiff_t{-16384}})
            for (const std::ptrdiff_t start : {0, 16, 1008}) {
                CAPTURE(bytes);
                CAPTURE(stride);
                CAPTURE(start);
                const void* const first = memory.data() + 1024 * 32 + start;
                lines.clear();
                kernel::fetch_pages(first, 7, bytes, stride);
                const auto written = lines_of(first, 7, bytes, stride);
                CHECK(percent_missing(written, lines) == 0);
                CHECK(pages_of(lines) == pages_of(written));
                const std::ptrdiff_t runs = stride == bytes ? 1 : 7, run_bytes = 7 / runs * bytes;
                CHECK(static_cast<std::ptrdiff_t>(lines.size()) <= runs * (run_bytes / 4096 + 2));
            }
}

TEST_CASE("an output that no cache has kept is fetched to be written, a smaller one is not") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        for (const std::ptrdiff_t heads : {24, 30}) {
            const auto q = randn<float>({1, heads, 197, 16}, 1), k = randn<float>({1, heads, 197, 16}, 2);
            tensor<float> out({1, heads, 197, 197});
            to_write.clear();
            batched_scores_vectorized(q, k, out, {.isa = name, .stores = stores::streaming});  // rows are no lines
            const bool is_large = heads * 197 * 197 * 4 > detail::fetch_out_bytes;
            CHECK(is_large == (heads == 30));
            CHECK(to_write.empty() == !is_large);
            if (!is_large) continue;
            CHECK(percent_missing(to_write, lines_of(out, 0, heads)) == 0);
            CHECK(percent_missing(lines_of(out, 0, heads), to_write) <= 1);
        }
    }
}

TEST_CASE("an output that is streamed has its pages looked up, and no line is fetched to be written") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const auto q = randn<float>({1, 3, 256, 8}, 1), k = randn<float>({1, 3, 3072, 8}, 2);
        tensor<float> out({1, 3, 256, 3072});
        const auto all = lines_of(out, 0, 3);
        for (const stores how : {stores::automatic, stores::cached}) {
            lines.clear();
            to_write.clear();
            batched_scores_vectorized(q, k, out, {.isa = name, .stores = how});
            std::set<std::uintptr_t> of_out;
            std::set_intersection(lines.begin(), lines.end(), all.begin(), all.end(),
                                  std::inserter(of_out, of_out.end()));
            CHECK(pages_of(of_out) == (how == stores::cached ? std::set<std::uintptr_t>{} : pages_of(all)));
            CHECK(to_write == (how == stores::cached ? all : std::set<std::uintptr_t>{}));
        }
    }
}

TEST_CASE("an output that is not written in place is not fetched") {
    const auto q = randn<float>({1, 2, 800, 8}, 1), k = randn<float>({1, 2, 800, 8}, 2);
    tensor<float> memory({1, 2, 1600, 800});
    const tensor_view<float> out(memory.data(), {1, 2, 800, 800}, {2560000, 1280000, 1600, 2});
    lines.clear();
    to_write.clear();
    batched_scores_vectorized(q, k, out);
    CHECK(to_write.empty());
}

TEST_CASE("few rows: all of K is fetched before it is read, but for its first rows; and little beyond it") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        for (const auto& [L, M, D] : {std::array<std::ptrdiff_t, 3>{1, 4096, 128}, {4, 2000, 256}, {2, 20000, 16}}) {
            const std::string shape = detail::text_of({1, L, M, D});
            CAPTURE(shape);
            const auto q = randn<float>({1, 1, L, D}, 1), k = randn<float>({1, 1, M, D}, 2);
            tensor<float> out({1, 1, L, M});
            lines.clear();
            batched_scores_vectorized(q, k, out, {.isa = name});
            // How far ahead shows in what is fetched beyond the end.
            const std::ptrdiff_t ahead = 9216 / (D * 4), first = std::max<std::ptrdiff_t>(18, ahead);
            CHECK(percent_missing(lines, lines_of(k.data() + first * D, M + ahead - first, D * 4, D * 4)) == 0);
            CHECK(percent_missing(lines_of(k, 0, 1), lines) <= 2);
            CHECK(pages_fetched_after(k));
        }
    }
}

TEST_CASE("few rows far apart are fetched as well, and nothing between them") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const auto q = randn<float>({1, 1, 1, 128}, 1), k = randn<float>({1, 4, 2500, 128}, 2);
        const tensor_view<const float> every_fourth(k.data(), {1, 1, 2500, 128}, {0, 0, 512, 1});
        tensor<float> out({1, 1, 1, 2500});
        lines.clear();
        batched_scores_vectorized(q, every_fourth, out, {.isa = name});
        CHECK(percent_missing(lines, lines_of(k.data() + 18 * 512, 2500, 512, 2048)) == 0);
        CHECK(percent_missing(lines_of(k.data(), 2500, 512, 2048), lines) <= 2);
    }
}

TEST_CASE("attention of few rows: k is fetched 12 KiB ahead, all of v is, and little beyond them") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        for (const auto& [D, Dv] : {std::array<std::ptrdiff_t, 2>{128, 128}, {80, 96}, {36, 48}, {800, 512}}) {
            const std::string depths = std::to_string(D) + ", " + std::to_string(Dv);
            CAPTURE(depths);
            // At least as far as the rows that are read together.
            const std::ptrdiff_t ahead = std::max<std::ptrdiff_t>(12288 / (D * 4), 4),
                                 ahead_v = std::max<std::ptrdiff_t>(12288 / (Dv * 4), 18);
            const auto q = randn<float>({1, 4, 1, D}, 1), k = randn<float>({1, 1, 5000, D}, 2);
            const auto v = randn<float>({1, 1, 5000, Dv}, 3);
            tensor<float> out({1, 4, 1, Dv});
            lines.clear();
            attention(q, k, v, out, {.isa = name});
            CHECK(percent_missing(lines, lines_of(k.data() + ahead * D, 5000, D * 4, D * 4)) == 0);
            CHECK(percent_missing(lines, lines_of(v.data(), 5000 + ahead_v, Dv * 4, Dv * 4)) == 0);
            auto operands = lines_of(k, 0, 1);
            operands.merge(lines_of(v, 0, 1));
            CHECK(percent_missing(operands, lines) <= 2);
        }
    }
}

TEST_CASE("attention of few rows: rows of k and v far apart are fetched as well, and nothing between them") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        const auto q = randn<float>({1, 4, 1, 128}, 1), k = randn<float>({1, 4, 2500, 128}, 2);
        const auto v = randn<float>({1, 4, 2500, 128}, 3);
        const auto every_fourth = [](const tensor<float>& t) {
            return tensor_view<const float>(t.data(), {1, 1, 2500, 128}, {0, 0, 512, 1});
        };
        tensor<float> out({1, 4, 1, 128});
        lines.clear();
        attention(q, every_fourth(k), every_fourth(v), out, {.isa = name});
        CHECK(percent_missing(lines, lines_of(k.data() + 24 * 512, 2500, 512, 2048)) == 0);
        CHECK(percent_missing(lines, lines_of(v.data(), 2500 + 24, 512, 2048)) == 0);
        auto operands = lines_of(k.data(), 2500, 512, 2048);
        operands.merge(lines_of(v.data(), 2500, 512, 2048));
        CHECK(percent_missing(operands, lines) <= 2);
    }
}
