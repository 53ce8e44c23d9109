// Views of spans and of tensors lent by other libraries: std::mdspan and what resembles it, DLPack.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

#include <doctest/doctest.h>
#include <headwise/interop.hpp>

#include "interop.hpp"

using namespace headwise;
using test::is, test::refusal, test::seen_as, test::viewed;

namespace {

/// As much of std::mdspan as headwise looks at, for libraries that do not have it: the same names and types.
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

/// The same with another index_type.
template <class Index, std::size_t... Extents>
class extents_of : public extents<Extents...> {
public:
    using index_type = Index;
    using extents<Extents...>::extents;
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
    constexpr std::size_t stride(std::size_t axis) const requires(Extents::rank() > 0)  // as libc++ has it
    {
        return mapping_.steps[axis];
    }
    constexpr bool is_strided() const { return mapping_.strided; }
    constexpr Element* const& data_handle() const { return data_; }

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

template <class Scalar>
concept lent = requires(const dl::Tensor& x) {
    view_of<Scalar>(x);
};

}  // namespace

// What owns its memory must have a name; what does not may be a temporary. Expressions have no memory.
static_assert(viewed<stand_in::of_four<float>> && viewed<stand_in::of_four<const double>&> &&
              viewed<stand_in::of<int, 2>>);
static_assert(!viewed<stand_in::of<float, 1, 2, 3, 4, 5>> && !viewed<int&> && !viewed<std::vector<float>&>);
static_assert(!viewed<stand_in::mdspan<float, stand_in::extents<2>, float>>);  // an accessor that gives no references
static_assert(!viewed<dl::Tensor&> && lent<float> && lent<const double> && lent<Eigen::half> && !lent<std::string>);

// Constness is kept, and not cast away.
static_assert(std::is_same_v<decltype(view_of(std::declval<stand_in::of<const int, 2>>())), tensor_view<const int>>);
static_assert(seen_as<stand_in::of_four<float>, tensor<float>&> && !seen_as<stand_in::of_four<float>, tensor<float>>);
static_assert(!seen_as<stand_in::of_four<float>, const tensor<float>&> &&
              seen_as<stand_in::of_four<const float>, tensor<float>&>);

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

TEST_CASE("an mdspan without axes is one element") {
    using namespace stand_in;
    float x = 7;
    const auto view = view_of(of<float>(&x, {}));
    CHECK(is(view, &x, {1, 1, 1, 1}, {1, 1, 1, 1}));
    CHECK(is(view_of(view_as<of<float>>(view)), &x, {1, 1, 1, 1}, {1, 1, 1, 1}));
}

TEST_CASE("what an mdspan's index_type does not hold is refused: an extent, a stride, the furthest element") {
    using namespace stand_in;
    tensor<std::int8_t> x({1, 1, 1, 1000});
    const auto refused = [&]<class Index>(Index, const shape4& shape, const strides4& strides) {
        using target = mdspan<std::int8_t, extents_of<Index, dynamic, dynamic, dynamic, dynamic>>;
        return refusal([&] { (void)view_as<target>(tensor_view(x.data(), shape, strides)); });
    };
    const std::string fits = "nothing was refused";
    CHECK(refused(std::int8_t{}, {1, 1, 1, 127}, {127, 127, 127, 1}) == fits);
    CHECK(refused(std::int8_t{}, {1, 1, 1, 128}, {128, 128, 128, 1}) ==
          "view (1, 1, 1, 128): an extent, a stride or the furthest element is beyond the mdspan's index_type, of 8 "
          "bits");
    CHECK(refused(std::uint8_t{}, {1, 1, 1, 128}, {128, 128, 128, 1}) == fits);
    CHECK(refused(std::int8_t{}, {1, 1, 2, 3}, {1, 1, 124, 1}) == fits);  // 124 + 2 + 1
    CHECK(refused(std::int8_t{}, {1, 1, 2, 3}, {1, 1, 125, 1}) != fits);
    CHECK(refused(std::int8_t{}, {1, 1, 2, 1}, {1, 1, 128, 1}) != fits);
    CHECK(refused(std::int8_t{}, {1, 1, 1, 3}, {500, 500, 500, 1}) == fits);  // along one element no step is taken
    CHECK(refused(std::int8_t{}, {0, 1, 1, 128}, {1, 1, 1, 1}) != fits);
    CHECK(refused(std::int8_t{}, {0, 1, 1, 3}, {1, 1, 1, 1}) == fits);
}

#if defined(__cpp_lib_mdspan)
TEST_CASE("std::mdspan") {
    tensor<float> x({2, 3, 4, 5});
    using strided = std::mdspan<float, std::dextents<std::ptrdiff_t, 4>, std::layout_stride>;
    CHECK(is(view_of(view_as<strided>(x)), x.data(), {2, 3, 4, 5}, {60, 20, 5, 1}));
    CHECK(is(view_of(std::mdspan(x.data(), 6, 20)), x.data(), {1, 1, 6, 20}, {1, 1, 20, 1}));
    using left = std::mdspan<const float, std::extents<int, 3, 2>, std::layout_left>;
    CHECK(is(view_of(left(x.data())), x.data(), {1, 1, 3, 2}, {1, 1, 1, 3}));
    using one = std::mdspan<float, std::extents<int>, std::layout_stride>;
    const tensor_view<float> first(x.data(), {1, 1, 1, 1});
    CHECK(is(view_of(view_as<one>(first)), x.data(), {1, 1, 1, 1}, {1, 1, 1, 1}));
    tensor<float> larger({2, 3, 5, 5});
    using small = std::mdspan<float, std::dextents<std::int8_t, 4>, std::layout_stride>;
    CHECK(refusal([&] { (void)view_as<small>(larger); }) != "nothing was refused");
    CHECK(
        is(view_of(view_as<small>(tensor_view<float>(x.data(), {1, 2, 4, 5}))), x.data(), {1, 2, 4, 5}, {1, 20, 5, 1}));
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
