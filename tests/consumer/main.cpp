#include <headwise/headwise.hpp>

int main() {
    const auto q = headwise::randn<float>({1, 2, 3, 16}, 1), k = headwise::randn<float>({1, 2, 4, 16}, 2);
    return headwise::profile_and_compare(q, k, 1).outputs_match ? 0 : 1;
}
