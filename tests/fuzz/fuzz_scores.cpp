// Shapes x groups x strides x offsets x options x types, for every implementation of batched scores. Small whole
// numbers, so that every order of summation gives the same result. Either the call is refused and nothing is written;
// or every output is right, nothing else is written, and the output's elements were its own.
#include <stdexcept>

#define DOCTEST_CONFIG_IMPLEMENT  // of which operations.hpp uses a little
#include "../operations.hpp"
#include "arena.hpp"
#include "input.hpp"

using namespace headwise;

namespace {

template <class Scalar>
void check(const fuzz::arena<Scalar>& memory, const tensor_view<Scalar>& q, const tensor_view<Scalar>& k,
           const tensor_view<Scalar>& out, double scale) {
    const std::ptrdiff_t group = k.shape()[1] == 0 ? 1 : q.shape()[1] / k.shape()[1];
    fuzz::each(out.shape(), [&](auto b, auto h, auto l, auto m) {
        double sum = 0;
        for (std::ptrdiff_t d = 0; d < q.shape()[3]; ++d)
            sum +=
                static_cast<double>(memory.old(q(b, h, l, d))) * static_cast<double>(memory.old(k(b, h / group, m, d)));
        const auto exact = static_cast<float>(scale * sum);  // and in sixteen bits rounded once
        fuzz::must(out(b, h, l, m) == static_cast<Scalar>(exact), "an output is not the sum of its products");
    });
    if (q.shape()[3] != 0 && out.size() != 0) memory.check_written({out}, {q, k});
    else memory.check_written({out}, {});
}

template <class Scalar>
void run(fuzz::input& in) {
    static const auto implementations = test::scores_implementations();
    const auto& how = implementations[in.byte() % implementations.size()];
    const auto extent = [&in] {
        const unsigned chosen = in.byte();
        return static_cast<std::ptrdiff_t>(chosen < 200 ? chosen % 20 : chosen % 80);
    };
    const std::ptrdiff_t B = in.between(0, 3), heads = in.between(0, 3), L = extent(), M = extent(), D = extent();
    const std::ptrdiff_t H = heads * in.between(1, 3);
    fuzz::arena<Scalar> memory(in.byte());
    tensor_view<Scalar> q, k, out;
    if (!memory.take(in, {B, H, L, D}, q) || !memory.take(in, {B, heads, M, D}, k)) return;
    if (!memory.take(in, {B, H, L, M}, out)) return;
    scores_options options;
    options.threads = static_cast<int>(in.between(0, 3));
    options.stores = static_cast<stores>(in.between(0, 2));
    if (how.fused) options.scale = static_cast<double>(in.between(-2, 4));
    try {
        how(q, k, out, options);
        check(memory, q, k, out, options.scale);
    } catch (const std::invalid_argument&) {
        fuzz::must(memory.untouched(), "a refused call wrote something");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    switch (in.byte() % 4) {
        case 0:
            run<float>(in);
            break;
        case 1:
            run<double>(in);
            break;
        case 2:
            run<Eigen::bfloat16>(in);
            break;
        default:
            run<Eigen::half>(in);
            break;
    }
    return 0;
}
