// A fuzzer's bytes, taken as numbers; zero when they have run out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace fuzz {

/// The property does not hold: the fuzzer keeps the bytes that showed it.
[[noreturn]] inline void wrong(const std::string& what) {
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    std::abort();
}
inline void must(bool holds, const char* what) {
    if (!holds) wrong(what);
}

class input {
public:
    input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

    [[nodiscard]] bool empty() const { return left_ == 0; }
    [[nodiscard]] unsigned byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }
    /// In [low, high], at most 256 values apart.
    [[nodiscard]] std::ptrdiff_t between(std::ptrdiff_t low, std::ptrdiff_t high) {
        return low + static_cast<std::ptrdiff_t>(byte()) % (high - low + 1);
    }
    [[nodiscard]] std::uint64_t word() {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
        return bits;
    }
    [[nodiscard]] std::string text(std::size_t most) {
        const std::size_t length = std::min({static_cast<std::size_t>(byte()), most, left_});
        const std::string result(reinterpret_cast<const char*>(data_), length);
        data_ += length, left_ -= length;
        return result;
    }
    [[nodiscard]] std::string rest() {
        const std::string result(reinterpret_cast<const char*>(data_), left_);
        left_ = 0;
        return result;
    }

private:
    const std::uint8_t* data_;
    std::size_t left_;
};

}  // namespace fuzz
