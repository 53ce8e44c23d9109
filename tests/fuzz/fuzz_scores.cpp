// Shapes x strides x offsets x options, for every implementation of batched scores. Small whole numbers, so that every
// order of summation gives the same result. Either the call is refused and nothing is written; or every output is
// right, nothing else is written, and the output's elements were its own.
#include <stdexcept>

#include "../operations.hpp"
#include "arena.hpp"
#include "input.hpp"

using namespace headwise;

namespace {

template <class Scalar>
void check(const fuzz::arena<Scalar>& memory, const tensor_view<Scalar>& q, const tensor_view<Scalar>& k,
           const tensor_view<Scalar>& out, Scalar scale) {
    fuzz::each(out.shape(), [&](auto b, auto h, auto l, auto m) {
        Scalar sum = 0;
        for (std::ptrdiff_t d = 0; d < q.shape()[3]; ++d) sum += memory.old(q(b, h, l, d)) * memory.old(k(b, h, m, d));
        fuzz::must(out(b, h, l, m) == scale * sum, "an output is not the sum of its products");
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
    const std::ptrdiff_t B = in.between(0, 3), H = in.between(0, 3), L = extent(), M = extent(), D = extent();
    fuzz::arena<Scalar> memory(in.byte());
    tensor_view<Scalar> q, k, out;
    if (!memory.take(in, {B, H, L, D}, q) || !memory.take(in, {B, H, M, D}, k)) return;
    if (!memory.take(in, {B, H, L, M}, out)) return;
    scores_options options;
    options.threads = static_cast<int>(in.between(0, 3));
    options.stores = static_cast<stores>(in.between(0, 2));
    if (how.fused) options.scale = static_cast<double>(in.between(-2, 4));
    try {
        how(q, k, out, options);
        check(memory, q, k, out, static_cast<Scalar>(options.scale));
    } catch (const std::invalid_argument&) {
        fuzz::must(memory.untouched(), "a refused call wrote something");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    if (in.byte() % 2 == 0) run<float>(in);
    else run<double>(in);
    return 0;
}
