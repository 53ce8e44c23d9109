// A file that comes into being whole or not at all.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <headwise/error.hpp>

namespace headwise::detail {

/// Why the last system call failed, in the system's words.
inline std::string system_reason() { return std::error_code(errno, std::generic_category()).message(); }

/// Bytes written here go to a temporary file in the folder of `path`, which `commit` puts on the disk and then renames
/// to `path`: at every moment, and after a crash, the name stands for all of the old file or all of the new one.
/// Without `commit`, and when anything fails, the temporary file is removed. A `path` that is a symbolic link stays
/// one.
///
/// Failures are `std::runtime_error` with the path and the system's reason. A device, a pipe or a directory has no
/// content to replace: `std::invalid_argument`.
class atomic_file {
public:
    explicit atomic_file(const std::filesystem::path& path) : name_(path.string()), target_(path) {
        namespace fs = std::filesystem;
        std::error_code ignored;
        const fs::file_status status = fs::status(path, ignored);
        if (fs::exists(status) && !fs::is_regular_file(status))
            refuse(name_ + ": cannot be written: it is " +
                   (fs::is_directory(status) ? "a directory" : "not a regular file"));
        if (fs::exists(status)) target_ = fs::canonical(path, ignored);
        open_temporary();
        if (fs::exists(status)) fs::permissions(temporary_, status.permissions(), ignored);
    }
    atomic_file(const atomic_file&) = delete;
    atomic_file& operator=(const atomic_file&) = delete;
    ~atomic_file() { discard(); }

    void write(const void* bytes, std::size_t count) {
        if (std::fwrite(bytes, 1, count, file_) != count) give_up(system_reason());
    }

    void commit() {
        if (std::fflush(file_) != 0 || !reaches_disk()) give_up(system_reason());
        if (std::fclose(std::exchange(file_, nullptr)) != 0) give_up(system_reason());
        std::error_code error;
        std::filesystem::rename(temporary_, target_, error);
        if (error) give_up(error.message());
        temporary_.clear();
    }

private:
    void open_temporary() {
        // "x" refuses a name that exists, so writers of the same path do not meet; the clock makes one unlikely.
        const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
        for (int attempt = 0; attempt < 100 && file_ == nullptr; ++attempt) {
            temporary_ = target_;
            temporary_ += std::string(".tmp-") + std::to_string(ticks + attempt);
            file_ = std::fopen(temporary_.string().c_str(), "wbx");
            if (file_ == nullptr && errno != EEXIST) break;
        }
        if (file_ != nullptr) return;
        const std::string reason = system_reason();
        temporary_.clear();
        give_up(reason);
    }

    bool reaches_disk() {
#if defined(__unix__) || defined(__APPLE__)
        return ::fsync(::fileno(file_)) == 0;
#else
        return true;
#endif
    }

    void discard() noexcept {
        if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
        std::error_code ignored;
        if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
        temporary_.clear();
    }

    [[noreturn]] void give_up(const std::string& reason) {
        discard();
        fail(name_ + ": cannot be written: " + reason);
    }

    std::string name_;
    std::filesystem::path target_, temporary_;
    std::FILE* file_ = nullptr;
};

}  // namespace headwise::detail
