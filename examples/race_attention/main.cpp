// The race of attention, one thread: the fused routine against the unfused pipelines of other libraries and our own
// loop, and against itself: causal, with the weights fused or in three steps, and how much memory it takes. And einsum
// against the routine that it calls.
//
//     race_attention [--budget seconds] [--case 1 ... 10] [--smoke]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headwise/attention.hpp>
#include <headwise/attention_loop.hpp>
#include <headwise/attention_weights.hpp>
#include <headwise/einsum.hpp>
#include <headwise/scores.hpp>

#include "../race_peers/limit.hpp"
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

bool close(double a, double b) { return std::abs(a - b) <= 2e-5; }

bool agree(const tensor<float>& a, const tensor<float>& b) {
    return std::equal(a.data(), a.data() + a.size(), b.data(),
                      [](float x, float y) { return close(static_cast<double>(x), static_cast<double>(y)); });
}

/// The definition, in double, of a sample of rows: of every head the first, the last, and some in between.
class sampled_rows {
public:
    sampled_rows(const shape& s, const stage& on) {
        for (std::ptrdiff_t i = 0; i < s.B * s.H; ++i)
            for (std::ptrdiff_t n = 0; n < samples; ++n)
                add(s, on, i / s.H, i % s.H, (n * (s.L - 1) + i % samples) / (samples - 1) % s.L);
    }
    [[nodiscard]] bool agree(const tensor<float>& out) const {
        return std::all_of(rows_.begin(), rows_.end(), [&](const row& r) {
            for (std::size_t d = 0; d < r.value.size(); ++d)
                if (!close(static_cast<double>(out(r.b, r.h, r.l, static_cast<std::ptrdiff_t>(d))), r.value[d]))
                    return false;
            return true;
        });
    }

private:
    static constexpr std::ptrdiff_t samples = 4;
    struct row {
        std::ptrdiff_t b, h, l;
        std::vector<double> value;
    };
    void add(const shape& s, const stage& on, std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l) {
        const std::ptrdiff_t kv = h / (s.H / s.Hkv), seen = s.causal ? l + s.M - s.L + 1 : s.M;
        std::vector<double> weights(static_cast<std::size_t>(seen));
        for (std::ptrdiff_t m = 0; m < seen; ++m) {
            double dot = 0;
            for (std::ptrdiff_t d = 0; d < s.D; ++d)
                dot += static_cast<double>(on.q(b, h, l, d)) * static_cast<double>(on.k(b, kv, m, d));
            weights[static_cast<std::size_t>(m)] = dot / std::sqrt(static_cast<double>(s.D));
        }
        const double most = *std::max_element(weights.begin(), weights.end());
        row r{b, h, l, std::vector<double>(static_cast<std::size_t>(s.D))};
        double sum = 0;
        for (std::ptrdiff_t m = 0; m < seen; ++m) {
            const double weight = std::exp(weights[static_cast<std::size_t>(m)] - most);
            sum += weight;
            for (std::ptrdiff_t d = 0; d < s.D; ++d)
                r.value[static_cast<std::size_t>(d)] += weight * static_cast<double>(on.v(b, kv, m, d));
        }
        for (double& x : r.value) x /= sum;
        rows_.push_back(std::move(r));
    }
    std::vector<row> rows_;
};

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

/// What a call takes, from one for some rows of the heads that share the first one of k.
template <class Prepare>
double expected_seconds(attention_problem p, const Prepare& prepare) {
    const std::ptrdiff_t rows = std::min<std::ptrdiff_t>(p.rows, 64);
    const double calls = static_cast<double>(p.batches * p.kv_heads * p.rows) / static_cast<double>(rows);
    p.heads = p.group();
    p.rows = rows;
    p.batches = p.kv_heads = 1;
    return seconds_of(prepare(p), 1, true) * calls;
}

runner prepare_loop(const attention_problem& p) {
    using view = headwise::tensor_view<const float>;
    return repeat([p] {
        const view q(p.q, {p.batches, p.heads, p.rows, p.depth}), k(p.k, {p.batches, p.kv_heads, p.columns, p.depth}),
            v(p.v, k.shape());
        headwise::attention_loop(q, k, v, headwise::tensor_view<float>(p.out, q.shape()), {.causal = p.causal});
    });
}

/// Everyone's result is checked. Who cannot do it, or would take more than a second for a call, is left out, and is
/// "-".
bool race_shape(const shape& s, double budget) {
    stage on(s);
    const headwise::attention_options<float> options{.causal = s.causal};
    std::vector<entrant> entrants{{"fused", repeat([&] { headwise::attention(on.q, on.k, on.v, on.out, options); })}};
    const attention_problem p{on.q.data(), on.k.data(), on.v.data(), on.out.data(), on.weights.data(), s.B, s.H,
                              s.Hkv,       s.L,         s.M,         s.D,           s.causal};
    std::vector<attention_contender> others = peers();
    others.insert(others.begin(), {"loop", prepare_loop});
    std::vector<std::string> slow;
    for (const attention_contender& other : others) {
        if (runner run = other.prepare(p); !run || expected_seconds(p, other.prepare) > 1) slow.push_back(other.name);
        else entrants.push_back({other.name, std::move(run)});
    }
    const sampled_rows truth(s, on);
    std::optional<tensor<float>> expected;
    for (const entrant& e : entrants) {
        std::fill_n(on.out.data(), on.out.size(), std::nanf(""));
        e.run(1);
        if (!expected) expected = on.out;
        if (!truth.agree(on.out) || !agree(on.out, *expected)) return std::printf("%s: WRONG\n", e.name.c_str()), false;
    }
    limit_probe<float> probe({memory_of(on.q), memory_of(on.k), memory_of(on.v)}, {memory_of(on.out)}, 1, true);
    race_rounds(entrants, {.budget = budget, .processor_time = true, .each = [&](std::size_t round) {
                               if (round < 50) probe.look();
                           }});
    const headwise::machine_limits machine = probe.seen();
    const double written = 4.0 * static_cast<double>(on.out.size());
    const headwise::roofline_limit limit = headwise::limit_of({s.flops(), s.bytes_read(), written}, machine);
    std::printf("(%td,%td/%td,%td,%td,%td)%s\n", s.B, s.H, s.Hkv, s.L, s.M, s.D, s.causal ? " causal" : "");
    for (const entrant& e : entrants) {
        const double t = median_seconds(e);
        std::printf("  %-18s %10.3f ms %8.1f GFLOP/s %7.1f GB/s %4.0f %% of the limit\n", e.name.c_str(), t * 1e3,
                    s.flops() / t / 1e9, s.bytes_read() / t / 1e9, 100 * limit.share(t));
    }
    for (const std::string& name : slow) std::printf("  %-18s %10s ms\n", name.c_str(), "-");
    for (std::size_t i = 1; i < entrants.size(); ++i)
        if (const auto ratio = paired_ratio(entrants[i], entrants[0]))
            std::printf("  %s / fused: %.3f [%.3f, %.3f]\n", entrants[i].name.c_str(), ratio->estimate, ratio->low,
                        ratio->high);
    return true;
}

void race_two(const char* title, runner slow, runner fast, double budget) {
    std::vector<entrant> two{{"slow", std::move(slow)}, {"fast", std::move(fast)}};
    race_rounds(two, {.budget = budget, .processor_time = true});
    if (const auto ratio = paired_ratio(two[0], two[1]))
        std::printf("%s: %.3f [%.3f, %.3f] (%.3g ms, %.3g ms)\n", title, ratio->estimate, ratio->low, ratio->high,
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
    if (wanted())
        for (const auto& [title, shape] : {std::pair{"einsum / scores at (2,3,8,16)", headwise::shape4{2, 3, 8, 16}},
                                           {"einsum / scores at (1,8,64,64)", {1, 8, 64, 64}},
                                           {"einsum / scores at (2,8,512,64)", {2, 8, 512, 64}}}) {
            const tensor<float> a = headwise::randn<float>(shape, 1), b = headwise::randn<float>(shape, 2);
            tensor<float> out({shape[0], shape[1], shape[2], shape[2]});
            race_two(title, repeat([&] { headwise::einsum("bhld,bhmd->bhlm", a, b, out); }),
                     repeat([&] { headwise::batched_scores_vectorized(a, b, out); }), budget);
        }
    return right;
}

/// The whole of a text as a number between the two, or a refusal that names the option.
double number(const char* option, const char* text, double least, double most) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end != text && *end == '\0' && value >= least && value <= most) return value;
    std::fprintf(stderr, "race_attention: %s: \"%s\" is not a number from %g to %g\n", option, text, least, most);
    std::exit(2);
}

}  // namespace

int main(int count, char** arguments) {
    double budget = 2;
    int only = 0;
    for (int i = 1; i < count; ++i) {
        const std::string_view option = arguments[i];
        if (option == "--smoke") return race_shape({1, 4, 2, 40, 70, 32, true}, 0.05) ? 0 : 1;
        if (option == "--budget" && i + 1 < count) budget = number("--budget", arguments[++i], 0, 1e6);
        else if (option == "--case" && i + 1 < count) only = static_cast<int>(number("--case", arguments[++i], 1, 10));
        else return std::fputs("usage: race_attention [--budget seconds] [--case 1 ... 10] [--smoke]\n", stderr), 2;
    }
    return run(budget, only) ? 0 : 1;
}
