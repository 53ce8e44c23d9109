// Files written: whole or not at all, whatever goes wrong in between.
#include <headwise/npy.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <doctest/doctest.h>

#include "files.hpp"
#include "layouts.hpp"

using namespace headwise;
namespace fs = std::filesystem;
using namespace std::string_literals;
using test::content, test::npy, test::same_bits, test::scratch;

TEST_CASE("saved bytes are those of numpy.save") {
    const bool little = std::endian::native == std::endian::little;
    const std::string one_and_minus_two =
        little ? "\x00\x00\x80\x3f\x00\x00\x00\xc0"s : "\x3f\x80\x00\x00\xc0\x00\x00\x00"s;
    const scratch here;
    const fs::path path = here.folder / "two.npy";
    tensor<float> t({1, 1, 1, 2});
    t(0, 0, 0, 0) = 1;
    t(0, 0, 0, 1) = -2;
    save_npy(path, t);
    const std::string descr = little ? "<f4" : ">f4";
    const std::string head =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '"s + descr + "', 'fortran_order': False, 'shape': (1, 1, 1, 2), }";
    CHECK(content(path) == head + std::string(127 - head.size(), ' ') + '\n' + one_and_minus_two);

    // The first extent may grow to 21 digits in place; a header that would fill its 64 bytes exactly takes 64 more.
    CHECK(detail::npy_header_bytes("f4", {1, 100000000000, 10000000000, 10000000000}).size() == 128);
    CHECK(detail::npy_header_bytes("f4", {10, 100000000000, 10000000000, 10000000000}).size() == 128);
    CHECK(detail::npy_header_bytes("f4", {1, 100000000000, 10000000000, 100000000000}).size() == 192);

    for (const char* name : {"seed_q.npy", "seed_scores.npy", "ocr_q.npy", "ocr_scores.npy", "ocr_attention.npy"}) {
        const fs::path original = fs::path(HEADWISE_TEST_DATA) / name;
        save_npy(path, load_npy<float>(original));
        CHECK(content(path) == content(original));
    }
    CHECK(here.files() == 1);
}

TEST_CASE_TEMPLATE("what was saved, from any layout, loads to the same bits", Scalar, float, double, Eigen::half) {
    const scratch here;
    const fs::path path = here.folder / "t.npy";
    auto t = randn<Scalar>({2, 3, 4, 5}, 1);
    t(1, 2, 3, 4) = std::numeric_limits<Scalar>::quiet_NaN();
    t(0, 0, 0, 0) = -std::numeric_limits<Scalar>::denorm_min();
    for (const auto& how : test::layouts()) {
        CAPTURE(how.name);
        save_npy(path, test::laid_out<Scalar>(t, how).view());
        CHECK(same_bits(load_npy<Scalar>(path), t));
    }
    for (const shape4& shape : {shape4{0, 3, 4, 5}, {2, 3, 4, 0}, {1, 1, 1, 1}, {1000000000000, 0, 1000000000000, 1}}) {
        save_npy(path, tensor<Scalar>(shape));
        CHECK(same_bits(load_npy<Scalar>(path), tensor<Scalar>(shape)));
        CHECK((fs::file_size(path) - static_cast<std::uintmax_t>(tensor<Scalar>(shape).size()) * sizeof(Scalar)) % 64 ==
              0);
    }
}

TEST_CASE("a missing file, a folder and a pipe are refused by name") {
    const scratch here;
    const std::string missing = (here.folder / "none.npy").string(), folder = here.folder.string();
    CHECK_THROWS_WITH_AS((void)load_npy<float>(missing), (missing + ": no such file").c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS((void)load_npy<float>(folder), (folder + ": is a directory, not an npy file").c_str(),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(save_npy(folder, tensor<float>({1, 1, 1, 1})),
                         (folder + ": cannot be written: it is a directory").c_str(), std::invalid_argument);
    const fs::path truncated =
        here.write("short.npy", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }\n", "1234"));
    const std::string needs =
        truncated.string() + ": shape (1, 1, 1, 9) of float32 needs 36 bytes after the header, the file has 4";
    CHECK_THROWS_WITH_AS((void)load_npy<float>(truncated), needs.c_str(), std::invalid_argument);
#if defined(__unix__) || defined(__APPLE__)
    const std::string pipe = (here.folder / "pipe").string();
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS((void)load_npy<float>(pipe), (pipe + ": is not a regular file").c_str(),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(save_npy(pipe, tensor<float>({1, 1, 1, 1})),
                         (pipe + ": cannot be written: it is not a regular file").c_str(), std::invalid_argument);
    CHECK(fs::is_fifo(pipe));
#endif
}

TEST_CASE("where nothing can be written, the path and the system's reason are named") {
    const scratch here;
    const std::string nowhere = (here.folder / "none" / "t.npy").string();
    CHECK_THROWS_WITH_AS(save_npy(nowhere, tensor<float>({1, 1, 1, 1})),
                         (nowhere + ": cannot be written: No such file or directory").c_str(), std::runtime_error);
    const std::string below_a_file = (here.write("file", "") / "t.npy").string();
    CHECK_THROWS_WITH_AS(save_npy(below_a_file, tensor<float>({1, 1, 1, 1})),
                         (below_a_file + ": cannot be written: Not a directory").c_str(), std::runtime_error);
    CHECK(here.files() == 1);
}

#if defined(__unix__) || defined(__APPLE__)
/// While it lives, no file grows beyond `bytes`: writing fails as on a full disk.
class file_size_limit {
public:
    explicit file_size_limit(rlim_t bytes) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limited{bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limited);
    }
    ~file_size_limit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    rlimit before_{};
    void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_CASE("when writing stops in the middle, the old file survives and nothing else remains") {
    const scratch here;
    const fs::path path = here.write("t.npy", "the old file");
    for (const std::ptrdiff_t size : {100, 100000}) {  // fails when flushed; fails while it is written
        const auto t = randn<float>({1, 1, size, 7}, 1);
        std::string said;
        try {
            const file_size_limit limit(1000);
            save_npy(path, t);
        } catch (const std::runtime_error& error) {
            said = error.what();
        }
        CHECK(said == path.string() + ": cannot be written: File too large");
        CHECK(content(path) == "the old file");
        CHECK(here.files() == 1);
    }
}

TEST_CASE("a file that is not committed never was; the first write that fails says so") {
    const scratch here;
    const fs::path path = here.write("t", "the old file");
    {
        detail::atomic_file file(path);
        file.write("new", 3);
        CHECK(here.files() == 2);
    }
    CHECK(here.files() == 1);
    CHECK(content(path) == "the old file");
    detail::atomic_file file(path);
    const std::string much(100000, 'x');
    bool failed = false;
    try {
        const file_size_limit limit(1000);
        file.write(much.data(), much.size());
    } catch (const std::runtime_error&) {
        failed = true;
    }
    CHECK(failed);
    CHECK(here.files() == 1);
}

TEST_CASE("a name that has become a folder's while the file was written: said so, and nothing is left beside it") {
    const scratch here;
    const fs::path path = here.folder / "t";
    detail::atomic_file file(path.string());
    file.write("new", 3);
    fs::create_directory(path);
    std::string said;
    try {
        file.commit();
    } catch (const std::runtime_error& error) {
        said = error.what();
    }
    CHECK(said == path.string() + ": cannot be written: Is a directory");
    CHECK(fs::is_directory(path));
    CHECK(here.files() == 1);
}

TEST_CASE("a saved file replaces its predecessor whole: permissions stay, a symbolic link stays one") {
    const scratch here;
    const fs::path path = here.write("t.npy", std::string(100000, 'x')), link = here.folder / "link.npy";
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
    fs::create_symlink("t.npy", link);
    const auto t = randn<double>({1, 2, 3, 4}, 1);
    save_npy(link, t);
    CHECK(fs::is_symlink(link));
    CHECK(same_bits(load_npy<double>(path), t));
    CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
    CHECK(here.files() == 2);

    const mode_t mask = umask(027);
    save_npy(here.folder / "new.npy", t);
    umask(mask);
    CHECK(fs::status(here.folder / "new.npy").permissions() ==
          (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
}
#endif

#if defined(__unix__) || defined(__APPLE__)
namespace {

/// What the destination of a link to a device says.
std::string refusal_of(const fs::path& path) {
    try {
        save_npy(path, tensor<float>({1, 1, 1, 100000}));
    } catch (const std::exception& error) {
        return error.what();
    }
    return {};
}

/// Runs `body` in a child process, as nobody if we are root; its exit status, 0 for true.
template <class Body>
int in_a_child(bool as_nobody, const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        if (as_nobody && geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
        _exit(body() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

TEST_CASE("a device is no file to replace, nor is a link to one: it stays what it is") {
    const scratch here;
    for (const char* device : {"/dev/full", "/dev/null"}) {
        if (!fs::exists(device)) continue;
        const fs::path link = here.folder / "link.npy";
        fs::create_symlink(device, link);
        for (const std::string& path : {std::string(device), link.string()}) {
            // As nobody: code that is wrong must not replace the machine's devices.
            CHECK(in_a_child(true, [&] {
                      return refusal_of(path) == path + ": cannot be written: it is not a regular file";
                  }) == 0);
        }
        CHECK(fs::is_character_file(device));
        fs::remove(link);
    }
    CHECK(here.files() == 0);
}

TEST_CASE("a link that leads to nothing stays one: the file comes to be where it leads") {
    const scratch here;
    fs::create_directory(here.folder / "sub");
    const auto t = randn<float>({1, 1, 2, 3}, 1);
    const fs::path absolute = here.folder / "absolute.npy", relative = here.folder / "relative.npy",
                   twice = here.folder / "twice.npy";
    fs::create_symlink(here.folder / "sub" / "a.npy", absolute);
    fs::create_symlink("sub/b.npy", relative);
    fs::create_symlink("sub/c.npy", twice);
    fs::create_symlink("d.npy", here.folder / "sub" / "c.npy");
    for (const fs::path& link : {absolute, relative, twice}) {
        save_npy(link, t);
        CHECK(fs::is_symlink(link));
        CHECK(same_bits(load_npy<float>(link), t));
    }
    for (const char* name : {"a.npy", "b.npy", "d.npy"}) CHECK(fs::is_regular_file(here.folder / "sub" / name));
    CHECK(fs::is_symlink(here.folder / "sub" / "c.npy"));

    // Nor is one replaced whose folder is not there.
    const fs::path nowhere = here.folder / "nowhere.npy";
    fs::create_symlink(here.folder / "no" / "t.npy", nowhere);
    CHECK(refusal_of(nowhere) == nowhere.string() + ": cannot be written: No such file or directory");
    CHECK(fs::is_symlink(nowhere));
}

TEST_CASE("a name as long as file systems take can be saved to") {
    const scratch here;
    const fs::path path = here.folder / (std::string(251, 'n') + ".npy");
    const auto t = randn<float>({1, 1, 2, 3}, 1);
    save_npy(path, t);
    CHECK(same_bits(load_npy<float>(path), t));
    CHECK(here.files() == 1);
}

TEST_CASE("a folder that cannot be written to: the reason is named, the old file stays") {
    const scratch here;
    fs::create_directory(here.folder / "locked");
    const fs::path path = here.write("locked/t.npy", "the old file");
    fs::permissions(here.folder, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
    fs::permissions(path.parent_path(),
                    fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
    const std::string expected = path.string() + ": cannot be written: Permission denied";
    CHECK(in_a_child(true, [&] {
              try {
                  save_npy(path, tensor<float>({1, 1, 1, 5}));
              } catch (const std::runtime_error& error) {
                  return error.what() == expected;
              }
              return false;
          }) == 0);
    CHECK(content(path) == "the old file");
    fs::permissions(path.parent_path(), fs::perms::owner_all);
}

TEST_CASE("a process killed at any moment leaves all of the old file or all of the new one") {
    const scratch here;
    const fs::path path = here.folder / "t.npy";
    const auto one = randn<float>({1, 1, 300, 1000}, 1), other = randn<float>({1, 1, 300, 1000}, 2);
    save_npy(path, one);
    for (int time = 0; time < 20; ++time) {
        const pid_t child = fork();
        if (child == 0) {
            std::signal(SIGTERM, SIG_DFL);  // not the handler of the tests
            for (;;) save_npy(path, other), save_npy(path, one);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(500 + 1700 * time % 9000));
        kill(child, time % 2 == 0 ? SIGKILL : SIGTERM);
        waitpid(child, nullptr, 0);
        const auto found = load_npy<float>(path);
        CHECK((same_bits(found, one) || same_bits(found, other)));
    }
    // What a killed process cannot remove is called by its name, so that it can be found and removed.
    for (const auto& entry : fs::directory_iterator(here.folder))
        CHECK(entry.path().filename().string().starts_with("t.npy"));
}

TEST_CASE("signals that interrupt system calls do not stop a file from being written") {
    const scratch here;
    const fs::path path = here.folder / "t.npy";
    const auto t = randn<float>({1, 1, 500, 1000}, 1);
    struct sigaction interrupt {
    }, before{};
    interrupt.sa_handler = [](int) {};  // and no SA_RESTART
    sigaction(SIGALRM, &interrupt, &before);
    const itimerval often{{0, 200}, {0, 200}}, never{};
    setitimer(ITIMER_REAL, &often, nullptr);
    bool written = true;
    for (int time = 0; time < 20 && written; ++time) {
        try {
            save_npy(path, t);
        } catch (const std::runtime_error&) {
            written = false;
        }
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    CHECK(written);
    CHECK(same_bits(load_npy<float>(path), t));
}

TEST_CASE("two processes that save to one name, many times: each file found is whole") {
    const scratch here;
    const fs::path path = here.folder / "t.npy";
    const auto one = randn<float>({1, 1, 30, 1000}, 1), other = randn<float>({1, 1, 30, 1000}, 2);
    save_npy(path, one);
    const pid_t child = fork();
    if (child == 0) {
        for (int time = 0; time < 100; ++time) save_npy(path, other);
        _exit(0);
    }
    std::ptrdiff_t torn = 0;
    for (int time = 0; time < 100; ++time) {
        save_npy(path, one);
        const auto found = load_npy<float>(path);
        torn += !(same_bits(found, one) || same_bits(found, other));
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(torn == 0);
    CHECK(here.files() == 1);
}
#endif
