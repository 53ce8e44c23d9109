// Files: the bridge to NumPy and PyTorch. The format is that of numpy.lib.format, versions 1.0 to 3.0.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <fstream>
#include <istream>
#include <string>

#include <headwise/atomic_file.hpp>
#include <headwise/error.hpp>
#include <headwise/npy_header.hpp>
#include <headwise/tensor.hpp>

namespace headwise {

template <class T>
concept npy_scalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, Eigen::half>;

namespace detail {

template <npy_scalar Scalar>
inline constexpr char npy_kind_and_size[] = {'f', '0' + static_cast<char>(sizeof(Scalar)), '\0'};

/// Reverses the bytes of every value: from big to little endian, or back.
template <class Scalar>
void swap_bytes(tensor<Scalar>& values) noexcept {
    auto* bytes = reinterpret_cast<unsigned char*>(values.data());
    for (std::ptrdiff_t i = 0; i < values.size(); ++i, bytes += sizeof(Scalar))
        std::reverse(bytes, bytes + sizeof(Scalar));
}

/// Values in Fortran order, the first axis fastest, as a dense row-major tensor of the same shape.
template <class Scalar>
[[nodiscard]] tensor<Scalar> from_fortran_order(const tensor<Scalar>& values) {
    const shape4& n = values.shape();
    tensor<Scalar> result(n, uninitialized);
    if (result.size() == 0) return result;
    const tensor_view<const Scalar> source(values.data(), n, {1, n[0], n[0] * n[1], n[0] * n[1] * n[2]});
    for (std::ptrdiff_t b = 0; b < n[0]; ++b)
        for (std::ptrdiff_t h = 0; h < n[1]; ++h)
            for (std::ptrdiff_t l = 0; l < n[2]; ++l)
                for (std::ptrdiff_t d = 0; d < n[3]; ++d) result(b, h, l, d) = source(b, h, l, d);
    return result;
}

/// What `load_npy` does, from any seekable stream; `name` is what messages call it.
template <npy_scalar Scalar>
[[nodiscard]] tensor<Scalar> read_npy(std::istream& in, const std::string& name) {
    const npy_header header = read_npy_header(in, name);
    const std::string wanted = npy_kind_and_size<Scalar>;
    if (header.descr.substr(1) != wanted)
        refuse(name + ": the file holds " + npy_type_name(header.descr) + "; load_npy<" +
               (wanted == "f4"   ? "float"
                : wanted == "f8" ? "double"
                                 : "Eigen::half") +
               "> reads " + npy_type_name('=' + wanted));

    const std::ptrdiff_t bytes = bytes_or_negative(header.shape, sizeof(Scalar));
    if (bytes < 0) refuse(name + ": the size in bytes of shape " + text_of(header.shape) + " overflows ptrdiff_t");
    if (bytes != header.bytes_that_follow)
        refuse(name + ": shape " + text_of(header.shape) + " of " + npy_type_name(header.descr) + " needs " +
               std::to_string(bytes) + " bytes after the header, the file has " +
               std::to_string(header.bytes_that_follow));

    tensor<Scalar> values(header.shape, uninitialized);
    in.read(reinterpret_cast<char*>(values.data()), bytes);
    if (in.gcount() != bytes)
        fail(name + ": reading stopped after " + std::to_string(in.gcount()) + " bytes of values");
    if (header.descr[0] == (std::endian::native == std::endian::little ? '>' : '<')) swap_bytes(values);
    return header.fortran_order ? from_fortran_order(values) : values;
}

/// The values in row-major order. Each row is gathered first, whatever its stride.
template <class Scalar>
void write_rows(atomic_file& file, const tensor_view<const Scalar>& values) {
    const auto [B, H, L, D] = values.shape();
    tensor<Scalar> row({1, 1, 1, D}, uninitialized);
    for (std::ptrdiff_t b = 0; b < B; ++b)
        for (std::ptrdiff_t h = 0; h < H; ++h)
            for (std::ptrdiff_t l = 0; l < L; ++l) {
                for (std::ptrdiff_t d = 0; d < D; ++d) row(0, 0, 0, d) = values(b, h, l, d);
                file.write(row.data(), static_cast<std::size_t>(D) * sizeof(Scalar));
            }
}

}  // namespace detail

/// The tensor in an npy file, as `numpy.save` writes it: float32 for `load_npy<float>`, float64 for `load_npy<double>`,
/// float16 for `load_npy<Eigen::half>`.
///
/// Either byte order, C and Fortran order, format versions 1.0 to 3.0, rank <= 4: missing leading dimensions are 1, so
/// a matrix is one head. Never converts: another dtype is refused, and so are bytes after the array (`numpy.load`
/// ignores them; they mean that the header is wrong, or that the file holds a second array). Pickled objects are never
/// read. The header is checked against the size of the file before memory for the values is asked for.
///
/// Throws `std::invalid_argument` when there is no such file or its content is not all of the above,
/// `std::runtime_error` when the system cannot read it; either names the file and the rule.
template <npy_scalar Scalar>
[[nodiscard]] tensor<Scalar> load_npy(const std::string& path) {
    const detail::path_kind kind = detail::kind_of_path(path);
    if (kind == detail::path_kind::unknown) detail::fail(path + ": cannot be read: " + detail::system_reason());
    if (kind == detail::path_kind::nothing) detail::refuse(path + ": no such file");
    if (kind == detail::path_kind::folder) detail::refuse(path + ": is a directory, not an npy file");
    if (kind == detail::path_kind::other) detail::refuse(path + ": is not a regular file");
    std::ifstream in(path, std::ios::binary);
    if (!in) detail::fail(path + ": cannot be read: " + detail::system_reason());
    return detail::read_npy<Scalar>(in, path);
}

/// An npy file has no type for it: NumPy saves a bfloat16 of others as two raw bytes.
template <std::same_as<Eigen::bfloat16> Scalar>
tensor<Scalar> load_npy(const std::string& path) = delete;

/// Writes a tensor, of any strides, to an npy file that `numpy.load` reads: version 1.0, dense C order, the machine's
/// own byte order, all four dimensions, the values at a multiple of 64 bytes; byte for byte what `numpy.save` writes.
///
/// Atomic: the bytes go to a new file in the same folder that takes the name `path` when it is complete and on the
/// disk. Whatever fails, an older file of that name is left as it was. Throws `std::runtime_error` with the path and
/// the system's reason, and `std::invalid_argument` when `path` is something other than a regular file.
template <tensor_like Tensor>
    requires npy_scalar<scalar_of<const Tensor>>
void save_npy(const std::string& path, const Tensor& tensor_or_view) {
    using Scalar = scalar_of<const Tensor>;
    const tensor_view<const Scalar> values = as_view(tensor_or_view);
    detail::atomic_file file(path);
    const std::string header = detail::npy_header_bytes(detail::npy_kind_and_size<Scalar>, values.shape());
    file.write(header.data(), header.size());
    if (values.size() > 0) detail::write_rows(file, values);
    file.commit();
}

/// An npy file has no type for it: save float, which holds every bfloat16.
template <tensor_like Tensor>
    requires std::same_as<scalar_of<const Tensor>, Eigen::bfloat16>
void save_npy(const std::string& path, const Tensor& tensor_or_view) = delete;

}  // namespace headwise
