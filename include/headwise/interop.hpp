// Tensors of others, seen as tensor_view without a copy, and tensor_view seen as theirs.
//
//     view_of(x)             std::mdspan, Eigen::Tensor, TensorMap, Matrix, Array, Map, Ref, Block
//     view_of<float>(x)      a DLTensor, as PyTorch, NumPy, JAX and others lend their memory (DLPack)
//     view_as<Target>(view)  std::mdspan, Eigen::TensorMap; one head is an Eigen::Map already: view.head(b, h)
//
// Nothing is owned and nothing is kept alive: a view is good as long as the memory is that it was made of. What owns
// its memory must have a name: a view of a temporary does not compile. Fewer than four axes are the last ones: a matrix
// is (1, 1, rows, columns). All is found by the structure of the types; no header of theirs is included, but Eigen's
// Core.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <headwise/error.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

namespace detail {

/// Strides as std::mdspan gives them: without axes, it has none.
template <class T>
concept has_strides = (T::rank() == 0) || requires(const T& x, std::size_t axis) {
    { x.stride(axis) } -> std::convertible_to<std::ptrdiff_t>;
};

/// What std::mdspan offers, and the reference implementation, with elements that lie in memory as they are.
template <class T>
concept mdspan_like = requires(const T& x, std::size_t axis) {
    { x.data_handle() } -> std::convertible_to<typename T::element_type*>;
    { x.extent(axis) } -> std::convertible_to<std::ptrdiff_t>;
    requires has_strides<T>;
    { x.is_strided() } -> std::same_as<bool>;
    requires std::same_as<typename T::reference, typename T::element_type&>;
    requires(T::rank() <= 4);
};

/// What Eigen's Tensor, TensorFixedSize and TensorMap offer.
template <class T>
concept eigen_tensor = requires(T& x) {
    x.data();
    { x.dimension(0) } -> std::convertible_to<std::ptrdiff_t>;
    typename T::Dimensions;
    requires int(T::NumIndices) <= 4;
    requires int(T::Layout) == int(Eigen::RowMajor) || int(T::Layout) == int(Eigen::ColMajor);
};

/// A matrix, array or vector of Eigen's whose coefficients lie in memory.
template <class T>
concept eigen_matrix = std::derived_from<T, Eigen::DenseBase<T>> && requires(T& x) {
    x.data();
    x.rowStride();
    x.colStride();
};

/// An object whose constness is that of its elements owns them.
template <class T>
concept owns_elements = !std::same_as<decltype(std::declval<T&>().data()), decltype(std::declval<const T&>().data())>;

template <class T>
inline constexpr bool is_eigen_map = false;
template <class Matrix, int Options, class Stride>
inline constexpr bool is_eigen_map<Eigen::Map<Matrix, Options, Stride>> = true;

/// As an argument, `T` deduced from `T&&`: with a name, or without elements of its own.
template <class T>
concept viewable_tensor = eigen_tensor<std::remove_cvref_t<T>> &&
    (std::is_lvalue_reference_v<T> || !owns_elements<std::remove_cvref_t<T>>);
template <class T>
concept viewable_matrix = eigen_matrix<std::remove_cvref_t<T>> &&
    (std::is_lvalue_reference_v<T> || is_eigen_map<std::remove_cvref_t<T>>);

/// A tensor or a view, as an argument, that can be given to others as the target type says.
template <class View, class Mdspan>
concept seen_by_mdspan = requires(View&& view, typename Mdspan::mapping_type mapping) {
    Mdspan(as_view(std::forward<View>(view)).data(), mapping);
    requires std::constructible_from<typename Mdspan::mapping_type, typename Mdspan::extents_type,
                                     std::array<std::ptrdiff_t, Mdspan::rank()>>;
};
template <class View, class TensorMap>
concept seen_by_tensor_map = requires(View&& view, typename TensorMap::Dimensions dimensions) {
    dimensions[0] = std::ptrdiff_t{};
    TensorMap(as_view(std::forward<View>(view)).data(), dimensions);
    requires !owns_elements<TensorMap>;
};

/// What a map says of its memory, in bytes: Eigen then loads whole vectors, which crash elsewhere. 0: nothing.
template <class T>
inline constexpr std::size_t promised_alignment = 0;
template <template <class, int, template <class> class> class Map, class Tensor, int Options,
          template <class> class Pointer>
inline constexpr std::size_t promised_alignment<Map<Tensor, Options, Pointer>> = Options& Eigen::AlignedMask;

template <std::size_t Rank>
using axes = std::make_index_sequence<Rank>;

/// Extents or strides of the last axes. `at` is asked for each with a constant: libraries differ in an index's type.
template <class At, std::size_t... Axis>
[[nodiscard]] constexpr std::array<std::ptrdiff_t, 4> last_axes(std::index_sequence<Axis...>,
                                                                [[maybe_unused]] const At& at) {
    constexpr std::size_t first = 4 - sizeof...(Axis);
    std::array<std::ptrdiff_t, 4> values{1, 1, 1, 1};
    ((values[first + Axis] = static_cast<std::ptrdiff_t>(at(std::integral_constant<std::size_t, Axis>{}))), ...);
    return values;
}

template <std::size_t Rank>
[[nodiscard]] constexpr std::array<std::ptrdiff_t, Rank> of_last_axes(const std::array<std::ptrdiff_t, 4>& values) {
    std::array<std::ptrdiff_t, Rank> result{};
    std::copy(values.end() - Rank, values.end(), result.begin());
    return result;
}

/// The strides of a dense tensor, the last axis innermost or the first. Those of an empty one lead nowhere, and are not
/// computed: they may overflow.
[[nodiscard]] constexpr strides4 dense_strides(const shape4& shape, bool last_innermost) noexcept {
    if (last_innermost || is_empty(shape)) return dense_strides(shape);
    return {1, shape[0], shape[0] * shape[1], shape[0] * shape[1] * shape[2]};
}

inline void check_rank(const shape4& shape, std::size_t rank) {
    for (std::size_t axis = 0; axis + rank < 4; ++axis)
        if (shape[axis] != 1)
            refuse(std::string("view ") + text_of(shape) + " has extent " + std::to_string(shape[axis]) + " at axis " +
                   std::to_string(axis) + "; to be seen as " + std::to_string(rank) + " axes it must be 1");
}

}  // namespace detail

/// A view of an mdspan of up to four axes, which itself is a view: a temporary one will do.
template <detail::mdspan_like Mdspan>
[[nodiscard]] tensor_view<typename Mdspan::element_type> view_of(const Mdspan& x) {
    if (!x.is_strided()) detail::refuse("mdspan: its layout is not one of strides");
    if constexpr (Mdspan::rank() == 0) return {x.data_handle(), {1, 1, 1, 1}};
    else {
        constexpr detail::axes<Mdspan::rank()> axes;
        return {x.data_handle(), detail::last_axes(axes, [&](auto axis) { return x.extent(axis.value); }),
                detail::last_axes(axes, [&](auto axis) { return x.stride(axis.value); })};
    }
}

/// A view of an Eigen::Tensor, TensorFixedSize or TensorMap of up to four axes, row- or column-major: in the order of
/// its indices. A temporary TensorMap will do.
template <detail::viewable_tensor Tensor>
[[nodiscard]] auto view_of(Tensor&& x) {
    using type = std::remove_cvref_t<Tensor>;
    using Scalar = std::remove_pointer_t<decltype(x.data())>;
    constexpr detail::axes<std::size_t(type::NumIndices)> axes;
    const shape4 shape = detail::last_axes(axes, [&](auto axis) { return x.dimension(axis.value); });
    detail::checked_size(shape, sizeof(Scalar));
    return tensor_view<Scalar>(x.data(), shape,
                               detail::dense_strides(shape, int(type::Layout) == int(Eigen::RowMajor)));
}

/// A view (1, 1, rows, columns) of an Eigen matrix, array, vector, Map, Ref or Block, with its strides; a column vector
/// is a matrix of one column. A temporary Map will do; a Ref or a Block may hold a temporary itself, and needs a name.
template <detail::viewable_matrix Matrix>
[[nodiscard]] auto view_of(Matrix&& x) {
    using Scalar = std::remove_pointer_t<decltype(x.data())>;
    return tensor_view<Scalar>(x.data(), {1, 1, x.rows(), x.cols()}, {1, 1, x.rowStride(), x.colStride()});
}

namespace detail {

/// What std::layout_stride asks: every step leads forward and, of two axes, one steps over all of the other.
template <std::size_t Rank>
[[nodiscard]] bool strides_fit_mdspan(const std::array<std::ptrdiff_t, Rank>& n,
                                      const std::array<std::ptrdiff_t, Rank>& s) noexcept {
    for (std::size_t i = 0; i < Rank; ++i) {
        if (s[i] <= 0) return false;
        for (std::size_t j = 0; j < i; ++j)  // s[i] >= s[j] * n[j] or the reverse; a quotient does not overflow
            if (s[i] / std::max(n[j], std::ptrdiff_t{1}) < s[j] && s[j] / std::max(n[i], std::ptrdiff_t{1}) < s[i])
                return false;
    }
    return true;
}

template <class Mdspan>
void check_static_extents(const shape4& shape) {
    for (std::size_t axis = 0; axis < Mdspan::rank(); ++axis) {
        const std::size_t fixed = Mdspan::static_extent(axis);
        const std::ptrdiff_t extent = shape[4 - Mdspan::rank() + axis];
        if (fixed != static_cast<std::size_t>(-1) && fixed != static_cast<std::size_t>(extent))
            refuse(std::string("view ") + text_of(shape) + " has extent " + std::to_string(extent) + " at axis " +
                   std::to_string(4 - Mdspan::rank() + axis) + "; the mdspan's is " + std::to_string(fixed));
    }
}

/// The extents, the strides and the number of elements from the first to the last are values of `Index`.
template <class Index, std::size_t Rank>
void check_index_type(const shape4& shape, const std::array<std::ptrdiff_t, Rank>& n,
                      const std::array<std::ptrdiff_t, Rank>& s) {
    std::ptrdiff_t span = 1;  // of a view that has been checked: no product overflows
    bool fits = true;
    for (std::size_t i = 0; i < Rank; ++i) {
        fits = fits && std::in_range<Index>(n[i]) && std::in_range<Index>(s[i]);
        span += is_empty(shape) ? 0 : (n[i] - 1) * s[i];
    }
    if (!fits || !std::in_range<Index>(span))
        refuse(std::string("view ") + text_of(shape) + ": an extent, a stride or the furthest element is beyond the " +
               "mdspan's index_type, of " + std::to_string(8 * sizeof(Index)) + " bits");
}

}  // namespace detail

/// The view as an mdspan with strides (`std::layout_stride`) of up to four axes, static extents included:
///
///     view_as<std::mdspan<float, std::dextents<std::ptrdiff_t, 4>, std::layout_stride>>(view)
///
/// Refused are extents that are not the target's, strides that such a layout cannot have: zero, negative, interlocking,
/// and what the target's index_type does not hold.
template <detail::mdspan_like Mdspan, detail::seen_by_mdspan<Mdspan> View>
[[nodiscard]] Mdspan view_as(View&& view_like) {
    constexpr std::size_t rank = Mdspan::rank();
    const auto view = as_view(std::forward<View>(view_like));
    detail::check_rank(view.shape(), rank);
    detail::check_static_extents<Mdspan>(view.shape());
    const auto extents = detail::of_last_axes<rank>(view.shape());
    auto strides = detail::of_last_axes<rank>(view.strides());
    std::size_t dense = 1;
    for (std::size_t axis = rank; axis-- > 0;) {
        // No step is taken along one element, nor in an empty view: any stride will do, so one that fits.
        if (extents[axis] == 1) strides[axis] = 1;
        if (detail::is_empty(view.shape())) strides[axis] = static_cast<std::ptrdiff_t>(dense);
        dense *= static_cast<std::size_t>(std::max(extents[axis], std::ptrdiff_t{1}));
    }
    if (!detail::strides_fit_mdspan<rank>(extents, strides))
        detail::refuse(std::string("view ") + detail::text_of(view.shape()) + " with strides " +
                       detail::text_of(view.strides()) + ": an mdspan's are positive, and do not interlock");
    detail::check_index_type<typename Mdspan::extents_type::index_type>(view.shape(), extents, strides);
    return Mdspan(view.data(), typename Mdspan::mapping_type(typename Mdspan::extents_type(extents), strides));
}

/// The view as an Eigen::TensorMap of up to four axes: `view_as<Eigen::TensorMap<Eigen::Tensor<float, 4>>>(view)`. Such
/// a map has no strides: refused is a view that is not dense in the map's order, row-major or column-major, and one
/// whose memory is not aligned as an `Eigen::Aligned` map promises.
template <detail::eigen_tensor TensorMap, detail::seen_by_tensor_map<TensorMap> View>
[[nodiscard]] TensorMap view_as(View&& view_like) {
    constexpr std::size_t rank = std::size_t(TensorMap::NumIndices);
    constexpr bool row_major = int(TensorMap::Layout) == int(Eigen::RowMajor);
    const auto view = as_view(std::forward<View>(view_like));
    detail::check_rank(view.shape(), rank);
    const strides4 dense = detail::dense_strides(view.shape(), row_major);
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (view.strides()[axis] != dense[axis] && view.shape()[axis] != 1 && !detail::is_empty(view.shape()))
            detail::refuse(std::string("view ") + detail::text_of(view.shape()) + " with strides " +
                           detail::text_of(view.strides()) + ": a dense " + (row_major ? "row" : "column") +
                           "-major tensor's are " + detail::text_of(dense));
    if constexpr (constexpr std::size_t bytes = detail::promised_alignment<TensorMap>; bytes > 1)
        if (!detail::is_empty(view.shape()) && reinterpret_cast<std::uintptr_t>(view.data()) % bytes != 0)
            detail::refuse(std::string("view ") + detail::text_of(view.shape()) + ": its data is not aligned to " +
                           std::to_string(bytes) + " bytes, as the map's is");
    typename TensorMap::Dimensions dimensions;
    for (std::size_t axis = 0; axis < rank; ++axis) dimensions[axis] = view.shape()[4 - rank + axis];
    return TensorMap(view.data(), dimensions);
}

namespace detail {

/// DLPack's DLTensor, by its members.
template <class T>
concept dl_tensor = requires(const T& x) {
    { x.data } -> std::same_as<void* const&>;
    { x.ndim } -> std::convertible_to<int>;
    { x.shape } -> std::convertible_to<const std::int64_t*>;
    { x.strides } -> std::convertible_to<const std::int64_t*>;
    { x.byte_offset } -> std::convertible_to<std::uint64_t>;
    { x.dtype.code } -> std::convertible_to<int>;
    { x.dtype.bits } -> std::convertible_to<int>;
    { x.dtype.lanes } -> std::convertible_to<int>;
    int(x.device.device_type);
};

/// A type that DLPack has a name for.
template <class Scalar>
concept dl_scalar =
    std::is_arithmetic_v<Scalar> || std::same_as<Scalar, Eigen::half> || std::same_as<Scalar, Eigen::bfloat16>;

/// DLPack's code of a type (DLDataTypeCode).
template <dl_scalar Scalar>
[[nodiscard]] constexpr int dl_code() noexcept {
    if constexpr (std::same_as<Scalar, bool>) return 6;
    else if constexpr (std::same_as<Scalar, Eigen::bfloat16>) return 4;
    else if constexpr (std::is_integral_v<Scalar>) return std::is_signed_v<Scalar> ? 0 : 1;
    else return 2;
}

/// "float32", "bfloat16", "int8x4".
[[nodiscard]] inline std::string dl_type_text(int code, int bits, int lanes) {
    constexpr const char* names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    const std::string name = code >= 0 && code < 7 ? names[code] : "code " + std::to_string(code) + " of bits ";
    return name + std::to_string(bits) + (lanes == 1 ? "" : "x" + std::to_string(lanes));
}

}  // namespace detail

/// A view of a borrowed DLTensor: `view_of<float>(managed->dl_tensor)`, or `<const float>` to read only; Eigen::half,
/// Eigen::bfloat16, integers and bool too. The lender's deleter is not called: call it when the view is no longer used.
/// Refused are memory that is not the CPU's, another type than Scalar's, more than four axes, and misaligned data.
template <class Scalar, detail::dl_tensor DLTensor>
    requires detail::dl_scalar<std::remove_const_t<Scalar>>
[[nodiscard]] tensor_view<Scalar> view_of(const DLTensor& x) {
    using value_type = std::remove_const_t<Scalar>;
    constexpr int code = detail::dl_code<value_type>(), bits = 8 * int(sizeof(value_type)), cpu = 1;
    if (const int type = int(x.device.device_type); type != cpu)
        detail::refuse("DLTensor: its memory is of device type " + std::to_string(type) + ", must be the CPU's, 1");
    if (int(x.dtype.code) != code || int(x.dtype.bits) != bits || int(x.dtype.lanes) != 1)
        detail::refuse("DLTensor: its elements are " +
                       detail::dl_type_text(int(x.dtype.code), int(x.dtype.bits), int(x.dtype.lanes)) +
                       ", asked for as " + detail::dl_type_text(code, bits, 1));
    if (x.ndim < 0 || x.ndim > 4)
        detail::refuse("DLTensor: it has " + std::to_string(x.ndim) + " axes, must be 0 to 4");
    if (x.ndim > 0 && x.shape == nullptr) detail::refuse("DLTensor: its shape is null");

    const auto rank = static_cast<std::size_t>(x.ndim);
    shape4 shape{1, 1, 1, 1};
    strides4 strides{1, 1, 1, 1};
    for (std::size_t axis = 0; axis < rank; ++axis) shape[4 - rank + axis] = static_cast<std::ptrdiff_t>(x.shape[axis]);
    detail::checked_size(shape, sizeof(Scalar));
    if (rank > 0 && x.strides == nullptr) strides = detail::dense_strides(shape);
    else
        for (std::size_t axis = 0; axis < rank; ++axis)
            strides[4 - rank + axis] = static_cast<std::ptrdiff_t>(x.strides[axis]);

    if (x.data == nullptr) return tensor_view<Scalar>(nullptr, shape, strides);
    void* const data = static_cast<std::byte*>(x.data) + static_cast<std::size_t>(x.byte_offset);
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(Scalar) != 0)
        detail::refuse("DLTensor: its data is not aligned to " + std::to_string(alignof(Scalar)) + " bytes");
    return tensor_view<Scalar>(static_cast<Scalar*>(data), shape, strides);
}

}  // namespace headwise
