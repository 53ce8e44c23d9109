// Something to look at in a debugger: break at `look`, go up one frame, print `owner`, `view`, `reversed` and `empty`.
#include <numeric>

#include <headwise/tensor.hpp>

namespace {

[[gnu::noinline]] void look(const float* first) { asm volatile("" : : "r"(first) : "memory"); }

}  // namespace

int main() {
    headwise::tensor<float> owner({1, 2, 2, 3});
    std::iota(owner.data(), owner.data() + owner.size(), 0.5f);
    // The buffer again, as (b, l, h, d) seen as (b, h, l, d); and a row backwards.
    const headwise::tensor_view<const float> view(owner.data(), {1, 2, 2, 3}, {12, 3, 6, 1});
    const headwise::tensor_view<const float> reversed(owner.data() + 2, {1, 1, 1, 3}, {0, 0, 0, -1});
    const headwise::tensor<double> empty({2, 0, 3, 4});
    look(owner.data());
    return static_cast<int>(view(0, 0, 0, 0) + reversed(0, 0, 0, 0) + static_cast<float>(empty.size())) - 3;
}
