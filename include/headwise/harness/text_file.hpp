// Whole text files by <cstdio>: <filesystem> and <fstream> would cost every user of the harness a tenth of a second.
#pragma once

#include <chrono>
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

/// Gives a file this content whole or not at all: whoever reads it finds the old text or the new one. False when the
/// system does not let it be written; then what was there is as it was.
[[nodiscard]] inline bool write_text(const std::string& path, const std::string& text) {
    // "x" refuses a name that exists: two writers never share a draft. The clock makes it unlikely that they meet.
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::string draft = path + "." + std::to_string(ticks) + ".tmp";
    std::FILE* file = std::fopen(draft.c_str(), "wbx");
    if (file == nullptr) return false;
    bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
    if (written && std::rename(draft.c_str(), path.c_str()) == 0) return true;
    std::remove(draft.c_str());
    return false;
}

}  // namespace headwise::detail
