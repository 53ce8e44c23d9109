// A file that comes into being whole or not at all. By the system's own calls where there are POSIX's: <filesystem>
// would cost every user of the harness a tenth of a second.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/stat.h>
#include <unistd.h>
#define HEADWISE_POSIX_FILES 1
#else
#include <filesystem>
#define HEADWISE_POSIX_FILES 0
#endif

#include <headwise/error.hpp>

namespace headwise::detail {

/// Why the last system call failed, in the system's words.
inline std::string system_reason() { return std::error_code(errno, std::generic_category()).message(); }

/// What a path leads to, symbolic links followed. `unknown`: the system does not tell; `system_reason()` says why.
enum class path_kind { nothing, file, folder, other, unknown };

#if HEADWISE_POSIX_FILES

[[nodiscard]] inline path_kind kind_of_path(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return errno == ENOENT || errno == ENOTDIR ? path_kind::nothing : path_kind::unknown;
    return S_ISREG(status.st_mode) ? path_kind::file : S_ISDIR(status.st_mode) ? path_kind::folder : path_kind::other;
}

/// The path of the file itself, where `path` is a symbolic link to it.
[[nodiscard]] inline std::string resolved_path(const std::string& path) {
    char* const found = ::realpath(path.c_str(), nullptr);
    std::string result = found != nullptr ? found : path;
    std::free(found);
    return result;
}

/// What a symbolic link that leads to nothing would have to be, `path` itself where it is no such link: links to links
/// are followed. No `realpath`, which wants every part but the last to be there.
[[nodiscard]] inline std::string dangling_target(std::string path) {
    for (int links = 0; links < 40; ++links) {  // as many as Linux follows
        std::string text(4096, '\0');
        const auto length = ::readlink(path.c_str(), text.data(), text.size());
        if (length <= 0 || static_cast<std::size_t>(length) == text.size()) break;
        text.resize(static_cast<std::size_t>(length));
        const std::size_t slash = path.rfind('/');
        path = text[0] == '/' || slash == std::string::npos ? text : path.substr(0, slash + 1) + text;
    }
    return path;
}

/// Gives an open file the permissions of another one, as far as the system lets it.
inline void copy_permissions(const std::string& from, std::FILE* to) {
    struct stat status {};
    if (::stat(from.c_str(), &status) == 0) static_cast<void>(::fchmod(::fileno(to), status.st_mode & 07777));
}

[[nodiscard]] inline bool reaches_disk(std::FILE* file) { return ::fsync(::fileno(file)) == 0; }

[[nodiscard]] inline bool renamed(const std::string& from, const std::string& to) {
    return std::rename(from.c_str(), to.c_str()) == 0;
}

#else

[[nodiscard]] inline path_kind kind_of_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    errno = error.value();
    if (!std::filesystem::status_known(status)) return path_kind::unknown;
    if (!std::filesystem::exists(status)) return path_kind::nothing;
    return std::filesystem::is_regular_file(status) ? path_kind::file
           : std::filesystem::is_directory(status)  ? path_kind::folder
                                                    : path_kind::other;
}

[[nodiscard]] inline std::string resolved_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::path found = std::filesystem::canonical(path, error);
    return error ? path : found.string();
}

[[nodiscard]] inline std::string dangling_target(const std::string& path) {
    std::error_code error;
    const std::filesystem::path link = std::filesystem::read_symlink(path, error);
    return error ? path : (std::filesystem::path(path).parent_path() / link).string();
}

inline void copy_permissions(const std::string&, std::FILE*) {}

[[nodiscard]] inline bool reaches_disk(std::FILE*) { return true; }

[[nodiscard]] inline bool renamed(const std::string& from, const std::string& to) {
    std::error_code error;
    std::filesystem::rename(from, to, error);
    errno = error.value();
    return !error;
}

#endif

/// Bytes written here go to a temporary file in the folder of `path`, which `commit` puts on the disk and then renames
/// to `path`: at every moment, and after a crash, the name stands for all of the old file or all of the new one.
/// Without `commit`, and when anything fails, the temporary file is removed. A `path` that is a symbolic link stays
/// one, and where it leads to nothing, the file comes to be there; the permissions stay.
///
/// Failures are `std::runtime_error` with the path and the system's reason. A device, a pipe or a directory has no
/// content to replace: `std::invalid_argument`.
class atomic_file {
public:
    explicit atomic_file(const std::string& path) : name_(path), target_(path) {
        const path_kind before = kind_of_path(path);
        if (before == path_kind::folder) refuse(name_ + ": cannot be written: it is a directory");
        if (before == path_kind::other) refuse(name_ + ": cannot be written: it is not a regular file");
        if (before == path_kind::file) target_ = resolved_path(path);
        if (before == path_kind::nothing) target_ = dangling_target(path);
        open_temporary();
        if (before == path_kind::file) copy_permissions(target_, file_);
    }
    atomic_file(const atomic_file&) = delete;
    atomic_file& operator=(const atomic_file&) = delete;
    ~atomic_file() { discard(); }

    void write(const void* bytes, std::size_t count) {
        if (std::fwrite(bytes, 1, count, file_) != count) give_up(system_reason());
    }

    void commit() {
        if (std::fflush(file_) != 0 || !reaches_disk(file_)) give_up(system_reason());
        if (std::fclose(std::exchange(file_, nullptr)) != 0) give_up(system_reason());
        if (!renamed(temporary_, target_)) give_up(system_reason());
        temporary_.clear();
    }

private:
    void open_temporary() {
        // "x" refuses a name that exists, so writers of the same path do not meet; the clock makes one unlikely.
        const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
        const std::string draft = draft_name(target_);
        for (int attempt = 0; attempt < 100 && file_ == nullptr; ++attempt) {
            temporary_ = draft + ".tmp-" + std::to_string(ticks + attempt);
            file_ = std::fopen(temporary_.c_str(), "wbx");
            if (file_ == nullptr && errno != EEXIST) break;
        }
        if (file_ != nullptr) return;
        const std::string reason = system_reason();
        temporary_.clear();
        give_up(reason);
    }

    /// The target, its name cut where with ".tmp-" and the ticks it would be longer than file systems take, 255 bytes.
    static std::string draft_name(const std::string& target) {
        constexpr std::size_t longest = 200;
        const std::size_t slash = target.find_last_of("/\\"), name = slash == std::string::npos ? 0 : slash + 1;
        return target.substr(0, std::min(target.size(), name + longest));
    }

    void discard() noexcept {
        if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
        if (!temporary_.empty()) std::remove(temporary_.c_str());
        temporary_.clear();
    }

    [[noreturn]] void give_up(const std::string& reason) {
        discard();
        fail(name_ + ": cannot be written: " + reason);
    }

    std::string name_, target_, temporary_;
    std::FILE* file_ = nullptr;
};

/// Gives a file this content, as `atomic_file` does.
inline void write_text(const std::string& path, const std::string& text) {
    atomic_file file(path);
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace headwise::detail

#undef HEADWISE_POSIX_FILES
