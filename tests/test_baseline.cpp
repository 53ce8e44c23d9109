// Today against then: what is kept, what is concluded, and that no file is ever half written.
#if defined(__unix__) || defined(__APPLE__)
#include <sys/stat.h>
#endif

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

#include <headwise/harness/baseline.hpp>

using namespace headwise;
using doctest::Approx;

namespace {

comparison finding(double estimate, double half_width = 0.005, const std::string& base = "loop") {
    comparison c;
    c.confidence = 0.95;
    c.arms.resize(2);
    c.arms[0].name = base;
    c.arms[1].name = "fused, all of it";
    c.arms[0].time.median = 1000;
    c.arms[1].speedup = interval{estimate, estimate * (1 - half_width), estimate * (1 + half_width)};
    c.arms[1].verdict = verdict::faster;
    return c;
}

struct scratch {
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("headwise_baseline_" + std::to_string(std::random_device{}()));
    std::filesystem::path file = folder / "kept.txt";
    scratch() { std::filesystem::create_directory(folder); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() { std::filesystem::remove_all(folder); }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
    }
};

}  // namespace

TEST_CASE("what was kept comes back to the last digit") {
    scratch s;
    save_baseline(s.file, finding(1.0 / 3));
    CHECK(s.files() == 1);
    const auto [confidence, kept] = detail::read_baseline(s.file);
    CHECK(confidence == 0.95);
    REQUIRE(kept.size() == 2);
    CHECK(kept[0].name == "loop");
    CHECK(kept[1].name == "fused, all of it");
    CHECK(kept[1].speedup.estimate == 1.0 / 3);
    CHECK(kept[0].median_ns == 1000);
    save_baseline(s.file, finding(2));  // replaces
    CHECK(s.files() == 1);
    CHECK(detail::read_baseline(s.file).arms[1].speedup.estimate == 2);
}

TEST_CASE("a change beyond the margin, the intervals and the layout is a verdict; less is not") {
    scratch s;
    save_baseline(s.file, finding(2));
    const auto against = [&](const comparison& now) { return compare_to_baseline(now, s.file).arms.at(0); };
    CHECK(against(finding(2)).verdict == verdict::equivalent);  // 0.7 % + 1 % < 2 %
    CHECK(against(finding(1.8)).verdict == verdict::slower);
    CHECK(against(finding(2.2)).verdict == verdict::faster);
    CHECK(against(finding(2.02)).verdict == verdict::unresolved);
    CHECK(against(finding(2, 0.05)).verdict == verdict::unresolved);
    CHECK(against(finding(1.8)).change->estimate == Approx(0.9));
}

TEST_CASE("intervals combine in quadrature") {
    const interval sum =
        detail::log_change({1, std::exp(-0.03), std::exp(0.03)}, {1, std::exp(-0.04), std::exp(0.04)}, 0.01);
    CHECK(sum.low == Approx(-0.06));
    CHECK(sum.high == Approx(0.06));
}

TEST_CASE("arms come and go, and a mismatch stays one") {
    scratch s;
    save_baseline(s.file, finding(2));
    comparison now = finding(2);
    now.arms[1].name = "renamed";
    const baseline_report report = compare_to_baseline(now, s.file);
    CHECK(report.arms.empty());
    CHECK(report.notes == std::vector<std::string>{
                              "renamed has no speed-up in the baseline: it is new, or was wrong or not measured then",
                              "fused, all of it is gone: it was not measured"});
    comparison before = finding(2);
    before.arms[1].verdict = verdict::mismatch;
    before.arms[1].speedup.reset();
    save_baseline(s.file, before);
    CHECK(compare_to_baseline(finding(2), s.file).notes ==
          std::vector<std::string>{"fused, all of it has no speed-up in the baseline: it is new, or was wrong or not "
                                   "measured then"});
    save_baseline(s.file, finding(2));
    now = finding(2);
    now.arms[1].verdict = verdict::mismatch;
    now.arms[1].speedup.reset();
    CHECK(compare_to_baseline(now, s.file).arms.at(0).verdict == verdict::mismatch);
    CHECK_FALSE(compare_to_baseline(now, s.file).arms.at(0).change);
    std::ostringstream out;
    out << compare_to_baseline(now, s.file);
    CHECK(out.str().find("mismatch") != std::string::npos);
}

TEST_CASE("what cannot be right is refused") {
    scratch s;
    CHECK_THROWS_AS(save_baseline(s.file, comparison{}), std::invalid_argument);
    CHECK_THROWS_AS(save_baseline(s.folder / "no such folder" / "file", finding(2)), std::runtime_error);
    CHECK_THROWS_AS(static_cast<void>(compare_to_baseline(finding(2), s.folder / "absent")), std::invalid_argument);
    CHECK(s.files() == 0);
    save_baseline(s.file, finding(2));
    CHECK_THROWS_AS(static_cast<void>(compare_to_baseline(finding(2, 0.005, "another loop"), s.file)),
                    std::invalid_argument);
    for (const char* text : {"", "something else\n", "headwise baseline 1\n", "headwise baseline 1\narm 1 1\n",
                             "headwise baseline 1\narm x y z 3 loop\n", "headwise baseline 1\narm 1 0 1 3 loop\n",
                             "headwise baseline 1\narm 1 1 1 3\n"}) {
        std::ofstream(s.file) << text;
        CHECK_THROWS_AS(static_cast<void>(compare_to_baseline(finding(2), s.file)), std::invalid_argument);
    }
}

TEST_CASE("a draft that cannot take its place is not left behind") {
    scratch s;
    std::filesystem::create_directory(s.file);  // a folder is in the way
    std::ofstream(s.file / "occupied") << "x";
    CHECK_THROWS_AS(save_baseline(s.file, finding(2)), std::invalid_argument);
    CHECK(s.files() == 1);
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("the file keeps its permissions, a link stays a link, and a pipe is refused") {
    namespace fs = std::filesystem;
    scratch s;
    save_baseline(s.file, finding(2));
    const auto mode = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read;
    fs::permissions(s.file, mode);
    const fs::path link = s.folder / "link";
    fs::create_symlink(s.file, link);
    save_baseline(link, finding(3));
    CHECK(fs::is_symlink(link));
    CHECK(fs::status(s.file).permissions() == mode);
    CHECK(compare_to_baseline(finding(3), s.file).arms.at(0).then.estimate == Approx(3));
    const fs::path pipe = s.folder / "pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_AS(save_baseline(pipe, finding(2)), std::invalid_argument);
    CHECK(fs::is_fifo(pipe));
    CHECK(s.files() == 3);
}
#endif
