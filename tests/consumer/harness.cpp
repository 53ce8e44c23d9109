#include <headwise/harness.hpp>

#if defined(EIGEN_WORLD_VERSION) || __has_include(<Eigen/Core>)
#error "the harness alone brought Eigen along"
#endif

int main() {
    const headwise::timer stopwatch;
    int calls = 0;
    headwise::warmup([&calls] { ++calls; }, 3);
    headwise::keep(calls);
    return calls == 3 && stopwatch.elapsed_ms() >= 0 ? 0 : 1;
}
