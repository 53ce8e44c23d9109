#include <headwise/tensor.hpp>

#include <functional>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>

using namespace headwise;

namespace {

constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();

template <class T>
std::string printed(const T& value) {
    std::ostringstream os;
    os << value;
    return os.str();
}

template <class To, class From>
concept converts = std::is_convertible_v<From, To> || std::is_constructible_v<To, From>;
template <class T>
concept gives_view = requires(T&& t) {
    std::forward<T>(t).view();
};
template <class T>
concept gives_head = requires(T&& t) {
    std::forward<T>(t).head(0, 0);
};
template <class T>
concept taken_as_view = requires(T&& t) {
    as_view(std::forward<T>(t));
};

}  // namespace

// A view is a value of nine words.
static_assert(std::is_trivially_copyable_v<tensor_view<float>> &&
              std::is_trivially_copyable_v<tensor_view<const double>>);
static_assert(sizeof(tensor_view<float>) == sizeof(float*) + 8 * sizeof(std::ptrdiff_t));
static_assert(std::is_nothrow_default_constructible_v<tensor_view<float>>);

// T -> const T, and no other way.
static_assert(converts<tensor_view<const float>, tensor_view<float>>);
static_assert(!converts<tensor_view<float>, tensor_view<const float>>);
static_assert(!converts<tensor_view<const double>, tensor_view<float>>);
static_assert(!converts<tensor_view<double>, tensor_view<float>>);
static_assert(converts<tensor_view<float>, tensor<float>&> && converts<tensor_view<const float>, tensor<float>&>);
static_assert(converts<tensor_view<const float>, const tensor<float>&>);
static_assert(!converts<tensor_view<float>, const tensor<float>&>);

// No view of a temporary.
static_assert(!converts<tensor_view<float>, tensor<float>> && !converts<tensor_view<const float>, tensor<float>>);
static_assert(!converts<tensor_view<const float>, const tensor<float>>);
static_assert(gives_view<tensor<float>&> && gives_view<const tensor<float>&>);
static_assert(!gives_view<tensor<float>> && !gives_view<const tensor<float>>);
static_assert(gives_head<tensor<float>&> && gives_head<const tensor<float>&> && gives_head<tensor_view<float>>);
static_assert(!gives_head<tensor<float>> && !gives_head<const tensor<float>>);
static_assert(taken_as_view<tensor<float>&> && taken_as_view<const tensor<float>&> &&
              taken_as_view<tensor_view<float>>);
static_assert(!taken_as_view<tensor<float>> && !taken_as_view<const tensor<float>>);

// The shape of a temporary, and the strides of a temporary view, outlive it: for (auto e : f().shape()).
static_assert(std::is_same_v<decltype(std::declval<tensor<float>>().shape()), shape4> &&
              std::is_same_v<decltype(std::declval<const tensor<float>>().shape()), shape4> &&
              std::is_same_v<decltype(std::declval<tensor<float>&>().shape()), const shape4&>);
static_assert(std::is_same_v<decltype(std::declval<tensor_view<float>>().shape()), shape4> &&
              std::is_same_v<decltype(std::declval<tensor_view<float>>().strides()), strides4> &&
              std::is_same_v<decltype(std::declval<const tensor_view<float>&>().shape()), const shape4&> &&
              std::is_same_v<decltype(std::declval<const tensor_view<float>&>().strides()), const strides4&>);

// The concepts that the operations state.
static_assert(tensor_like<tensor<float>> && tensor_like<const tensor<float>> && tensor_like<tensor_view<const double>>);
static_assert(!tensor_like<float*> && !tensor_like<std::vector<float>>);
static_assert(same_scalar<tensor<double>, tensor_view<const double>> && !same_scalar<tensor<float>, tensor<double>>);
static_assert(same_scalar<tensor<Eigen::half>, tensor<Eigen::half>> && !same_scalar<tensor<int>, tensor<int>>);
static_assert(std::is_same_v<scalar_of<const tensor<float>>, float>);
static_assert(std::is_same_v<scalar_of<tensor_view<const double>>, double>);
static_assert(same_scalar<tensor<float>, tensor_view<const float>> && !same_scalar<tensor<float>, tensor<double>>);
static_assert(output_for<tensor<float>&, float> && output_for<const tensor_view<float>, float>);
static_assert(!output_for<tensor<float>, float> && !output_for<const tensor<float>, float>);  // lost with the temporary
static_assert(!output_for<const tensor<float>&, float> && !output_for<tensor_view<const float>, float>);
static_assert(!output_for<tensor<double>&, float>);

// Owners move without copying and copy without sharing.
static_assert(std::is_nothrow_move_constructible_v<tensor<float>> && std::is_nothrow_move_assignable_v<tensor<float>>);

static_assert(detail::product_or_negative(huge, 1) == huge && detail::product_or_negative(huge, 0) == 0);
static_assert(detail::product_or_negative(0, huge) == 0 && detail::product_or_negative(huge / 2, 2) == huge - 1);
static_assert(detail::product_or_negative(huge / 2 + 1, 2) == -1 && detail::product_or_negative(2, huge / 2 + 1) == -1);
static_assert(detail::product_or_negative(3037000499, 3037000499) == 9223372030926249001);
static_assert(detail::product_or_negative(3037000500, 3037000500) == -1);
static_assert(detail::product_or_negative(std::ptrdiff_t{1} << 32, std::ptrdiff_t{1} << 32) == -1);
static_assert(detail::product_or_negative(-1, 1) == -1 && detail::product_or_negative(1, -1) == -1);
static_assert(detail::product_or_negative(-5, huge) == -1 && detail::product_or_negative(0, -1) == -1);

TEST_CASE("a dense view is row-major and knows its strides") {
    std::vector<float> data(120);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    const tensor_view<float> view(data.data(), {2, 3, 4, 5});
    CHECK(view.shape() == shape4{2, 3, 4, 5});
    CHECK(view.strides() == strides4{60, 20, 5, 1});
    CHECK(view.size() == 120);
    CHECK(view(1, 2, 3, 4) == 119);
    CHECK(view(1, 0, 2, 3) == 73);
    view(0, 1, 0, 0) = -1;
    CHECK(data[20] == -1);
}

TEST_CASE("a (b, l, h, d) buffer seen as (b, h, l, d), reversed and repeated, without a copy") {
    std::vector<int> data(120);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i);
    const tensor_view permuted(data.data(), {2, 3, 4, 5}, {60, 5, 15, 1});
    CHECK(permuted(1, 2, 3, 4) == 60 + 10 + 45 + 4);
    const tensor_view reversed(data.data() + 119, {2, 3, 4, 5}, {-60, -20, -5, -1});
    CHECK(reversed(0, 0, 0, 0) == 119);
    CHECK(reversed(1, 2, 3, 4) == 0);
    const tensor_view repeated(data.data(), {7, 3, 4, 5}, {0, 20, 5, 1});
    CHECK(repeated(6, 2, 3, 4) == 59);
}

TEST_CASE("head(b, h) is the (l, d) matrix over the same memory, for any strides") {
    auto values = randn<double>({2, 3, 4, 5}, 1);
    values.head(1, 2)(3, 4) = 7;
    CHECK(values(1, 2, 3, 4) == 7);
    const tensor_view backwards(&values(1, 2, 3, 4), {2, 3, 4, 5}, {-60, -20, -5, -1});
    const tensor_view transposed(values.data(), {2, 3, 5, 4}, {60, 20, 1, 5});
    const tensor_view repeated(values.data(), {2, 3, 4, 5}, {60, 20, 0, 0});
    CHECK(backwards.head(1, 2) == values.head(0, 0).reverse());
    CHECK(transposed.head(1, 1) == values.head(1, 1).transpose());
    CHECK((repeated.head(1, 0).array() == values(1, 0, 0, 0)).all());
    CHECK(std::as_const(values).head(0, 1).sum() == doctest::Approx(values.view().contiguous_head(0, 1).sum()));
}

TEST_CASE("rows are contiguous when d has stride 1 or nothing to step to") {
    const auto values = randn<float>({2, 3, 4, 5}, 1);
    const auto seen = [&](const shape4& shape, const strides4& strides) {
        return tensor_view(values.data(), shape, strides);
    };
    CHECK(values.view().has_contiguous_rows());
    CHECK(seen({2, 3, 4, 5}, {60, 5, 15, 1}).has_contiguous_rows());
    CHECK(seen({2, 3, 4, 1}, {60, 20, 5, 9}).has_contiguous_rows());
    CHECK(seen({2, 3, 4, 0}, {60, 20, 5, 9}).has_contiguous_rows());
    CHECK_FALSE(seen({2, 3, 4, 2}, {60, 20, 5, 2}).has_contiguous_rows());
    CHECK_FALSE(seen({2, 3, 4, 2}, {60, 20, 5, 0}).has_contiguous_rows());
    CHECK(seen({1, 2, 2, 2}, {60, 20, 10, 1}).contiguous_head(0, 1) == seen({1, 2, 2, 2}, {60, 20, 10, 1}).head(0, 1));
}

TEST_CASE("an empty view may be null, may have any strides, and still gives heads") {
    CHECK(tensor_view<float>().size() == 0);
    CHECK(tensor_view<float>().shape() == shape4{0, 0, 0, 0});
    const tensor_view<float> no_depth(nullptr, {2, 3, 4, 0}, {huge, huge, huge, huge});
    CHECK(no_depth.size() == 0);
    CHECK(no_depth.head(1, 2).rows() == 4);
    CHECK(no_depth.head(1, 2).data() == nullptr);
    const tensor_view<float> no_batch(nullptr, {0, huge, huge, huge});
    CHECK(no_batch.size() == 0);
    CHECK(tensor<float>({huge, huge, huge, 0}).size() == 0);
    CHECK(tensor<float>({huge, huge, huge, 0}).data() == nullptr);
}

TEST_CASE("an owner is zeroed, 64-byte aligned, and a value") {
    tensor<float> a({2, 3, 4, 5});
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
    CHECK(std::all_of(a.data(), a.data() + a.size(), [](float x) { return x == 0; }));
    CHECK(a.strides() == a.view().strides());
    a(1, 2, 3, 4) = 1;
    tensor<float> b = a;
    b(0, 0, 0, 0) = 2;
    CHECK(a(0, 0, 0, 0) == 0);
    CHECK(b(1, 2, 3, 4) == 1);

    const float* const memory = b.data();
    tensor<float> c = std::move(b);
    CHECK(c.data() == memory);
    CHECK(c.shape() == shape4{2, 3, 4, 5});
    a = std::move(c);
    CHECK(a.data() == memory);
    a = tensor<float>();
    CHECK(a.size() == 0);
    const tensor<float>& same = a = randn<float>({1, 1, 2, 2}, 3);
    a = same;
    CHECK(a(0, 0, 1, 1) == randn<float>({1, 1, 2, 2}, 3)(0, 0, 1, 1));
}

TEST_CASE("what a view or an owner refuses, each with shape and rule") {
    float x = 0;
    struct fault {
        std::function<void()> call;
        const char* message;
    };
    const auto view = [](float* data, const shape4& shape) { return [=] { (void)tensor_view<float>(data, shape); }; };
    const auto strided = [&x](const shape4& shape, const strides4& strides) {
        return [&x, shape, strides] { (void)tensor_view<float>(&x, shape, strides); };
    };
    const auto owner = [](const shape4& shape) { return [shape] { (void)tensor<float>(shape); }; };
    const std::ptrdiff_t half = std::ptrdiff_t{1} << 31, most = huge / 4;
    const fault faults[] = {
        {view(&x, {-1, 1, 1, 1}), "shape (-1, 1, 1, 1): every extent must be >= 0"},
        {view(&x, {1, -2, 1, 1}), "shape (1, -2, 1, 1): every extent must be >= 0"},
        {view(&x, {1, 1, -3, 1}), "shape (1, 1, -3, 1): every extent must be >= 0"},
        {view(&x, {0, 1, 1, -4}), "shape (0, 1, 1, -4): every extent must be >= 0"},
        {view(nullptr, {2, 3, 4, 5}), "shape (2, 3, 4, 5): data is null, the shape is not empty"},
        {view(&x, {1, 1, half, half}), "shape (1, 1, 2147483648, 2147483648): the size in bytes overflows ptrdiff_t"},
        {view(&x, {2, 3, 4, huge}), "shape (2, 3, 4, 9223372036854775807): the size in bytes overflows ptrdiff_t"},
        {strided({-1, 1, 1, 1}, {1, 1, 1, 1}), "shape (-1, 1, 1, 1): every extent must be >= 0"},
        {strided({1, 1, half, half}, {0, 0, 0, 0}),
         "shape (1, 1, 2147483648, 2147483648): the size in bytes overflows ptrdiff_t"},
        {strided({2, 1, 1, 1}, {most + 1, 1, 1, 1}),
         "shape (2, 1, 1, 1) with strides (2305843009213693952, 1, 1, 1): the furthest element lies beyond ptrdiff_t"},
        {strided({2, 1, 1, 1}, {-huge - 1, 1, 1, 1}),
         "shape (2, 1, 1, 1) with strides (-9223372036854775808, 1, 1, 1): the furthest element lies beyond ptrdiff_t"},
        {strided({1, 3, 1, 1}, {1, most / 2 + 1, 1, 1}),
         "shape (1, 3, 1, 1) with strides (1, 1152921504606846976, 1, 1): the furthest element lies beyond ptrdiff_t"},
        {strided({1, 1, 2, 2}, {1, 1, most, 1}),
         "shape (1, 1, 2, 2) with strides (1, 1, 2305843009213693951, 1): the furthest element lies beyond ptrdiff_t"},
        {owner({2, -3, 4, 5}), "shape (2, -3, 4, 5): every extent must be >= 0"},
        {owner({1, half, half, 2}), "shape (1, 2147483648, 2147483648, 2): the size in bytes overflows ptrdiff_t"},
        {[] {
             (void)randn<double>({huge, huge, 1, 1}, 1);
         },
         "shape (9223372036854775807, 9223372036854775807, 1, 1): the size in bytes overflows ptrdiff_t"},
    };
    for (const fault& f : faults) CHECK_THROWS_WITH_AS(f.call(), f.message, std::invalid_argument);

    CHECK_NOTHROW(strided({2, 1, 1, 1}, {most, 1, 1, 1})());
    CHECK_NOTHROW(strided({1, 1, 1, 1}, {huge, -huge, huge, -huge - 1})());
}

TEST_CASE("randn gives the same values for the same seed everywhere") {
    // Computed apart from this code: SplitMix64 and the ratio of uniforms in Python.
    const auto a = randn<double>({1, 1, 1, 4}, 0), b = randn<double>({1, 1, 2, 2}, 42);
    const std::vector<double> zero = {-0x1.105991e8411b4p-3, -0x1.648adffaf7c6bp+1, 0x1.21271d2124d2fp+0,
                                      0x1.71ee5a2527cd3p-3};
    const std::vector<double> answer = {-0x1.92d221f91a5f6p-1, -0x1.eb38efbee23c2p-1, 0x1.2e4266c8a7a79p+1,
                                        0x1.32258adcc291dp-1};
    CHECK(std::vector<double>(a.data(), a.data() + 4) == zero);
    CHECK(std::vector<double>(b.data(), b.data() + 4) == answer);
    const auto f = randn<float>({1, 1, 1, 4}, 42);
    for (std::size_t i = 0; i < 4; ++i) CHECK(f.data()[i] == static_cast<float>(answer[i]));

    const auto one = randn<float>({2, 3, 4, 5}, 7), two = randn<float>({2, 3, 4, 5}, 7),
               other = randn<float>({2, 3, 4, 5}, 8);
    CHECK(std::equal(one.data(), one.data() + one.size(), two.data()));
    CHECK_FALSE(std::equal(one.data(), one.data() + one.size(), other.data()));

    detail::splitmix64 random(1234567);
    CHECK(random() == 6457827717110365317u);
    CHECK(random() == 3203168211198807973u);
}

TEST_CASE("randn has the moments of the normal distribution, within five standard errors") {
    constexpr std::ptrdiff_t n = 1 << 20;
    const auto x = randn<double>({1, 1, 1, n}, 12345);
    double moment[5] = {};
    std::ptrdiff_t beyond_two = 0;
    for (std::ptrdiff_t i = 0; i < n; ++i) {
        double power = 1;
        for (double& m : moment) m += power / static_cast<double>(n), power *= x.data()[i];
        beyond_two += std::abs(x.data()[i]) > 2;
    }
    const double error = 5 / std::sqrt(static_cast<double>(n));
    CHECK(std::abs(moment[1]) < error);
    CHECK(std::abs(moment[2] - 1) < error * std::sqrt(2.));
    CHECK(std::abs(moment[3]) < error * std::sqrt(15.));
    CHECK(std::abs(moment[4] - 3) < error * std::sqrt(96.));
    CHECK(std::abs(static_cast<double>(beyond_two) / static_cast<double>(n) - 0.0455003) < error * 0.2085);
}

TEST_CASE("a tensor prints its type, shape, strides and first values") {
    tensor<float> t({2, 3, 8, 16});
    for (std::ptrdiff_t i = 0; i < t.size(); ++i) t.data()[i] = static_cast<float>(i) * 0.5f - 1;
    CHECK(printed(t) == "float tensor (2, 3, 8, 16), strides (384, 128, 16, 1): -1 -0.5 0 0.5 1 1.5 ...");
    CHECK(printed(tensor_view(std::as_const(t).data(), {1, 1, 1, 3}, {0, 0, 0, -0})) ==
          "float tensor (1, 1, 1, 3), strides (0, 0, 0, 0): -1 -1 -1");
    CHECK(printed(tensor_view(t.data() + 2, {1, 1, 2, 3}, {0, 0, 3, -1})) ==
          "float tensor (1, 1, 2, 3), strides (0, 0, 3, -1): 0 -0.5 -1 ...");
    CHECK(printed(tensor<double>({1, 1, 1, 1})) == "double tensor (1, 1, 1, 1), strides (1, 1, 1, 1): 0");
    CHECK(printed(tensor<double>({1, 0, 7, 1})) == "double tensor (1, 0, 7, 1), strides (1, 1, 1, 1): empty");
    CHECK(printed(tensor<int>({1, 1, 1, 2})) == "tensor (1, 1, 1, 2), strides (2, 2, 2, 1): 0 0");
}
