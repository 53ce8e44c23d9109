// Files for tests: a folder of one's own, the bytes of an npy file, what a file holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <headwise/tensor.hpp>

#include "bits.hpp"

namespace headwise::test {

namespace fs = std::filesystem;

/// The bytes of a file: magic, version, length of the header, header, values.
inline std::string npy(int major, const std::string& dict, const std::string& values) {
    std::string bytes = std::string("\x93NUMPY") + static_cast<char>(major) + '\0';
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>((dict.size() >> (8 * i)) & 0xff);
    return bytes + dict + values;
}

inline std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of our own, gone at the end.
struct scratch {
    fs::path folder = fs::temp_directory_path() / ("headwise-files-" + std::to_string(std::random_device{}()));
    scratch() { fs::create_directory(folder); }
    ~scratch() { fs::remove_all(folder); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;

    fs::path write(const std::string& name, const std::string& bytes) const {
        std::ofstream(folder / name, std::ios::binary) << bytes;
        return folder / name;
    }
    std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); }
};

}  // namespace headwise::test
