#include <headwise/interop.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>
#include <headwise/einsum.hpp>

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H
#error "a header of headwise brought in Eigen's Tensor module"
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-enum-enum-conversion"
#endif
#if __has_include(<unsupported/Eigen/CXX11/Tensor>)
#include <unsupported/Eigen/CXX11/Tensor>
#else
#include <unsupported/Eigen/Tensor>
#endif
#ifndef EIGEN_CXX11_TENSOR_TENSOR_H
#error "the check above looks for the wrong name"
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include "interop.hpp"

using namespace headwise;
using test::is, test::refusal, test::seen_as, test::viewed;

namespace {

using Matrix = Eigen::MatrixXf;
using RowMatrix = Eigen::Matrix<double, 3, 4, Eigen::RowMajor>;
using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
using Four = Eigen::Tensor<float, 4>;
using RowFour = Eigen::Tensor<float, 4, Eigen::RowMajor>;

}  // namespace

// What owns its memory must have a name; what does not may be a temporary. Expressions have no memory.
static_assert(viewed<Matrix&> && viewed<const Matrix&> && !viewed<Matrix> && !viewed<const Matrix>);
static_assert(viewed<Eigen::Map<Matrix>> && viewed<Eigen::Map<const Matrix, 0, Strides>&>);
static_assert(viewed<Eigen::Ref<Matrix>&> && !viewed<Eigen::Ref<const Matrix>> && viewed<Eigen::Block<Matrix>&> &&
              !viewed<Eigen::Block<Matrix>> && viewed<Eigen::ArrayXXd&> && !viewed<Eigen::ArrayXXd>);
static_assert(!viewed<decltype(std::declval<Matrix&>() * 2)&>);
static_assert(viewed<Four&> && viewed<const Four&> && !viewed<Four> && !viewed<const Four>);
static_assert(viewed<Eigen::TensorMap<Four>> && viewed<Eigen::TensorMap<const Four>> &&
              viewed<Eigen::TensorMap<Four>&>);
static_assert(!viewed<Eigen::Tensor<float, 5>&> && !viewed<decltype(std::declval<Four&>() + std::declval<Four&>())&>);
static_assert(viewed<Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>>&> &&
              !viewed<Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>>>);

// Constness is kept, and not cast away.
static_assert(std::is_same_v<decltype(view_of(std::declval<Matrix&>())), tensor_view<float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<const Matrix&>())), tensor_view<const float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<Eigen::Map<const Matrix>>())), tensor_view<const float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<const Four&>())), tensor_view<const float>>);
static_assert(
    std::is_same_v<decltype(view_of(std::declval<Eigen::TensorMap<const Four>>())), tensor_view<const float>>);
static_assert(seen_as<Eigen::TensorMap<RowFour>, tensor<float>&> &&
              seen_as<Eigen::TensorMap<Four>, tensor_view<float>>);
static_assert(!seen_as<Eigen::TensorMap<RowFour>, tensor<float>> &&
              !seen_as<Eigen::TensorMap<Four>, const tensor<float>&>);
static_assert(seen_as<Eigen::TensorMap<const Four>, const tensor<float>&> && !seen_as<Four, tensor<float>&>);
static_assert(!seen_as<Eigen::TensorMap<Four>, tensor<double>&>);
static_assert(!seen_as<Eigen::TensorMap<Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>>>, tensor<float>&>);

TEST_CASE("Eigen matrices: rows and columns last, any storage order and strides") {
    Matrix columns = Matrix::Random(5, 7);
    CHECK(is(view_of(columns), columns.data(), {1, 1, 5, 7}, {1, 1, 1, 5}));
    RowMatrix rows = RowMatrix::Random();
    CHECK(is(view_of(rows), rows.data(), {1, 1, 3, 4}, {1, 1, 4, 1}));
    Eigen::VectorXd vector = Eigen::VectorXd::Random(6);
    CHECK(view_of(vector).shape() == shape4{1, 1, 6, 1});
    CHECK(view_of(vector)(0, 0, 4, 0) == vector[4]);
    const Eigen::RowVectorXf row = Eigen::RowVectorXf::Random(6);
    CHECK(view_of(row).shape() == shape4{1, 1, 1, 6});
    CHECK(view_of(row)(0, 0, 0, 4) == row[4]);

    auto block = columns.block(1, 2, 3, 4);
    auto turned = columns.transpose();
    Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> reference = columns.bottomRows(2);
    for (Eigen::Index i = 0; i < 2; ++i)
        for (Eigen::Index j = 0; j < 4; ++j) {
            CHECK(&view_of(block)(0, 0, i, j) == &columns(1 + i, 2 + j));
            CHECK(&view_of(turned)(0, 0, j, i) == &columns(i, j));
            CHECK(&view_of(reference)(0, 0, i, j) == &columns(3 + i, j));
        }
    float values[60];
    CHECK(
        is(view_of(Eigen::Map<Matrix, 0, Strides>(values, 3, 4, Strides(15, 2))), values, {1, 1, 3, 4}, {1, 1, 2, 15}));
    CHECK(is(view_of(Eigen::Map<const Matrix>(values, 3, 0)), values, {1, 1, 3, 0}, {1, 1, 1, 3}));
}

TEST_CASE("Eigen tensors: indices in order, row- and column-major, one to four of them") {
    Four columns(2, 3, 4, 5);
    columns.setRandom();
    RowFour rows = columns.swap_layout().shuffle(Eigen::array<int, 4>{3, 2, 1, 0});
    CHECK(is(view_of(columns), columns.data(), {2, 3, 4, 5}, {1, 2, 6, 24}));
    CHECK(is(view_of(rows), rows.data(), {2, 3, 4, 5}, {60, 20, 5, 1}));
    CHECK(&view_of(columns)(1, 2, 3, 4) == &columns(1, 2, 3, 4));
    CHECK(&view_of(rows)(1, 2, 0, 4) == &rows(1, 2, 0, 4));
    CHECK(view_of(columns)(1, 0, 3, 2) == view_of(rows)(1, 0, 3, 2));

    Eigen::Tensor<double, 2> two(3, 4);
    CHECK(is(view_of(two), two.data(), {1, 1, 3, 4}, {1, 1, 1, 3}));
    const Eigen::Tensor<double, 1, Eigen::RowMajor> one(7);
    CHECK(is(view_of(one), one.data(), {1, 1, 1, 7}, {7, 7, 7, 1}));
    Eigen::Tensor<double, 0> number;
    CHECK(is(view_of(number), number.data(), {1, 1, 1, 1}, {1, 1, 1, 1}));
    Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3, 4>> fixed;
    CHECK(is(view_of(fixed), fixed.data(), {1, 2, 3, 4}, {1, 1, 2, 6}));
    Four empty(2, 0, 4, 5);
    CHECK(view_of(empty).shape() == shape4{2, 0, 4, 5});

    // And back.
    const auto map = view_as<Eigen::TensorMap<RowFour>>(view_of(rows));
    CHECK(map.data() == rows.data());
    CHECK(&map(1, 2, 3, 4) == &rows(1, 2, 3, 4));
    CHECK(&view_as<Eigen::TensorMap<const Four>>(view_of(columns))(1, 2, 3, 4) == &columns(1, 2, 3, 4));
    const auto owner = randn<double>({1, 1, 3, 4}, 1);
    const auto matrix = view_as<Eigen::TensorMap<const Eigen::Tensor<double, 2, Eigen::RowMajor>>>(owner);
    CHECK(matrix.dimension(0) == 3);
    CHECK(&matrix(2, 1) == &owner(0, 0, 2, 1));
    // Strides of axes of one element, or of no elements, do not matter.
    CHECK(view_as<Eigen::TensorMap<RowFour>>(tensor_view(rows.data(), {1, 3, 1, 5}, {-9, 5, 77, 1})).size() == 15);
    CHECK(view_as<Eigen::TensorMap<RowFour>>(tensor_view(rows.data(), {2, 0, 3, 5}, {-9, 5, 77, 1})).size() == 0);
}

TEST_CASE("a view that a TensorMap cannot be is refused") {
    tensor<float> x({2, 3, 4, 5});
    CHECK(refusal([&] { (void)view_as<Eigen::TensorMap<Four>>(x); }) ==
          "view (2, 3, 4, 5) with strides (60, 20, 5, 1): a dense column-major tensor's are (1, 2, 6, 24)");
    CHECK(refusal([&] {
              (void)view_as<Eigen::TensorMap<RowFour>>(tensor_view(x.data(), {2, 3, 4, 4}, {60, 20, 5, 1}));
          }) == "view (2, 3, 4, 4) with strides (60, 20, 5, 1): a dense row-major tensor's are (48, 16, 4, 1)");
    CHECK(refusal([&] { (void)view_as<Eigen::TensorMap<Eigen::Tensor<float, 3, Eigen::RowMajor>>>(x); }) ==
          "view (2, 3, 4, 5) has extent 2 at axis 0; to be seen as 3 axes it must be 1");
}

TEST_CASE("memory that is not aligned as an aligned TensorMap promises is refused: it would crash") {
    tensor<float> x({1, 1, 4, 4});  // 64-byte aligned
    using aligned = Eigen::TensorMap<Eigen::Tensor<float, 2, Eigen::RowMajor>, Eigen::Aligned16>;
    using any = Eigen::TensorMap<Eigen::Tensor<float, 2, Eigen::RowMajor>>;
    const auto at = [&](std::ptrdiff_t offset, std::ptrdiff_t rows) {
        return tensor_view<float>(x.data() + offset, {1, 1, rows, 4});
    };
    CHECK(refusal([&] { (void)view_as<aligned>(at(1, 3)); }) ==
          "view (1, 1, 3, 4): its data is not aligned to 16 bytes, as the map's is");
    CHECK(view_as<aligned>(at(4, 3)).data() == x.data() + 4);
    CHECK(view_as<aligned>(at(1, 0)).size() == 0);
    CHECK(view_as<any>(at(1, 3)).data() == x.data() + 1);
}

TEST_CASE("products straight from Eigen's matrices and tensors") {
    const Eigen::MatrixXd a = Eigen::MatrixXd::Random(7, 5), b = Eigen::MatrixXd::Random(5, 9);
    Eigen::MatrixXd c(7, 9);
    einsum("ij,jk->ik", view_of(a), view_of(b), view_of(c));
    CHECK((c - a * b).cwiseAbs().maxCoeff() < 1e-14);

    Eigen::Tensor<double, 3> x(2, 3, 4), y(2, 4, 5), z(2, 3, 5);
    x.setRandom(), y.setRandom();
    einsum("bij,bjk->bik", view_of(x), view_of(y), view_of(z));
    double sum = 0;
    for (Eigen::Index j = 0; j < 4; ++j) sum += x(1, 2, j) * y(1, j, 3);
    CHECK(std::abs(z(1, 2, 3) - sum) < 1e-14);
}
