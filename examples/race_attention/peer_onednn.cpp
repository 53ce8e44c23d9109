// oneDNN: matmul, softmax in place, matmul, for all heads at once or for one after the other, whose weights then stay
// in a cache. Scale and causal mask are attributes of the first matmul. All primitives are made once.
#include <oneapi/dnnl/dnnl.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_map>

#include "problem.hpp"

namespace race {
namespace {

using dnnl::memory;
constexpr auto f32 = memory::data_type::f32;

/// `batches` x `group` products: the heads of a group share k and v.
struct pipeline {
    dnnl::engine cpu{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{cpu};
    attention_problem p;
    std::ptrdiff_t batches, group;
    std::vector<float> mask;
    memory q, k, v, weights, out, bias;
    dnnl::matmul first, second;
    dnnl::softmax_forward softmax;

    pipeline(const attention_problem& problem, std::ptrdiff_t batches_, std::ptrdiff_t group_)
        : p(problem), batches(batches_), group(group_) {
        const auto L = p.rows, M = p.columns, D = p.depth;
        const memory::desc q_desc({batches, group, L, D}, f32, memory::dims{group * L * D, L * D, D, 1});
        const memory::desc k_desc({batches, 1, D, M}, f32, memory::dims{M * D, M * D, 1, D});
        const memory::desc v_desc({batches, 1, M, D}, f32, memory::dims{M * D, M * D, D, 1});
        const memory::desc w_desc({batches, group, L, M}, f32, memory::dims{group * L * M, L * M, M, 1});
        const memory::desc mask_desc({1, 1, L, M}, f32, memory::dims{L * M, L * M, M, 1});
        dnnl::primitive_attr attributes;
        attributes.set_output_scales(0, {p.scale()});
        if (p.causal) {
            dnnl::post_ops add;
            add.append_binary(dnnl::algorithm::binary_add, mask_desc);
            attributes.set_post_ops(add);
            mask.assign(static_cast<std::size_t>(L * M), 0.0f);
            for (std::ptrdiff_t l = 0; l < L; ++l)
                for (std::ptrdiff_t m = l + M - L + 1; m < M; ++m)
                    mask[static_cast<std::size_t>(l * M + m)] = -std::numeric_limits<float>::infinity();
            bias = memory(mask_desc, cpu, mask.data());
        }
        first = dnnl::matmul({dnnl::matmul::desc(q_desc, k_desc, w_desc), attributes, cpu});
        softmax = dnnl::softmax_forward({{dnnl::prop_kind::forward_inference, w_desc, 3}, cpu});
        second = dnnl::matmul({dnnl::matmul::desc(w_desc, v_desc, q_desc), cpu});
        q = memory(q_desc, cpu, nullptr), k = memory(k_desc, cpu, nullptr), v = memory(v_desc, cpu, nullptr);
        weights = memory(w_desc, cpu, p.weights), out = memory(q_desc, cpu, nullptr);
    }

    /// From head `head` of q on.
    void operator()(std::ptrdiff_t head) {
        const std::ptrdiff_t kv = head / p.group();
        q.set_data_handle(const_cast<float*>(p.q) + head * p.rows * p.depth);
        k.set_data_handle(const_cast<float*>(p.k) + kv * p.columns * p.depth);
        v.set_data_handle(const_cast<float*>(p.v) + kv * p.columns * p.depth);
        out.set_data_handle(p.out + head * p.rows * p.depth);
        std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, q}, {DNNL_ARG_WEIGHTS, k}, {DNNL_ARG_DST, weights}};
        if (p.causal) arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = bias;
        first.execute(stream, arguments);
        softmax.execute(stream, {{DNNL_ARG_SRC, weights}, {DNNL_ARG_DST, weights}});
        second.execute(stream, {{DNNL_ARG_SRC, weights}, {DNNL_ARG_WEIGHTS, v}, {DNNL_ARG_DST, out}});
    }
};

/// None under a mask: oneDNN computes that with its reference code, 0.2 GFLOP/s.
runner all_heads(const attention_problem& p) {
    if (p.causal) return {};
    return repeat([call = std::make_shared<pipeline>(p, p.batches * p.kv_heads, p.group())] { (*call)(0); });
}

runner head_by_head(const attention_problem& p) {
    return repeat([p, call = std::make_shared<pipeline>(p, 1, 1)] {
        for (std::ptrdiff_t head = 0; head < p.batches * p.heads; ++head) (*call)(head);
    });
}

}  // namespace

std::vector<attention_contender> onednn_attention() {
    // The OpenMP runtime is whichever one the library was built with.
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
    return {{"onednn, all heads", all_heads}, {"onednn, by head", head_by_head}};
}

}  // namespace race
