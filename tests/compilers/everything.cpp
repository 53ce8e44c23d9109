// What clang-tidy looks at: the headers, and the templates in them as a program uses them.
#include <headwise/headwise.hpp>

#include <string>
#include <vector>

namespace {

template <class Scalar>
bool operation(const std::string& path) {
    using namespace headwise;
    const auto q = randn<Scalar>({1, 2, 3, 4}, 1), k = randn<Scalar>({1, 2, 5, 4}, 2);
    tensor<Scalar> out({1, 2, 3, 5});
    batched_scores_loop(q, k, out);
    batched_scores_vectorized(q.view(), k, out, {.threads = 0, .stores = stores::streaming});
    save_npy(path, out);
    const auto rule = tolerance::dot(q, k).at_least(tolerance::standard<Scalar>());
    return allclose(load_npy<Scalar>(path), batched_scores_vectorized(q, k), rule) && bitwise_equal(q, q) &&
           profile_and_compare(q, k, 2).outputs_match;
}

}  // namespace

bool everything() {
    using namespace headwise;
    const std::vector<int> x{1, 2}, y{1, 3};
    const auto first = [&x]() -> const std::vector<int>& { return x; };
    const auto second = [&y]() -> const std::vector<int>& { return y; };
    const auto result = compare({}, arm{"x", first}, arm{"y", second});
    return operation<float>("f.npy") && operation<double>("d.npy") && close_report(x, y).matches &&
           result.arms[1].verdict == verdict::mismatch;
}
