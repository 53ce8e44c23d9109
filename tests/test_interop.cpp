#include <headwise/interop.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

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

#include "reference.hpp"

using namespace headwise;

namespace {

/// As much of std::mdspan as headwise looks at, for libraries that do not have it: the same names and signatures.
namespace stand_in {

inline constexpr std::size_t dynamic = static_cast<std::size_t>(-1);

template <std::size_t... Extents>
class extents {
public:
    using index_type = std::size_t;
    using size_type = std::size_t;
    using rank_type = std::size_t;
    constexpr extents() : values_{(Extents == dynamic ? 0 : Extents)...} {}
    template <class Index>
    explicit constexpr extents(const std::array<Index, sizeof...(Extents)>& values) {
        for (std::size_t i = 0; i < sizeof...(Extents); ++i) values_[i] = static_cast<std::size_t>(values[i]);
    }
    static constexpr std::size_t rank() { return sizeof...(Extents); }
    static constexpr std::size_t static_extent(std::size_t axis) {
        return std::array<std::size_t, sizeof...(Extents)>{Extents...}[axis];
    }
    constexpr std::size_t extent(std::size_t axis) const { return values_[axis]; }

private:
    std::array<std::size_t, sizeof...(Extents)> values_;
};

template <class Extents>
struct strided_mapping {
    using extents_type = Extents;
    Extents sizes{};
    std::array<std::size_t, Extents::rank()> steps{};
    bool strided = true;
    constexpr strided_mapping() = default;
    template <class Index>
    constexpr strided_mapping(const Extents& e, const std::array<Index, Extents::rank()>& s) : sizes(e) {
        for (std::size_t i = 0; i < Extents::rank(); ++i) steps[i] = static_cast<std::size_t>(s[i]);
    }
};

template <class Element, class Extents, class Reference = Element&>
class mdspan {
public:
    using element_type = Element;
    using reference = Reference;
    using extents_type = Extents;
    using mapping_type = strided_mapping<Extents>;
    constexpr mdspan(Element* data, const mapping_type& mapping) : data_(data), mapping_(mapping) {}
    static constexpr std::size_t rank() { return Extents::rank(); }
    static constexpr std::size_t static_extent(std::size_t axis) { return Extents::static_extent(axis); }
    constexpr std::size_t extent(std::size_t axis) const { return mapping_.sizes.extent(axis); }
    constexpr std::size_t stride(std::size_t axis) const { return mapping_.steps[axis]; }
    constexpr bool is_strided() const { return mapping_.strided; }
    constexpr Element* data_handle() const { return data_; }

private:
    Element* data_;
    mapping_type mapping_;
};

template <class Element, std::size_t... Extents>
using of = mdspan<Element, extents<Extents...>>;
template <class Element>
using of_four = of<Element, dynamic, dynamic, dynamic, dynamic>;

}  // namespace stand_in

/// DLPack's structures (version 1), member by member.
namespace dl {
enum DeviceType : std::int32_t { cpu = 1, cuda = 2 };
struct Device {
    DeviceType device_type;
    std::int32_t device_id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;
    std::uint64_t byte_offset;
};
}  // namespace dl

template <class T>
concept viewed = requires(T&& x) {
    view_of(std::forward<T>(x));
};
template <class Target, class T>
concept seen_as = requires(T&& x) {
    view_as<Target>(std::forward<T>(x));
};
template <class Scalar>
concept lent = requires(const dl::Tensor& x) {
    view_of<Scalar>(x);
};

template <class Body>
std::string refusal(const Body& body) {
    try {
        body();
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "nothing was refused";
}

template <class Scalar>
bool is(const tensor_view<Scalar>& view, const void* data, const shape4& shape, const strides4& strides) {
    return view.data() == data && view.shape() == shape && view.strides() == strides;
}

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
static_assert(viewed<stand_in::of_four<float>> && viewed<stand_in::of_four<const double>&> &&
              viewed<stand_in::of<int, 2>>);
static_assert(!viewed<stand_in::of<float, 1, 2, 3, 4, 5>> && !viewed<int&> && !viewed<std::vector<float>&>);
static_assert(!viewed<stand_in::mdspan<float, stand_in::extents<2>, float>>);  // an accessor that gives no references
static_assert(!viewed<dl::Tensor&> && lent<float> && lent<const double> && lent<Eigen::half> && !lent<std::string>);

// Constness is kept, and not cast away.
static_assert(std::is_same_v<decltype(view_of(std::declval<Matrix&>())), tensor_view<float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<const Matrix&>())), tensor_view<const float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<Eigen::Map<const Matrix>>())), tensor_view<const float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<const Four&>())), tensor_view<const float>>);
static_assert(
    std::is_same_v<decltype(view_of(std::declval<Eigen::TensorMap<const Four>>())), tensor_view<const float>>);
static_assert(std::is_same_v<decltype(view_of(std::declval<stand_in::of<const int, 2>>())), tensor_view<const int>>);
static_assert(seen_as<Eigen::TensorMap<RowFour>, tensor<float>&> &&
              seen_as<Eigen::TensorMap<Four>, tensor_view<float>>);
static_assert(!seen_as<Eigen::TensorMap<RowFour>, tensor<float>> &&
              !seen_as<Eigen::TensorMap<Four>, const tensor<float>&>);
static_assert(seen_as<Eigen::TensorMap<const Four>, const tensor<float>&> && !seen_as<Four, tensor<float>&>);
static_assert(!seen_as<Eigen::TensorMap<Four>, tensor<double>&>);
static_assert(!seen_as<Eigen::TensorMap<Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>>>, tensor<float>&>);
static_assert(seen_as<stand_in::of_four<float>, tensor<float>&> && !seen_as<stand_in::of_four<float>, tensor<float>>);
static_assert(!seen_as<stand_in::of_four<float>, const tensor<float>&> &&
              seen_as<stand_in::of_four<const float>, tensor<float>&>);

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

TEST_CASE("mdspan: there and back, of every rank, with its strides") {
    using namespace stand_in;
    tensor<float> x({2, 3, 4, 5});
    using four = of_four<float>;
    const tensor_view<float> permuted(x.data(), {2, 4, 3, 5}, {60, 5, 20, 1});
    const auto span = view_as<four>(permuted);
    CHECK(is(view_of(span), x.data(), {2, 4, 3, 5}, {60, 5, 20, 1}));
    CHECK(is(view_of(view_as<four>(x)), x.data(), {2, 3, 4, 5}, {60, 20, 5, 1}));
    CHECK(is(view_of(of<const float, dynamic, 3>(x.data(), {extents<dynamic, 3>(std::array{2, 3}), std::array{9, 2}})),
             x.data(), {1, 1, 2, 3}, {1, 1, 9, 2}));

    const auto fixed = view_as<of<float, 4, dynamic>>(tensor_view(x.data(), {1, 1, 4, 5}, {0, -9, 10, 2}));
    CHECK(fixed.extent(0) == 4);
    CHECK(fixed.extent(1) == 5);
    CHECK(fixed.stride(0) == 10);
    CHECK(fixed.stride(1) == 2);
    // Axes of one element, and empty views: the strides become ones that an mdspan may have.
    const auto ones = view_as<four>(tensor_view(x.data(), {1, 3, 1, 5}, {-7, 20, 0, 1}));
    CHECK(is(view_of(ones), x.data(), {1, 3, 1, 5}, {1, 20, 1, 1}));
    const auto none = view_as<four>(tensor_view(x.data(), {2, 0, 3, 5}, {-7, 0, 0, 0}));
    CHECK(is(view_of(none), x.data(), {2, 0, 3, 5}, {15, 15, 5, 1}));
}

TEST_CASE("what an mdspan cannot be is refused") {
    using namespace stand_in;
    tensor<float> x({2, 3, 4, 5});
    const auto refused = [&](const shape4& shape, const strides4& strides) {
        return refusal([&] { (void)view_as<of_four<float>>(tensor_view(x.data() + 60, shape, strides)); });
    };
    CHECK(refused({2, 3, 4, 1}, {0, 5, 20, 1}) ==
          "view (2, 3, 4, 1) with strides (0, 5, 20, 1): an mdspan's are positive, and do not interlock");
    CHECK(refused({1, 3, 4, 2}, {60, 20, -5, 1}).find("positive") != std::string::npos);
    CHECK(refused({1, 3, 4, 2}, {60, 8, 2, 1}) == "nothing was refused");
    CHECK(refused({1, 3, 4, 2}, {60, 7, 2, 1}).find("interlock") != std::string::npos);
    CHECK(refused({1, 3, 4, 2}, {60, 2, 7, 1}) == "nothing was refused");
    CHECK(refused({1, 3, 4, 2}, {60, 2, 5, 1}).find("interlock") != std::string::npos);
    CHECK(refused({1, 3, 3, 1}, {60, 5, 5, 1}).find("interlock") != std::string::npos);
    CHECK(refusal([&] { (void)view_as<of<float, dynamic, dynamic>>(x); }) ==
          "view (2, 3, 4, 5) has extent 2 at axis 0; to be seen as 2 axes it must be 1");
    CHECK(refusal([&] { (void)view_as<of<float, dynamic, 2, dynamic, dynamic>>(x); }) ==
          "view (2, 3, 4, 5) has extent 3 at axis 1; the mdspan's is 2");
    of<float, 2>::mapping_type unstrided;
    unstrided.strided = false;
    CHECK(refusal([&] { (void)view_of(of<float, 2>(x.data(), unstrided)); }) ==
          "mdspan: its layout is not one of strides");
}

#if defined(__cpp_lib_mdspan)
TEST_CASE("std::mdspan") {
    tensor<float> x({2, 3, 4, 5});
    using strided = std::mdspan<float, std::dextents<std::ptrdiff_t, 4>, std::layout_stride>;
    CHECK(is(view_of(view_as<strided>(x)), x.data(), {2, 3, 4, 5}, {60, 20, 5, 1}));
    CHECK(is(view_of(std::mdspan(x.data(), 6, 20)), x.data(), {1, 1, 6, 20}, {1, 1, 20, 1}));
    using left = std::mdspan<const float, std::extents<int, 3, 2>, std::layout_left>;
    CHECK(is(view_of(left(x.data())), x.data(), {1, 1, 3, 2}, {1, 1, 1, 3}));
}
#endif

TEST_CASE("a DLTensor: dense or with strides, offset, of every type it may have") {
    alignas(16) double memory[60] = {};
    std::int64_t shape[4] = {2, 3, 2, 5}, strides[4] = {30, 10, 5, 1};
    dl::Tensor x{memory, {dl::cpu, 0}, 4, {2, 64, 1}, shape, strides, 0};
    CHECK(is(view_of<double>(x), memory, {2, 3, 2, 5}, {30, 10, 5, 1}));
    x.strides = nullptr;
    CHECK(is(view_of<const double>(x), memory, {2, 3, 2, 5}, {30, 10, 5, 1}));
    strides[0] = 7, strides[1] = -2;
    x.strides = strides, x.ndim = 2, x.byte_offset = 32;
    CHECK(is(view_of<double>(x), memory + 4, {1, 1, 2, 3}, {1, 1, 7, -2}));
    x.ndim = 0, x.shape = nullptr, x.strides = nullptr;
    CHECK(is(view_of<double>(x), memory + 4, {1, 1, 1, 1}, {1, 1, 1, 1}));

    std::int64_t none[2] = {0, 3};
    dl::Tensor empty{nullptr, {dl::cpu, 0}, 2, {2, 32, 1}, none, nullptr, 64};
    CHECK(is(view_of<float>(empty), nullptr, {1, 1, 0, 3}, {1, 1, 1, 1}));

    const auto takes = [&]<class Scalar>(Scalar, int code, int bits) {
        dl::Tensor one{memory, {dl::cpu, 0}, 0, {std::uint8_t(code), std::uint8_t(bits), 1}, nullptr, nullptr, 0};
        return view_of<Scalar>(one).size() == 1;
    };
    CHECK(takes(float{}, 2, 32));
    CHECK(takes(Eigen::half{}, 2, 16));
    CHECK(takes(Eigen::bfloat16{}, 4, 16));
    CHECK(takes(std::int8_t{}, 0, 8));
    CHECK(takes(std::uint64_t{}, 1, 64));
    CHECK(takes(bool{}, 6, 8));
}

TEST_CASE("a DLTensor that cannot be viewed is refused, and why") {
    alignas(16) float memory[60] = {};
    std::int64_t shape[5] = {2, 3, 2, 5, 1};
    const dl::Tensor good{memory, {dl::cpu, 0}, 4, {2, 32, 1}, shape, nullptr, 0};
    const auto says = [&](const auto& change) {
        dl::Tensor x = good;
        change(x);
        return refusal([&] { (void)view_of<float>(x); });
    };
    CHECK(says([](auto&) {}) == "nothing was refused");
    CHECK(says([](auto& x) { x.device.device_type = dl::cuda; }) ==
          "DLTensor: its memory is of device type 2, must be the CPU's, 1");
    CHECK(says([](auto& x) { x.dtype.bits = 64; }) == "DLTensor: its elements are float64, asked for as float32");
    CHECK(says([](auto& x) { x.dtype.code = 0; }) == "DLTensor: its elements are int32, asked for as float32");
    CHECK(says([](auto& x) { x.dtype.lanes = 4; }) == "DLTensor: its elements are float32x4, asked for as float32");
    CHECK(says([](auto& x) {
              x.dtype = {17, 8, 1};
          }) == "DLTensor: its elements are code 17 of bits 8, asked for as float32");
    CHECK(says([](auto& x) { x.ndim = 5; }) == "DLTensor: it has 5 axes, must be 0 to 4");
    CHECK(says([](auto& x) { x.ndim = -1; }) == "DLTensor: it has -1 axes, must be 0 to 4");
    CHECK(says([](auto& x) { x.shape = nullptr; }) == "DLTensor: its shape is null");
    CHECK(says([](auto& x) { x.byte_offset = 2; }) == "DLTensor: its data is not aligned to 4 bytes");
    CHECK(says([](auto& x) { x.data = nullptr; }) == "shape (2, 3, 2, 5): data is null, the shape is not empty");
    CHECK(says([&](auto& x) {
              shape[0] = shape[1] = std::int64_t{1} << 62;
              x.byte_offset = 0;
          }) == "shape (4611686018427387904, 4611686018427387904, 2, 5): the size in bytes overflows ptrdiff_t");
    shape[0] = 2, shape[1] = -3;
    CHECK(says([](auto&) {}) == "shape (2, -3, 2, 5): every extent must be >= 0");
    dl::Tensor sixteen = good;
    sixteen.dtype = {2, 16, 1};
    CHECK(refusal([&] { (void)view_of<Eigen::bfloat16>(sixteen); }) ==
          "DLTensor: its elements are float16, asked for as bfloat16");
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
