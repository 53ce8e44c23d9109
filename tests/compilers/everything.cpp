// What clang-tidy looks at: the headers, and the templates in them as a program uses them.
#include <headwise/harness/counters.hpp>
#include <headwise/harness/gate.hpp>
#include <headwise/harness/machine_file.hpp>
#include <headwise/harness/memory_hooks.hpp>
#include <headwise/harness/page_comparison.hpp>
#include <headwise/harness/page_profile.hpp>
#include <headwise/harness/profiler.hpp>
#include <headwise/harness/roofline_point.hpp>
#include <headwise/harness/timers.hpp>
#include <headwise/harness/trace.hpp>
#include <headwise/headwise.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace headwise;

namespace {

template <class Scalar>
bool operation() {
    const auto q = randn<Scalar>({1, 2, 3, 4}, 1), k = randn<Scalar>({1, 2, 5, 4}, 2);
    tensor<Scalar> out({1, 2, 3, 5});
    batched_scores_loop(q, k, out);
    batched_scores_vectorized(q.view(), k, out, {.threads = 0, .stores = stores::streaming});
    const auto rule = tolerance::dot(q, k).at_least(tolerance::standard<Scalar>());
    const auto gradients = batched_scores_backward(q, k, out), by_loop = batched_scores_backward_loop(q, k, out);
    return allclose(out, batched_scores_vectorized(q, k), rule) && bitwise_equal(q, q) &&
           allclose(gradients.dq, by_loop.dq) && profile_and_compare(q, k, 2).outputs_match;
}

template <class Scalar>
bool attending() {
    using computed = attention_scalar<Scalar>;
    const auto q = randn<Scalar>({1, 4, 3, 4}, 1), k = randn<Scalar>({1, 2, 5, 4}, 2),
               v = randn<Scalar>({1, 2, 5, 6}, 3);
    const bool visible[5] = {true, true, false, true, true};
    const tensor<computed> bias({1, 4, 3, 5});
    tensor<computed> lse({1, 4, 3, 1});
    const attention_options<computed> options{.threads = 2,
                                              .causal = true,
                                              .window = {.left = 2},
                                              .softcap = 3,
                                              .mask = tensor_view(visible, {1, 1, 1, 5}),
                                              .bias = bias,
                                              .lse = lse};
    const auto part = attention(q, k, v, options);
    const auto whole = merge_attention(part, lse, part, lse);
    return allclose(part, attention_loop(q, k, v), {.rtol = 1e-3}) &&
           allclose(attention_weights(q, k), attention_logits(q, k)) && whole.lse.size() == lse.size();
}

template <class Scalar>
bool by_formula(const char* text) {
    const auto x = randn<Scalar>({1, 2, 3, 8}, 1), w = randn<Scalar>({1, 8, 4, 2}, 2);
    const auto heads = einsum("bld,dhe->bhle", x, w);
    return bitwise_equal(heads, einsum(runtime_formula(text), x, w)) && einsum("ij,kj->ik", heads, heads).size() == 9;
}

/// DLPack's structures, member by member.
struct lent_tensor {
    void* data;
    struct {
        int device_type;
        std::int32_t device_id;
    } device;
    std::int32_t ndim;
    struct {
        std::uint8_t code, bits;
        std::uint16_t lanes;
    } dtype;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};

template <class Scalar>
bool lending(lent_tensor& lent) {
    Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic> matrix(3, 4);
    return view_of(matrix).size() == view_of<Scalar>(lent).size();
}

template <class Scalar>
bool in_files(const std::string& path) {
    save_npy(path, randn<Scalar>({1, 2, 3, 4}, 1));
    return load_npy<Scalar>(path).size() == 24;
}

bool harness(std::ostream& out) {
    const std::vector<int> x{1, 2}, y{1, 3};
    const auto first = [&x]() -> const std::vector<int>& { return x; };
    const auto second = [&y]() -> const std::vector<int>& { return y; };
    const comparison result = compare({}, arm{"x", first}, arm{"y", second});
    const auto swept = sweep({}, "n", {1, 2}, [&](int, const compare_options& o) {
        return compare(o, arm{"x", first});
    });
    out << result << swept << close_report(x, y);
    write_json(out, result), write_csv(out, result), write_markdown(out, result), write_html(out, result);
    return result.arms[1].verdict == verdict::mismatch;
}

bool questions(std::ostream& out) {
    counters counted;
    counted.start();
    profile p;
    { HEADWISE_SCOPE("scope", {.flops = 1}); }
    const machine_limits limits = measure_machine<float>(1 << 20);
    out << p.table({.limits = limits}) << counted.stop() << recall_machine("machine.txt").report
        << roofline_point{"point", {.flops = 1}, 1, limits};
    write_html(out, p.table());
    save_trace("trace.json", p);
    thread_cpu_timer timer;
    return timer.elapsed_ms() >= 0;
}

}  // namespace

bool everything(lent_tensor& lent, const char* formula, std::ostream& out) {
    const auto of_any = [&]<class Scalar>(Scalar) {
        return operation<Scalar>() && attending<Scalar>() && by_formula<Scalar>(formula) && lending<Scalar>(lent);
    };
    return of_any(float{}) && of_any(double{}) && of_any(Eigen::half{}) && of_any(Eigen::bfloat16{}) &&
           in_files<float>("f.npy") && in_files<double>("d.npy") && in_files<Eigen::half>("h.npy") && harness(out) &&
           questions(out);
}
