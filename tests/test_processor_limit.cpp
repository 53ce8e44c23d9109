// What control groups allow a process, read from trees of files as Linux has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <headwise/processor_limit.hpp>

#include "files.hpp"

using namespace headwise::detail;
using headwise::test::scratch;
using strings = std::vector<std::string>;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A file system with these groups of the process.
struct tree : scratch {
    explicit tree(const std::string& groups) { add("proc/self/cgroup", groups); }
    void add(const std::string& path, const std::string& text) const {
        std::filesystem::create_directories((folder / path).parent_path());
        write(path, text);
    }
    [[nodiscard]] strings groups() const { return control_groups(folder.string()); }
    [[nodiscard]] double quota() const { return processor_quota(groups()); }
    [[nodiscard]] std::string at(const std::string& path) const { return (folder / path).string(); }
};

}  // namespace

TEST_CASE("version 2: a group and those around it; the tightest limit holds") {
    const tree t("0::/pods/one\n");
    CHECK(t.groups() == strings{t.at("sys/fs/cgroup/pods/one"), t.at("sys/fs/cgroup/pods"), t.at("sys/fs/cgroup")});
    CHECK(t.quota() == infinity);
    t.add("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    CHECK(t.quota() == infinity);
    t.add("sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
    CHECK(t.quota() == 4);
    t.add("sys/fs/cgroup/pods/one/cpu.max", "75000 50000\n");
    CHECK(t.quota() == 1.5);
}

TEST_CASE("a container sees its own group alone, at the top") {
    const tree inside("0::/\n");
    CHECK(inside.groups() == strings{inside.at("sys/fs/cgroup")});
    inside.add("sys/fs/cgroup/cpu.max", "200000 100000\n");
    CHECK(inside.quota() == 2);

    const tree outside("11:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n");
    outside.add("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    outside.add("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(outside.quota() == 0.5);
}

TEST_CASE("version 1: the group of the processor's controller, and no other") {
    const tree t("5:cpuset:/other\n4:cpuacct,cpu:/a\n0::/ignored/here\n");
    CHECK(t.groups() == strings{t.at("sys/fs/cgroup/cpu/a"), t.at("sys/fs/cgroup/cpu"),
                                t.at("sys/fs/cgroup/ignored/here"), t.at("sys/fs/cgroup/ignored"),
                                t.at("sys/fs/cgroup")});
    t.add("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    t.add("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    CHECK(t.quota() == infinity);
    t.add("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
    CHECK(t.quota() == 3);
    t.add("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
    CHECK(t.quota() == 3);
}

TEST_CASE("what makes no sense limits nothing") {
    CHECK(control_groups("/no/such/root").empty());
    CHECK(processor_quota({}) == infinity);
    for (const char* groups : {"", "\n", "0\n", "0:\n", ":\n", "a:b\n", "4:cpux:/a\n", "0::/cut off"}) {
        CAPTURE(groups);
        CHECK(tree(groups).groups().empty());
    }
    CHECK(tree("0::\n").groups().size() == 1);
    const tree t("0::/\n");
    for (const char* limit : {"", "\n", "max", "max max\n", "100000\n", "0 100000\n", "100000 0\n", "-5 -5\n", "x\n"}) {
        CAPTURE(limit);
        t.add("sys/fs/cgroup/cpu.max", limit);
        CHECK(t.quota() == infinity);
    }
    std::filesystem::remove(t.folder / "sys/fs/cgroup/cpu.max");
    t.add("sys/fs/cgroup/cpu.max/file", "");  // a folder of that name
    CHECK(t.quota() == infinity);
}

TEST_CASE("as many threads as the quota has work for: at least one, at most what the machine has") {
    CHECK(usable_processors(64, infinity) == 64);
    CHECK(usable_processors(64, 2) == 2);
    CHECK(usable_processors(64, 1.5) == 2);
    CHECK(usable_processors(64, 0.01) == 1);
    CHECK(usable_processors(2, 8) == 2);
    CHECK(usable_processors(0, infinity) == 1);  // the system does not tell
    CHECK(usable_processors(0, 4) == 1);
    CHECK(hardware_threads() >= 1);
    CHECK(hardware_threads() <= static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

#if defined(__linux__)
TEST_CASE("what the process may run on counts, not what the machine has") {
    cpu_set_t before, one;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    CHECK(permitted_processors() == CPU_COUNT(&before));
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    int on_a_thread = 0;
    std::thread([&] {
        REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
        on_a_thread = permitted_processors();
    }).join();
    CHECK(on_a_thread == CPU_COUNT(&before));  // one pinned thread is not the process
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(permitted_processors() == 1);
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}
#endif

TEST_CASE("how often a limit was reached, by each of the groups") {
    const tree t("0::/a\n");
    CHECK(times_stopped(t.groups()) == 0);
    t.add("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 14\nthrottled_usec 700000\n");
    CHECK(times_stopped(t.groups()) == 14);
    t.add("sys/fs/cgroup/cpu.stat", "nr_throttled 3\n");
    CHECK(times_stopped(t.groups()) == 17);
    t.add("sys/fs/cgroup/cpu.stat", "nr_throttled\n");
    CHECK(times_stopped(t.groups()) == 14);
}
