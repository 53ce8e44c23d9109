// einsum and the gradients in the steady state allocate nothing: every operator new of the program is counted.
#include <doctest/doctest.h>
#include <headwise/backward.hpp>
#include <headwise/einsum.hpp>

#include "counted_allocations.hpp"

using namespace headwise;

namespace {

/// How many allocations the second of two calls makes.
template <class Body>
long allocations_of(const Body& body) {
    body();
    const long before = allocations.load();
    body();
    return allocations.load() - before;
}

}  // namespace

TEST_CASE("the counter counts") {
    CHECK(allocations_of([] { ::operator delete(::operator new(8)); }) == 1);
}

TEST_CASE_TEMPLATE("a call into memory of the caller's allocates nothing, whatever the formula", Scalar, float,
                   double) {
    const auto q = randn<Scalar>({2, 3, 20, 24}, 1), k = randn<Scalar>({2, 3, 30, 24}, 2);
    const auto scores = randn<Scalar>({2, 3, 20, 30}, 3), x = randn<Scalar>({1, 6, 20, 24}, 4);
    tensor<Scalar> out({2, 3, 20, 30}), dq(q.shape()), dk(k.shape()), wide({6, 20, 3, 30}), rows({1, 2, 3, 20});
    CHECK(allocations_of([&] { einsum("bhld,bhmd->bhlm", q, k, out); }) == 0);
    CHECK(allocations_of([&] { einsum("bhlm,bhmd->bhld", scores, k, dq); }) == 0);
    CHECK(allocations_of([&] { einsum(runtime_formula("bhlm,bhld->bhmd"), scores, q, dk); }) == 0);
    CHECK(allocations_of([&] { einsum("bld,hed->blhe", x, tensor_view(k.data(), {1, 3, 30, 24}), wide); }) == 0);
    CHECK(allocations_of([&] { einsum("bhld,bhld->bhl", q, q, rows); }) == 0);
    CHECK(allocations_of([&] { batched_scores_backward(q, k, scores, dq, dk); }) == 0);
}
