// The race of attention, one thread: the fused routine against the unfused pipelines of other libraries and our own
// loop, and against itself: causal, with the weights fused or in three steps, and how much memory it takes.
//
//     race_attention [--budget seconds] [--case 1 ... 9] [--smoke]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <headwise/attention.hpp>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>
#include <headwise/harness/roofline.hpp>
#include <headwise/scores.hpp>

#include "../race_peers/rounds.hpp"
#include "problem.hpp"

float race::attention_problem::scale() const { return 1 / std::sqrt(static_cast<float>(depth)); }

namespace {

using namespace race;
using headwise::tensor;

struct shape {
    std::ptrdiff_t B, H, Hkv, L, M, D;
    bool causal = false;
    [[nodiscard]] double flops() const {
        const double all = 4.0 * static_cast<double>(B * H * L) * static_cast<double>(M * D);
        return causal ? all * (1 - 0.5 * static_cast<double>(L - 1) / static_cast<double>(M)) : all;
    }
    [[nodiscard]] double bytes_read() const { return 4.0 * static_cast<double>(B * D * (H * L + 2 * Hkv * M)); }
};

struct stage {
    tensor<float> q, k, v, out, weights;
    explicit stage(const shape& s)
        : q(headwise::randn<float>({s.B, s.H, s.L, s.D}, 1)),
          k(headwise::randn<float>({s.B, s.Hkv, s.M, s.D}, 2)),
          v(headwise::randn<float>({s.B, s.Hkv, s.M, s.D}, 3)),
          out(q.shape()),
          weights({s.B, s.H, s.L, s.M}) {}
};

bool agree(const tensor<float>& a, const tensor<float>& b) {
    for (std::ptrdiff_t i = 0; i < a.size(); ++i)
        if (!(std::abs(a.data()[i] - b.data()[i]) <= 2e-5f)) return false;
    return true;
}

std::vector<attention_contender> peers() {
    std::vector<attention_contender> all;
#if defined(HEADWISE_RACE_ONEDNN)
    for (auto& c : onednn_attention()) all.push_back(c);
#endif
#if defined(HEADWISE_RACE_OPENBLAS)
    for (auto& c : openblas_attention()) all.push_back(c);
#endif
    return all;
}

bool race_shape(const shape& s, double budget) {
    stage on(s);
    const headwise::attention_options<float> options{.causal = s.causal};
    std::vector<entrant> entrants{
        {"fused", repeat([&] { headwise::attention(on.q, on.k, on.v, on.out, options); })},
        {"loop", repeat([&] { headwise::attention_loop(on.q, on.k, on.v, on.out, options); })}};
    const attention_problem p{on.q.data(), on.k.data(), on.v.data(), on.out.data(), on.weights.data(), s.B, s.H,
                              s.Hkv,       s.L,         s.M,         s.D,           s.causal};
    for (const attention_contender& peer : peers()) entrants.push_back({peer.name, peer.prepare(p)});
    std::optional<tensor<float>> expected;
    for (const entrant& e : entrants) {
        std::fill_n(on.out.data(), on.out.size(), std::nanf(""));
        e.run(1);
        if (!expected) expected = on.out;
        else if (!agree(on.out, *expected)) return std::printf("%s: WRONG\n", e.name.c_str()), false;
    }
    headwise::machine_limits machine{};
    headwise::probe_buffer buffer(static_cast<std::size_t>(std::max(s.bytes_read(), 65536.0)));
    race_rounds(entrants,
                {.budget = budget, .processor_time = true, .each = [&](std::size_t round) {
                     if (round >= 10) return;
                     const headwise::probe_options quick{1, std::chrono::duration<double>(1e-3)};
                     machine.flops = std::max(machine.flops, headwise::measure_fma_peak<float>(quick).flops_per_second);
                     machine.bytes_read = machine.bytes_written = std::max(
                         machine.bytes_read,
                         headwise::measure_bandwidth(headwise::traffic::read, buffer.floats(), quick).bytes_per_second);
                 }});
    const double written = 4.0 * static_cast<double>(on.out.size());
    const headwise::roofline_limit limit = headwise::limit_of({s.flops(), s.bytes_read(), written}, machine);
    std::printf("(%td,%td/%td,%td,%td,%td)%s\n", s.B, s.H, s.Hkv, s.L, s.M, s.D, s.causal ? " causal" : "");
    std::size_t best = 1;
    for (std::size_t i = 2; i < entrants.size(); ++i)
        if (median_seconds(entrants[i]) < median_seconds(entrants[best])) best = i;
    for (const entrant& e : entrants) {
        const double t = median_seconds(e);
        std::printf("  %-18s %10.3f ms %8.1f GFLOP/s %7.1f GB/s %4.0f %% of the limit\n", e.name.c_str(), t * 1e3,
                    s.flops() / t / 1e9, s.bytes_read() / t / 1e9, 100 * limit.share(t));
    }
    if (const auto ratio = paired_ratio(entrants[best], entrants[0]))
        std::printf("  %s / fused: %.3f [%.3f, %.3f]\n", entrants[best].name.c_str(), ratio->estimate, ratio->low,
                    ratio->high);
    return true;
}

void race_two(const char* title, runner slow, runner fast, double budget) {
    std::vector<entrant> two{{"slow", std::move(slow)}, {"fast", std::move(fast)}};
    race_rounds(two, {.budget = budget, .processor_time = true});
    if (const auto ratio = paired_ratio(two[0], two[1]))
        std::printf("%s: %.3f [%.3f, %.3f] (%.2f ms, %.2f ms)\n", title, ratio->estimate, ratio->low, ratio->high,
                    median_seconds(two[0]) * 1e3, median_seconds(two[1]) * 1e3);
}

/// Scores, scale, softmax, each over all heads; Eigen's exp, as this file is compiled.
void three_steps(const stage& on, tensor<float>& weights) {
    headwise::batched_scores_vectorized(on.q, on.k, weights);
    const auto [B, H, L, M] = weights.shape();
    Eigen::Map<Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> rows(weights.data(), B * H * L, M);
    rows *= 1 / std::sqrt(static_cast<float>(on.q.shape()[3]));
    for (std::ptrdiff_t l = 0; l < rows.rows(); ++l) {
        rows.row(l) = (rows.row(l) - rows.row(l).maxCoeff()).exp();
        rows.row(l) /= rows.row(l).sum();
    }
}

/// The memory that this program occupies, where the system tells; pages of `out` were touched when it was made.
double resident_mib() {
    long pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    return static_cast<double>(pages) * 4096 / (1 << 20);
}

/// A case is a line of the output; `only` picks one.
bool run(double budget, int only) {
    int number = 0;
    bool right = true;
    const auto wanted = [&] { return std::fflush(stdout), ++number, only == 0 || only == number; };
    for (const shape& s : {shape{8, 12, 12, 512, 512, 64},
                           {1, 32, 8, 2048, 2048, 128, true},
                           {1, 16, 16, 577, 577, 64},
                           {64, 3, 3, 49, 49, 32},
                           {1, 8, 8, 2048, 2048, 128},
                           {1, 32, 8, 1, 4096, 128}})
        if (wanted()) right = race_shape(s, budget) && right;
    if (wanted()) {
        stage on({8, 12, 12, 512, 512, 64});
        tensor<float> fused(on.weights.shape());
        three_steps(on, on.weights);
        headwise::attention_weights(on.q, on.k, fused);
        right = agree(on.weights, fused) && right;
        race_two("weights, three steps / fused", repeat([&] { three_steps(on, on.weights); }),
                 repeat([&] { headwise::attention_weights(on.q, on.k, fused); }), budget);
    }
    if (wanted()) {
        const tensor<float> q = headwise::randn<float>({1, 2, 4096, 64}, 1);
        tensor<float> out(q.shape());
        race_two("at 4096, all / causal", repeat([&] { headwise::attention(q, q, q, out); }),
                 repeat([&] { headwise::attention(q, q, q, out, {.causal = true}); }), budget);
    }
    if (wanted()) {
        const tensor<float> q = headwise::randn<float>({1, 1, 16384, 64}, 1);
        tensor<float> out(q.shape());
        const double before = resident_mib();
        headwise::attention(q, q, q, out);
        std::printf("memory at 16384: workspace %.2f MiB, resident %.2f MiB more than before the call\n",
                    static_cast<double>(headwise::attention_workspace_bytes(q, q, q, out)) / (1 << 20),
                    resident_mib() - before);
    }
    return right;
}

}  // namespace

int main(int count, char** arguments) {
    double budget = 2;
    int only = 0;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(arguments[i], "--smoke") == 0) return race_shape({1, 4, 2, 40, 70, 32, true}, 0.05) ? 0 : 1;
        if (std::strcmp(arguments[i], "--budget") == 0 && i + 1 < count) budget = std::atof(arguments[++i]);
        else if (std::strcmp(arguments[i], "--case") == 0 && i + 1 < count) only = std::atoi(arguments[++i]);
        else return std::fputs("race_attention [--budget seconds] [--case 1 ... 9] [--smoke]\n", stderr), 2;
    }
    return run(budget, only) ? 0 : 1;
}
