// oneDNN: its matmul primitive over all heads at once, K described as a transposed matrix by its strides. The
// primitive, its memory objects and its scratchpad are made once per shape; a call is one dnnl_primitive_execute. Float
// only: the CPU has no f64 matmul.
#include <oneapi/dnnl/dnnl.hpp>

#include <dlfcn.h>

#include <array>
#include <memory>

#include "contender.hpp"

namespace race {
namespace {

using dnnl::memory;

/// Three axes where batch and head are one evenly stepped axis, else four.
memory::desc describe(const problem<float>& p, const steps& s, std::ptrdiff_t rows, std::ptrdiff_t columns,
                      std::ptrdiff_t row_step, std::ptrdiff_t column_step, bool fold) {
    constexpr auto f32 = memory::data_type::f32;
    if (fold) return {{p.all_heads(), rows, columns}, f32, {p.heads == 1 ? s.batch : s.head, row_step, column_step}};
    return {{p.batches, p.heads, rows, columns}, f32, {s.batch, s.head, row_step, column_step}};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& cpu, const memory::desc& q, const memory::desc& k,
                                      const memory::desc& out) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return {cpu, q, k, out, attributes};
#else
    return {dnnl::matmul::desc(q, k, out), attributes, cpu};
#endif
}

struct prepared {
    dnnl::engine cpu{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{cpu};
    memory q, k, out, scratchpad;
    dnnl::matmul primitive;
    std::array<dnnl_exec_arg_t, 4> arguments;

    prepared(const problem<float>& p, bool fold) {
        const memory::desc q_desc = describe(p, p.q_steps, p.rows, p.depth, p.q_steps.row, 1, fold);
        const memory::desc k_desc = describe(p, p.k_steps, p.depth, p.columns, 1, p.k_steps.row, fold);
        const memory::desc out_desc = describe(p, p.out_steps, p.rows, p.columns, p.out_steps.row, 1, fold);
        const auto description = describe(cpu, q_desc, k_desc, out_desc);
        q = memory(q_desc, cpu, const_cast<float*>(p.q));
        k = memory(k_desc, cpu, const_cast<float*>(p.k));
        out = memory(out_desc, cpu, p.out);
        scratchpad = memory(description.scratchpad_desc(), cpu);
        primitive = dnnl::matmul(description);
        arguments = {{{DNNL_ARG_SRC, q.get()},
                      {DNNL_ARG_WEIGHTS, k.get()},
                      {DNNL_ARG_DST, out.get()},
                      {DNNL_ARG_SCRATCHPAD, scratchpad.get()}}};
    }
    void operator()() const {
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
    }
};

bool folds(const problem<float>& p, const steps& s) {
    return p.batches == 1 || p.heads == 1 || s.batch == p.heads * s.head;
}

runner prepare(const problem<float>& p) {
    const bool fold = folds(p, p.q_steps) && folds(p, p.k_steps) && folds(p, p.out_steps);
    return repeat([call = std::make_shared<prepared>(p, fold)] { (*call)(); });
}

}  // namespace

std::vector<contender> onednn_contenders(int threads) {
    // The OpenMP runtime is whichever one the library was built with.
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
    const dnnl_version_t* v = dnnl_version();
    const std::string version =
        "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
    return {{"onednn", version + ", batched matmul", false, prepare, nullptr}};
}

}  // namespace race
