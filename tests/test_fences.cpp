// Stores around the caches are not ordered with others: a thread that is told of a result by an ordinary store could
// find the old one, unless a fence came between. No run on one machine shows that it is missing, so the instructions
// themselves are looked at.
#include <cstddef>

#include <doctest/doctest.h>
#include <headwise/attention_weights.hpp>
#include <headwise/scores.hpp>

#include "stepped.hpp"

using namespace headwise;
using test::step_through, test::stepped;

namespace {

/// On every target that has such stores, of every type of operands and results.
template <class Body>
void of_every_type(const Body& body) {
    for (const isa name : {isa::avx2, isa::avx512, isa::avx512_bf16}) {
        if (!supports(name)) continue;
        CAPTURE(to_string(name));
        body(name, Eigen::bfloat16{}, Eigen::bfloat16{});
        body(name, Eigen::bfloat16{}, 0.0f);
        if (name == isa::avx512_bf16) continue;  // is for this type alone
        body(name, 0.0f, 0.0f);
        body(name, 0.0, 0.0);
        body(name, Eigen::half{}, Eigen::half{});
        body(name, Eigen::half{}, 0.0f);
    }
}

/// Streams if asked to, and then ends with a fence.
void check(const stepped& call, bool asked_for) {
    CHECK((call.streamed > 0) == asked_for);
    CHECK(call.unfenced == 0);
}

/// False, and says so, where instructions cannot be looked at.
bool can_step() {
    const bool can = step_through([] {}).steps > 0;
    if (!can) MESSAGE("the instructions of a call cannot be looked at here");
    return can;
}

}  // namespace

TEST_CASE("what looks at instructions sees a store around the caches, and a fence after it") {
    if (!can_step()) return;
#if defined(HEADWISE_TEST_CAN_STEP)
    alignas(64) float line[16] = {};
    const stepped bare = step_through([&] { _mm_stream_ps(line, _mm_setzero_ps()); });
    CHECK(bare.streamed == 1);
    CHECK(bare.unfenced == 1);
    const stepped fenced = step_through([&] {
        _mm_stream_ps(line + 4, _mm_setzero_ps());
        _mm_sfence();
        line[0] = 1;
    });
    CHECK(fenced.streamed == 1);
    CHECK(fenced.unfenced == 0);
#endif
}

TEST_CASE("scores that stream end with a fence; with ordinary stores asked for, nothing streams") {
    if (!can_step()) return;
    of_every_type([]<class In, class Out>(isa name, In, Out) {
        for (const std::ptrdiff_t M : {32, 33}) {  // whole lines, and a tail
            const tensor<In> q({1, 1, 10, 1}), k({1, 1, M, 1});
            tensor<Out> memory({1, 1, 10, 64});
            const tensor_view<Out> out(memory.data(), {1, 1, 10, M}, {640, 640, 64, 1});
            for (const stores how : {stores::cached, stores::streaming}) {
                const scores_options options{.isa = name, .stores = how};
                batched_scores_vectorized(q, k, out, options);  // memory is got, pages are touched
                check(step_through([&] { batched_scores_vectorized(q, k, out, options); }), how == stores::streaming);
            }
        }
    });
}

TEST_CASE("attention's weights and logits that stream end with a fence") {
    if (!can_step()) return;
    of_every_type([]<class In, class Out>(isa name, In, Out) {
        const tensor<In> q({1, 1, 2, 1}), k({1, 1, 32, 1});
        tensor<Out> out({1, 1, 2, 32});
        attention_options<attention_scalar<In>> options;
        options.isa = name;
        const detail::attention_call<In, Out> call(as_view(q), as_view(k), as_view(out), options);
        const auto plan = call.plan_weights(options);
        auto* const memory = detail::attention_memory(plan, {});
        for (const auto run : {call.kernel.weigh, call.kernel.logits})
            for (const bool stream : {false, true})  // which weights of 8 MiB and more do by themselves
                check(step_through([&] { detail::run_tiles(call, plan, options, memory, run, stream); }), stream);
    });
}
