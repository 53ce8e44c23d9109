// Four-dimensional tensors: a view that costs nothing, an owner, and reproducible random values.
//
// The axes are named after their first use, a tensor of queries: b (batch), h (head), l (row), d (depth).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

// GCC 12's AVX-512 intrinsics, inlined by Eigen's products under -march=native, warn of their own undefined values.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <headwise/error.hpp>

namespace headwise {

using shape4 = std::array<std::ptrdiff_t, 4>;    ///< Extents (b, h, l, d), each >= 0.
using strides4 = std::array<std::ptrdiff_t, 4>;  ///< Steps in elements; 0 repeats, a negative one walks backwards.

namespace detail {

inline std::string text_of(const shape4& values) {
    std::string text = "(";
    for (std::size_t axis = 0; axis < 4; ++axis) (text += axis ? ", " : "") += std::to_string(values[axis]);
    return text + ")";
}

/// a * b for non-negative factors, or -1 when the product does not fit `ptrdiff_t`.
constexpr std::ptrdiff_t product_or_negative(std::ptrdiff_t a, std::ptrdiff_t b) noexcept {
    if (a < 0 || b < 0) return -1;
    constexpr int half = std::numeric_limits<std::ptrdiff_t>::digits / 2;
    if ((a | b) >> half == 0) return a * b;  // spares the division, which would cost a small call a tenth of its time
    if (b != 0 && a > std::numeric_limits<std::ptrdiff_t>::max() / b) return -1;
    return a * b;
}

constexpr bool is_empty(const shape4& shape) noexcept {
    return (int{shape[0] == 0} | int{shape[1] == 0} | int{shape[2] == 0} | int{shape[3] == 0}) != 0;  // no branch
}

/// The number of elements of a checked shape. The other extents of an empty one may be of any size: not multiplied.
constexpr std::ptrdiff_t element_count(const shape4& shape) noexcept {
    return is_empty(shape) ? 0 : shape[0] * shape[1] * shape[2] * shape[3];
}

/// The size in bytes of a shape without negative extents, or -1 when it overflows `ptrdiff_t`.
constexpr std::ptrdiff_t bytes_or_negative(const shape4& shape, std::size_t scalar_bytes) noexcept {
    if (is_empty(shape)) return 0;
    std::ptrdiff_t bytes = static_cast<std::ptrdiff_t>(scalar_bytes);
    for (const std::ptrdiff_t extent : shape) bytes = product_or_negative(bytes, extent);
    return bytes;
}

/// The number of elements of a shape. Refuses negative extents and a size in bytes that overflows `ptrdiff_t`.
inline std::ptrdiff_t checked_size(const shape4& shape, std::size_t scalar_bytes) {
    for (const std::ptrdiff_t extent : shape)
        if (extent < 0) refuse(std::string("shape ") + text_of(shape) + ": every extent must be >= 0");
    if (bytes_or_negative(shape, scalar_bytes) < 0)
        refuse(std::string("shape ") + text_of(shape) + ": the size in bytes overflows ptrdiff_t");
    return element_count(shape);
}

constexpr strides4 dense_strides(const shape4& shape) noexcept {
    // An empty tensor has no element to step to; ones keep the products below from overflowing.
    if (is_empty(shape)) return {1, 1, 1, 1};
    return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

}  // namespace detail

/// A non-owning view of a four-dimensional tensor: a pointer, four extents, four strides in elements.
///
/// Trivially copyable; pass it by value. Any strides are allowed: a `(b, l, h, d)` buffer seen as `(b, h, l, d)` costs
/// no copy, stride 0 broadcasts, a negative stride reverses. `data` is the address of element (0,0,0,0) and needs only
/// the alignment of `Scalar`. A view of `T` converts to a view of `const T`, not the other way round. As with
/// `std::span`, the constness of the view is not that of its elements.
template <class Scalar>
class tensor_view {
public:
    using element_type = Scalar;
    using value_type = std::remove_const_t<Scalar>;
    using matrix = Eigen::Matrix<value_type, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using element_matrix = std::conditional_t<std::is_const_v<Scalar>, const matrix, matrix>;
    using head_map = Eigen::Map<element_matrix, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
    using contiguous_head_map = Eigen::Map<element_matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

    /// The empty view, shape (0, 0, 0, 0).
    constexpr tensor_view() noexcept = default;

    /// Dense row-major data. Refuses negative extents, an overflowing size, and a null pointer to a non-empty shape.
    tensor_view(Scalar* data, const shape4& shape) : tensor_view(data, shape, checked_dense_strides(shape)) {}

    /// Any strides. Refuses the same, and strides whose furthest element lies beyond `ptrdiff_t`.
    tensor_view(Scalar* data, const shape4& shape, const strides4& strides)
        : data_(data), shape_(shape), strides_(strides) {
        const std::ptrdiff_t size = detail::checked_size(shape, sizeof(Scalar));
        if (size == 0) return;
        if (data == nullptr)
            detail::refuse(std::string("shape ") + detail::text_of(shape) + ": data is null, the shape is not empty");
        check_reach();
    }

    /// `T` to `const T`.
    template <class Other>
        requires(!std::is_same_v<Other, Scalar> && std::is_same_v<const Other, Scalar>)
    constexpr tensor_view(const tensor_view<Other>& other) noexcept
        : data_(other.data()), shape_(other.shape()), strides_(other.strides()) {}

    [[nodiscard]] constexpr Scalar* data() const noexcept { return data_; }
    /// Of a temporary by value, so that a loop over them reads no memory that is gone.
    [[nodiscard]] constexpr const shape4& shape() const& noexcept { return shape_; }
    [[nodiscard]] constexpr shape4 shape() const&& noexcept { return shape_; }
    [[nodiscard]] constexpr const strides4& strides() const& noexcept { return strides_; }
    [[nodiscard]] constexpr strides4 strides() const&& noexcept { return strides_; }
    [[nodiscard]] constexpr std::ptrdiff_t size() const noexcept { return detail::element_count(shape_); }

    /// Element (b, h, l, d); indices are not checked.
    [[nodiscard]] constexpr Scalar& operator()(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l,
                                               std::ptrdiff_t d) const noexcept {
        return data_[b * strides_[0] + h * strides_[1] + l * strides_[2] + d * strides_[3]];
    }

    /// The (l, d) matrix of one head, as an Eigen map over the same memory; indices are not checked.
    [[nodiscard]] head_map head(std::ptrdiff_t b, std::ptrdiff_t h) const {
        return head_map(head_data(b, h), shape_[2], shape_[3], {strides_[2], strides_[3]});
    }

    /// Is each row, d = 0, 1, ..., one contiguous run?
    [[nodiscard]] constexpr bool has_contiguous_rows() const noexcept { return strides_[3] == 1 || shape_[3] <= 1; }

    /// `head(b, h)` where `has_contiguous_rows()`. Eigen's products work on such a map in place; the operands that may
    /// have a stride along d they copy first.
    [[nodiscard]] contiguous_head_map contiguous_head(std::ptrdiff_t b, std::ptrdiff_t h) const {
        return contiguous_head_map(head_data(b, h), shape_[2], shape_[3], Eigen::OuterStride<>(strides_[2]));
    }

    /// The same elements with the axes in another order: axis i is this view's axis `order[i]`. Not checked: `order` is
    /// a permutation, and the view's own shape and strides have been.
    [[nodiscard]] constexpr tensor_view permuted(const std::array<unsigned char, 4>& order) const noexcept {
        tensor_view result;
        result.data_ = data_;
        result.shape_ = {shape_[order[0]], shape_[order[1]], shape_[order[2]], shape_[order[3]]};
        result.strides_ = {strides_[order[0]], strides_[order[1]], strides_[order[2]], strides_[order[3]]};
        return result;
    }

private:
    template <class>
    friend class tensor;

    /// A tensor's own shape has been checked: not again at every call.
    struct trusted {};
    tensor_view(Scalar* data, const shape4& shape, trusted) noexcept
        : data_(data), shape_(shape), strides_(detail::dense_strides(shape)) {}

    constexpr Scalar* head_data(std::ptrdiff_t b, std::ptrdiff_t h) const noexcept {
        // An empty view has no element to point to, and its data may be null.
        return detail::is_empty(shape_) ? data_ : data_ + b * strides_[0] + h * strides_[1];
    }

    static strides4 checked_dense_strides(const shape4& shape) {
        detail::checked_size(shape, sizeof(Scalar));
        return detail::dense_strides(shape);
    }

    void check_reach() const {
        constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(Scalar);
        std::ptrdiff_t reach = 0;
        for (std::size_t axis = 0; axis < 4; ++axis) {
            if (shape_[axis] == 1) continue;
            const std::ptrdiff_t stride = strides_[axis];
            const std::ptrdiff_t step = stride < -most ? -1 : (stride < 0 ? -stride : stride);
            const std::ptrdiff_t last = detail::product_or_negative(shape_[axis] - 1, step);
            if (last < 0 || last > most - reach)
                detail::refuse(std::string("shape ") + detail::text_of(shape_) + " with strides " +
                               detail::text_of(strides_) + ": the furthest element lies beyond ptrdiff_t");
            reach += last;
        }
    }

    Scalar* data_ = nullptr;
    shape4 shape_{};
    strides4 strides_{1, 1, 1, 1};
};

/// Asks `tensor(shape, uninitialized)` for memory whose values are not yet set.
struct uninitialized_t {};
inline constexpr uninitialized_t uninitialized{};

/// An owning, dense, row-major tensor, 64-byte aligned (a cache line, an AVX-512 register). A value: copies are deep.
template <class Scalar>
class tensor {
    static_assert(std::is_trivially_copyable_v<Scalar> && !std::is_const_v<Scalar>);

public:
    using element_type = Scalar;
    using value_type = Scalar;
    static constexpr std::size_t alignment = 64;

    tensor() noexcept = default;

    /// All zeros. Refuses negative extents and an overflowing size; `std::bad_alloc` when there is no memory.
    explicit tensor(const shape4& shape) : tensor(shape, uninitialized) { std::fill_n(data_, size(), Scalar(0)); }

    tensor(const shape4& shape, uninitialized_t) : shape_(shape) {
        const std::ptrdiff_t size = detail::checked_size(shape, sizeof(Scalar));
        if (size == 0) return;
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(Scalar);
        data_ = static_cast<Scalar*>(::operator new (bytes, std::align_val_t{alignment}));
    }

    tensor(const tensor& other) : tensor(other.shape_, uninitialized) { std::copy_n(other.data_, size(), data_); }
    tensor(tensor&& other) noexcept { swap(other); }
    tensor& operator=(tensor other) noexcept {
        swap(other);
        return *this;
    }
    ~tensor() { ::operator delete (data_, std::align_val_t{alignment}); }

    void swap(tensor& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(shape_, other.shape_);
    }

    [[nodiscard]] Scalar* data() noexcept { return data_; }
    [[nodiscard]] const Scalar* data() const noexcept { return data_; }
    [[nodiscard]] const shape4& shape() const& noexcept { return shape_; }
    [[nodiscard]] shape4 shape() const&& noexcept { return shape_; }  ///< By value, as a view's.
    [[nodiscard]] strides4 strides() const noexcept { return detail::dense_strides(shape_); }
    [[nodiscard]] std::ptrdiff_t size() const noexcept { return detail::element_count(shape_); }

    /// A view of this tensor, valid while the tensor lives and is not moved from; none is given of a temporary.
    [[nodiscard]] tensor_view<Scalar> view() & noexcept {
        return {data_, shape_, typename tensor_view<Scalar>::trusted{}};
    }
    [[nodiscard]] tensor_view<const Scalar> view() const& noexcept {
        return {data_, shape_, typename tensor_view<const Scalar>::trusted{}};
    }
    void view() && = delete;
    void view() const&& = delete;

    operator tensor_view<Scalar>() & { return view(); }
    operator tensor_view<const Scalar>() const& { return view(); }
    operator tensor_view<Scalar>() && = delete;
    operator tensor_view<const Scalar>() const&& = delete;

    [[nodiscard]] Scalar& operator()(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l, std::ptrdiff_t d) noexcept {
        return data_[((b * shape_[1] + h) * shape_[2] + l) * shape_[3] + d];
    }
    [[nodiscard]] const Scalar& operator()(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t l,
                                           std::ptrdiff_t d) const noexcept {
        return data_[((b * shape_[1] + h) * shape_[2] + l) * shape_[3] + d];
    }

    [[nodiscard]] auto head(std::ptrdiff_t b, std::ptrdiff_t h) & { return view().head(b, h); }
    [[nodiscard]] auto head(std::ptrdiff_t b, std::ptrdiff_t h) const& { return view().head(b, h); }
    void head(std::ptrdiff_t b, std::ptrdiff_t h) const&& = delete;

private:
    Scalar* data_ = nullptr;
    shape4 shape_{};
};

// What an operation accepts: a tensor or a view. `as_view` makes the two one; no view is made of a temporary.
template <class Scalar>
[[nodiscard]] constexpr tensor_view<Scalar> as_view(tensor_view<Scalar> view) noexcept {
    return view;
}
template <class Scalar>
[[nodiscard]] tensor_view<Scalar> as_view(tensor<Scalar>& owner) {
    return owner.view();
}
template <class Scalar>
[[nodiscard]] tensor_view<const Scalar> as_view(const tensor<Scalar>& owner) {
    return owner.view();
}
template <class Scalar>
void as_view(const tensor<Scalar>&&) = delete;

/// A `tensor` or a `tensor_view`, const or not.
template <class T>
concept tensor_like = requires(T& t) {
    as_view(t);
};

/// The scalar type of a `tensor_like`, without const.
template <tensor_like T>
using scalar_of = typename decltype(as_view(std::declval<T&>()))::value_type;

/// Whether scalars take sixteen bits in memory and are floats in computations: `Eigen::bfloat16` and `Eigen::half`.
template <class Scalar>
inline constexpr bool is_sixteen_bit = std::is_same_v<Scalar, Eigen::bfloat16> || std::is_same_v<Scalar, Eigen::half>;

/// What operations compute with.
template <class Scalar>
concept computed_scalar = std::same_as<Scalar, float> || std::same_as<Scalar, double> || is_sixteen_bit<Scalar>;

/// Two tensors of one scalar type: the inputs of an operation.
template <class Q, class K>
concept same_scalar =
    tensor_like<Q> && tensor_like<K> && std::same_as<scalar_of<Q>, scalar_of<K>> && computed_scalar<scalar_of<Q>>;

/// A tensor of `Scalar` whose elements may be written, as a function takes it: `Out` deduced from `Out&&`. A temporary
/// view will do, a temporary owner will not: the result would be lost with it.
template <class Out, class Scalar>
concept output_for = tensor_like<Out> && requires(Out&& out) {
    { as_view(std::forward<Out>(out)) } -> std::same_as<tensor_view<Scalar>>;
};

/// What the result of a product of such tensors may be written to: `output_for` the same scalar, or for sixteen-bit
/// ones float, which spares the last rounding.
template <class Out, class Scalar>
concept product_output_for = output_for<Out, Scalar> ||(is_sixteen_bit<Scalar>&& output_for<Out, float>);

/// Shape, strides and the first values of the first row:
/// "float tensor (2, 3, 8, 16), strides (384, 128, 16, 1): 1 2 3 4 5 6 ...".
template <class Scalar>
std::ostream& operator<<(std::ostream& os, const tensor_view<Scalar>& view) {
    using value_type = std::remove_const_t<Scalar>;
    os << (std::is_same_v<value_type, float>             ? "float "
           : std::is_same_v<value_type, double>          ? "double "
           : std::is_same_v<value_type, Eigen::bfloat16> ? "bfloat16 "
           : std::is_same_v<value_type, Eigen::half>     ? "half "
                                                         : "")
       << "tensor " << detail::text_of(view.shape()) << ", strides " << detail::text_of(view.strides()) << ':';
    constexpr std::ptrdiff_t shown = 6;
    if (view.size() == 0) return os << " empty";
    for (std::ptrdiff_t d = 0; d < std::min(shown, view.shape()[3]); ++d) os << ' ' << view(0, 0, 0, d);
    return view.size() > std::min(shown, view.shape()[3]) ? os << " ..." : os;
}
template <class Scalar>
std::ostream& operator<<(std::ostream& os, const tensor<Scalar>& owner) {
    return os << owner.view();
}

namespace detail {

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class splitmix64 {
public:
    explicit constexpr splitmix64(std::uint64_t seed) noexcept : state_(seed) {}
    constexpr std::uint64_t operator()() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// Uniform in (0, 1), the middles of 2^52 equal intervals: with one bit more, some would round, and reach 1.
    constexpr double uniform() noexcept { return static_cast<double>(odd()) * 0x1p-53; }
    /// The same times 2^53: an odd number, exact in a double, as its difference from 2^52 is.
    constexpr std::int64_t odd() noexcept { return static_cast<std::int64_t>((*this)() >> 12) * 2 + 1; }

private:
    std::uint64_t state_;
};

/// One standard normal value by the ratio of uniforms (Kinderman and Monahan, ACM TOMS 3(3), 1977). The value itself is
/// a product and a quotient of whole numbers, so no platform's libm, no contraction into an FMA and no -ffast-math (a
/// sum of doubles it would distribute over) changes its bits; the logarithm only decides acceptance.
inline double standard_normal(splitmix64& random) noexcept {
    constexpr double width = 1.7155277699214135;  // 2 * sqrt(2 / e)
    for (;;) {
        const auto u = static_cast<double>(random.odd());
        const auto v = static_cast<double>(random.odd() - (std::int64_t{1} << 52));
        const double x = v * width / u;
        if (x * x <= -4.0 * std::log(u * 0x1p-53)) return x;
    }
}

}  // namespace detail

/// Independent standard normal values in row-major order: the same for the same seed on every platform with IEEE
/// doubles.
template <class Scalar>
[[nodiscard]] tensor<Scalar> randn(const shape4& shape, std::uint64_t seed) {
    tensor<Scalar> result(shape, uninitialized);
    detail::splitmix64 random(seed);
    std::generate_n(result.data(), result.size(),
                    [&random] { return static_cast<Scalar>(detail::standard_normal(random)); });
    return result;
}

}  // namespace headwise
