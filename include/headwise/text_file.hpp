// Whole text files, by <cstdio>. How they are written: atomic_file.hpp.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

namespace headwise::detail {

/// All of a file, or nothing when it cannot be read.
[[nodiscard]] inline std::optional<std::string> read_text(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return std::nullopt;
    std::string text;
    char part[4096];
    for (std::size_t count; (count = std::fread(part, 1, sizeof part, file)) != 0;) text.append(part, count);
    const bool complete = std::ferror(file) == 0;  // a folder opens, and fails here
    std::fclose(file);
    if (!complete) return std::nullopt;
    return text;
}

}  // namespace headwise::detail
