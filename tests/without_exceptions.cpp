// Every public function in a program built with -fno-exceptions -fno-rtti. A refusal prints its sentence and aborts.
#include <headwise/headwise.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <span>
#include <vector>

using namespace headwise;

namespace {

template <class Scalar>
bool operation() {
    auto q = randn<Scalar>({1, 2, 3, 4}, 1), k = randn<Scalar>({1, 2, 5, 4}, 2);
    const tensor_view<const Scalar> q_view = q.view();
    tensor<Scalar> out({1, 2, 3, 5});
    batched_scores_loop(q, k, out);
    const auto looped = batched_scores_loop(q_view, k);
    batched_scores_vectorized(q, k, out);
    batched_scores_vectorized(q, k, out.view(), {.threads = 0, .stores = stores::streaming});
    const auto fused = batched_scores_vectorized(q_view, k, {.isa = isa::baseline});
    std::cout << q << '\n' << q_view << '\n' << q.head(0, 1)(0, 0) << '\n' << profile_and_compare(q, k, 2);
    (void)profile_and_compare(q, k, 2, {.threads = 2}, [](int, int) {});

    const auto rule = tolerance::dot(q, k).at_least(tolerance::standard<Scalar>());
    std::array<bool, 30> mask{};
    isclose(std::span(looped.data(), 30), std::span(fused.data(), 30), mask, {.rtol = 1e-3, .atol = 1e-3});
    return allclose(looped, fused, rule) && allclose(looped, out, {.rtol = 1e-3, .atol = 1e-4}) && mask[29] &&
           close_report(fused, out, rule) && compare_ulp(out, out, 0) && bitwise_equal(q, q) &&
           isclose(q(0, 0, 0, 0), q(0, 0, 0, 0));
}

bool files() {
    const auto path = std::filesystem::temp_directory_path() / "headwise_without_exceptions.npy";
    const auto values = randn<double>({1, 1, 2, 3}, 1);
    save_npy(path, values);
    const bool same = bitwise_equal(load_npy<double>(path), values);
    return std::filesystem::remove(path) && same;
}

bool harness() {
    timer stopwatch;
    int calls = 0;
    warmup([&] { ++calls; }, 3);
    keep(calls), keep();
    stopwatch.restart();
    const close_report wrong(std::vector<int>{1, 2}, std::vector<int>{1, 3});
    std::cout << wrong << supported_isas().size() << " kinds, best " << to_string(supported_isas().back()) << '\n';
    return calls == 3 && stopwatch.elapsed_ms() >= 0 && !wrong && ulp_distance(1.0f, 1.0f) == 0;
}

}  // namespace

int main() {
    if (!operation<float>() || !operation<double>() || !files() || !harness()) return 1;
    std::cout.flush();
    std::signal(SIGABRT, [](int) {
        std::fputs("and aborted\n", stderr);
        std::_Exit(0);
    });
    (void)batched_scores_loop(tensor<float>({1, 2, 3, 4}), tensor<float>({1, 2, 3, 5}));
    std::fputs("a refusal returned\n", stderr);
    return 1;
}
