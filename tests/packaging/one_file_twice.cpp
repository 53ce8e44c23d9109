// A second translation unit, with the other order of inclusion.
#include <single/headwise/headwise.hpp>
#include <single/headwise/harness.hpp>

std::size_t isas_elsewhere() {
    const auto q = headwise::randn<float>({1, 1, 2, 4}, 1);
    return headwise::allclose(q, q) ? headwise::supported_isas().size() : 0;
}
