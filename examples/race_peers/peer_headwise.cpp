// Our own two: the loop, and the fused routine, by itself and held to each of the machine's instruction sets.
#include <headwise/scores.hpp>
#include <headwise/scores_loop.hpp>
#include <headwise/version.hpp>

#include "contender.hpp"

namespace race {
namespace {

template <class Scalar>
struct views {
    headwise::tensor_view<const Scalar> q, k;
    headwise::tensor_view<Scalar> out;

    explicit views(const problem<Scalar>& p)
        : q(p.q, {p.batches, p.heads, p.rows, p.depth}, {p.q_steps.batch, p.q_steps.head, p.q_steps.row, 1}),
          k(p.k, {p.batches, p.heads, p.columns, p.depth}, {p.k_steps.batch, p.k_steps.head, p.k_steps.row, 1}),
          out(p.out, {p.batches, p.heads, p.rows, p.columns},
              {p.out_steps.batch, p.out_steps.head, p.out_steps.row, 1}) {}
};

template <class Scalar>
runner loop(const problem<Scalar>& p) {
    return repeat([v = views<Scalar>(p)] { headwise::batched_scores_loop(v.q, v.k, v.out); });
}

/// The options are made anew for each call, as a user's program would.
template <class Scalar>
runner fused(const problem<Scalar>& p, headwise::isa target) {
    return repeat([v = views<Scalar>(p), threads = p.threads, target] {
        headwise::batched_scores_vectorized(v.q, v.k, v.out, {.threads = threads, .isa = target});
    });
}

contender fused_contender(std::string name, std::string words, headwise::isa target) {
    return {std::move(name), std::move(words), true, [target](const problem<float>& p) { return fused(p, target); },
            [target](const problem<double>& p) { return fused(p, target); }};
}

}  // namespace

std::vector<contender> headwise_contenders() {
    const std::string version = "headwise " + std::to_string(HEADWISE_VERSION_MAJOR) + "." +
                                std::to_string(HEADWISE_VERSION_MINOR) + "." + std::to_string(HEADWISE_VERSION_PATCH);
    const std::string best(headwise::to_string(headwise::detail::choose_isa(headwise::isa::automatic)));
    std::vector<contender> ours{
        fused_contender("fused", version + ", fused, isa automatic: " + best, headwise::isa::automatic),
        {"loop", version + ", loop over heads, no flags", true, loop<float>, loop<double>}};
    for (const headwise::isa target : headwise::supported_isas()) {
        if (target == headwise::supported_isas().back()) continue;  // the best: automatic takes it
        const std::string name(headwise::to_string(target));
        ours.push_back(fused_contender(name, version + ", fused, held to " + name, target));
    }
    return ours;
}

}  // namespace race
