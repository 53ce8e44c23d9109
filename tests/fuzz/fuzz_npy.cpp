// Any bytes as an npy file: a tensor, or a refusal that names the file. What was read, written again, reads the same.
#include <cstring>
#include <new>
#include <sstream>
#include <stdexcept>

#include <headwise/npy.hpp>

#include "input.hpp"

namespace {

template <class Scalar>
void read(const std::string& bytes) {
    using namespace headwise;
    try {
        std::istringstream in(bytes);
        const tensor<Scalar> values = detail::read_npy<Scalar>(in, "x.npy");
        const std::size_t size = static_cast<std::size_t>(values.size()) * sizeof(Scalar);
        fuzz::must(size <= bytes.size(), "a tensor larger than its file");
        std::string again = detail::npy_header_bytes(detail::npy_kind_and_size<Scalar>, values.shape());
        fuzz::must(again.size() % 64 == 0, "values that do not begin at a multiple of 64 bytes");
        if (size != 0) again.append(reinterpret_cast<const char*>(values.data()), size);
        std::istringstream in_again(again);
        const tensor<Scalar> reread = detail::read_npy<Scalar>(in_again, "x.npy");
        fuzz::must(reread.shape() == values.shape(), "another shape when read again");
        fuzz::must(size == 0 || std::memcmp(reread.data(), values.data(), size) == 0, "other values when read again");
    } catch (const std::invalid_argument& refusal) {
        fuzz::must(std::strncmp(refusal.what(), "x.npy: ", 7) == 0, "a refusal that does not name the file");
        for (const char* c = refusal.what(); *c != '\0'; ++c)
            fuzz::must(*c >= ' ' && *c <= '~', "an unprintable refusal");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    read<float>(bytes);
    read<double>(bytes);
    read<Eigen::half>(bytes);
    return 0;
}
