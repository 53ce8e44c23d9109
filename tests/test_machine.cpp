// The machine: what it is, its peaks, and a file that is believed only by the machine that wrote it.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <headwise/harness/machine_file.hpp>
#include <headwise/harness/roofline_point.hpp>

#include "page_samples.hpp"

using namespace headwise;
using doctest::Approx;
namespace fs = std::filesystem;

namespace {

/// A folder of its own, gone at the end.
struct scratch {
    fs::path folder =
        fs::temp_directory_path() /
        ("headwise-machine-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
    scratch() { fs::create_directories(folder); }
    ~scratch() {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }
    fs::path file(const std::string& name, const std::string& text) const {
        fs::create_directories((folder / name).parent_path());
        std::ofstream(folder / name) << text;
        return folder / name;
    }
};

std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

machine_options brief() {
    return {.threads = {1}, .budget = std::chrono::microseconds(300), .memory_working_set = 1 << 20};
}

/// A report of this machine that nothing can have measured: found again only when it was read.
machine_report of_here() {
    machine_report m = page_samples::machine();
    m.identity = this_machine();
    return m;
}

template <class T>
std::string printed(const T& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

}  // namespace

TEST_CASE("this machine has a name, a processor, caches that grow, and stays the same") {
    const machine_identity m = this_machine();
    CHECK(!m.host.empty());
    CHECK(!m.processor.empty());
    CHECK(!m.compiler.empty());
    CHECK(!m.instruction_set.empty());
    REQUIRE(!m.caches.empty());
    CHECK(m.caches[0].level == 1);
    for (std::size_t i = 1; i < m.caches.size(); ++i) CHECK(m.caches[i].level > m.caches[i - 1].level);
    CHECK(difference(m, this_machine()) == "");
}

TEST_CASE("whatever differs is named") {
    const machine_identity here = page_samples::machine().identity;
    const auto with = [&](auto change) {
        machine_identity other = here;
        change(other);
        return difference(other, here);
    };
    CHECK(with([](auto& m) { m.host = "x"; }) == "is of the host x, not host <a&b>");
    CHECK(with([](auto& m) { m.processor = "x"; }) == "is of the processor x, not A Processor \"with quotes\"");
    CHECK(with([](auto& m) { m.processors = 2; }) == "is of a machine with 2 processors, not 4");
    CHECK(with([](auto& m) { m.instruction_set = "NEON"; }) == "is of the instruction set NEON, not AVX-512");
    CHECK(with([](auto& m) { m.compiler = "Clang 14"; }) == "is of the compiler Clang 14, not GCC 12.2.0");
    CHECK(with([](auto& m) { m.caches[1].bytes = 1; }) == "is of a machine with other caches");
}

TEST_CASE("caches are read as Linux lists them, those of instructions left out") {
    const scratch s;
    const auto cache = [&](int i, const char* type, const char* level, const char* size, const char* shared) {
        const std::string index = "index" + std::to_string(i) + "/";
        s.file(index + "type", std::string(type) + "\n"), s.file(index + "level", std::string(level) + "\n");
        s.file(index + "size", std::string(size) + "\n"), s.file(index + "shared_cpu_list", std::string(shared) + "\n");
    };
    cache(0, "Unified", "3", "32M", "0-7,16-23");
    cache(1, "Instruction", "1", "32K", "0");
    cache(2, "Data", "1", "48K", "0,64");
    cache(3, "Unified", "2", "nonsense", "0");
    CHECK(detail::caches_in(s.folder.string()) ==
          std::vector<cache_level>{{1, 48 << 10, 2}, {3, std::size_t{32} << 20, 16}});
    CHECK(detail::caches_in("/nowhere").empty());
}

TEST_CASE("lists of processors are counted") {
    CHECK(detail::processors_in("0") == 1);
    CHECK(detail::processors_in("0-3") == 4);
    CHECK(detail::processors_in("0-1,8,10-12") == 6);
    CHECK(detail::processors_in("") == 1);
    CHECK(detail::processors_in("what") == 1);
    CHECK(detail::processors_in("5-2") == 1);
}

TEST_CASE("facts are found in a file of keys and values") {
    const scratch s;
    const std::string file =
        s.file("cpuinfo", "processor\t: 0\nmodel name\t: A Processor @ 2 GHz \nflags\t: x\n").string();
    CHECK(detail::value_in(file, "model name") == "A Processor @ 2 GHz");
    CHECK(detail::value_in(file, "nothing") == "");
    CHECK(detail::value_in("/nowhere", "model name") == "");
}

TEST_CASE("levels: half of each cache, and memory beyond all of them") {
    machine_identity machine;
    machine.processors = 16;
    machine.caches = {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 64 << 20, 4}};
    const auto one = detail::levels_to_measure(machine, 1, 0);
    REQUIRE(one.size() == 4);
    CHECK(one[0].name == "L1");
    CHECK(one[0].capacity == 32 << 10);
    CHECK(one[0].working_set == 16 << 10);
    CHECK(one[3].name == "memory");
    CHECK(one[3].capacity == 0);
    CHECK(one[3].working_set == 128 << 20);
    const auto eight = detail::levels_to_measure(machine, 8, 0);
    CHECK(eight[0].capacity == 8 * (32 << 10));               // each thread has its own
    CHECK(eight[2].capacity == std::size_t{2} * (64 << 20));  // four share one
    const auto crowd = detail::levels_to_measure(machine, 1000, 0);
    CHECK(crowd[0].capacity == 16 * (32 << 10));  // there are no more caches than processors
    CHECK(crowd[0].threads == 1000);
    CHECK(detail::levels_to_measure(machine, 1, 12345)[3].working_set == 12345);
    machine.caches = {{1, 32 << 10, 1}};
    CHECK(detail::levels_to_measure(machine, 1, 0)[1].working_set == 64 << 20);
    machine.caches = {{3, std::size_t{2} << 30, 1}};
    CHECK(detail::levels_to_measure(machine, 1, 0)[1].working_set == 1 << 30);
}

TEST_CASE("threads: one and all, or what is asked for, each once") {
    CHECK(detail::thread_counts({}, 8) == std::vector<int>{1, 8});
    CHECK(detail::thread_counts({}, 1) == std::vector<int>{1});
    CHECK(detail::thread_counts({}, 0) == std::vector<int>{1});
    CHECK(detail::thread_counts({.threads = {4, 2, 4}}, 8) == std::vector<int>{2, 4});
    CHECK_THROWS_WITH_AS(static_cast<void>(detail::thread_counts({.threads = {2, 0}}, 8)),
                         "measure_machine: threads must be at least 1, is 0", std::invalid_argument);
}

TEST_CASE("limits are those of the level that holds the working set") {
    const machine_report m = page_samples::machine();
    CHECK(m.limits<float>(1000).bytes_read == 500e9);
    CHECK(m.limits<float>(48 << 10).bytes_read == 500e9);
    CHECK(m.limits<float>((48 << 10) + 1).bytes_read == 250e9);
    CHECK(m.limits<float>(30 << 20).bytes_read == 100e9);
    CHECK(m.limits<float>(1e12).bytes_read == Approx(500e9 / 13));
    CHECK(m.limits<float>(1000).bytes_written == 260e9);
    CHECK(m.limits<float>(1000).flops == 270e9);
    CHECK(m.limits<double>(1000).flops == 135e9);
    CHECK(m.limits<double>(1000, 4).flops == 540e9);
    CHECK(m.level_of(100 << 10, 4).name == "L1");  // four caches of 48 KiB
    CHECK(m.measured_with(4));
    CHECK_FALSE(m.measured_with(2));
    CHECK_THROWS_WITH_AS(static_cast<void>(m.limits<float>(1000, 2)),
                         "machine_report: nothing was measured with 2 threads; measured were: 1, 4",
                         std::invalid_argument);
}

TEST_CASE("streaming stores count where they are the faster") {
    machine_report m = page_samples::machine();
    m.levels[3].streaming_write = 99e9;
    CHECK(m.limits<float>(1e12).bytes_written == 99e9);
}

TEST_CASE("measuring finds something everywhere") {
    const machine_report m = measure_machine(brief());
    CHECK(m.identity == this_machine());
    CHECK(m.measured_on.size() == 10);
    REQUIRE(m.peaks.size() == 2);
    for (const machine_peak& p : m.peaks) CHECK(p.flops > 0);
    REQUIRE(m.levels.size() == m.identity.caches.size() + 1);
    for (const machine_level& l : m.levels) {
        CHECK(l.read > 0);
        CHECK(l.write > 0);
        CHECK(l.streaming_write > 0);
        CHECK(l.triad > 0);
    }
    CHECK(printed(m).find("memory, 1 thread, 1 MiB: read ") != std::string::npos);
}

TEST_CASE("a second look takes the place of a figure only when it is better") {
    std::vector<machine_peak> peaks{{"float", 1, 1e30}, {"double", 1, 0}, {"float", 2, 7}};
    std::vector<machine_level> levels{{"L1", 1, 1 << 14, 1 << 13, 1e30, 0, 1e30, 0}, {"L1", 2, 1 << 14, 1 << 13}};
    detail::look_at_machine({1, std::chrono::microseconds(100)}, peaks, levels);
    CHECK(peaks[0].flops == 1e30);
    CHECK(peaks[1].flops > 0);
    CHECK(peaks[2].flops == 7);  // another number of threads
    CHECK(levels[0].read == 1e30);
    CHECK(levels[0].write > 0);
    CHECK(levels[1].read == 0);
}

TEST_CASE("a file gives back what was kept") {
    const scratch s;
    machine_report m = page_samples::machine();
    m.identity.host = "two words\nand a line";
    save_machine(s.folder / "m.txt", m);
    const machine_report back = load_machine(s.folder / "m.txt");
    m.identity.host = "two words and a line";
    CHECK(back.identity == m.identity);
    CHECK(back.measured_on == "2024-02-29");
    CHECK(detail::machine_file_text(back) == detail::machine_file_text(m));
    REQUIRE(back.levels.size() == 8);
    CHECK(back.levels[7].triad == Approx(m.levels[7].triad).epsilon(1e-8));
    CHECK(back.levels[7].working_set == m.levels[7].working_set);
    CHECK(std::distance(fs::directory_iterator(s.folder), {}) == 1);  // nothing else was left there
}

TEST_CASE("what is no machine file is refused, with the reason") {
    const scratch s;
    const auto refused = [&](const std::string& text, const std::string& reason) {
        const fs::path file = s.file("m.txt", text);
        CHECK_THROWS_WITH_AS(static_cast<void>(load_machine(file)),
                             ("load_machine: " + file.string() + " " + reason).c_str(), std::invalid_argument);
    };
    refused("something else\n", "is not a headwise machine file, version 1");
    refused("headwise machine 2\n", "is not a headwise machine file, version 1");
    const std::string good = detail::machine_file_text(page_samples::machine());
    refused(good.substr(0, good.size() - 4), "ends too early");
    refused(good.substr(0, good.find("level L3") + 8), "makes no sense in line 17");
    refused("headwise machine 1\nend\n", "makes no sense in line 2");
    for (const char* line :
         {"peak float 1", "peak float 1 -5", "peak float 1 nan", "peak float 1 inf", "peak float 0 5",
          "peak float 1 5 6", "level L1 1 2 3 4 5 6", "level L1 1 x 3 4 5 6 7", "cache 1 2", "processors many",
          "processors -1", "processors 99999999999999999999", "hello", ""})
        refused(std::string("headwise machine 1\n") + line + "\nend\n", "makes no sense in line 2");
    CHECK_THROWS_WITH_AS(static_cast<void>(load_machine(s.folder / "none")),
                         ("load_machine: cannot read " + (s.folder / "none").string()).c_str(), std::invalid_argument);
}

TEST_CASE("recalling measures once, and reads from then on") {
    const scratch s;
    const fs::path file = s.folder / "m.txt";
    const known_machine first = recall_machine(file, brief());
    CHECK(first.measured);
    CHECK(first.note ==
          "there is no " + file.string() + " yet: the machine was measured now, and " + file.string() + " written");
    CHECK(detail::machine_file_text(load_machine(file)) == detail::machine_file_text(first.report));
    save_machine(file, of_here());
    const known_machine second = recall_machine(file, brief());
    CHECK_FALSE(second.measured);
    CHECK(second.note == "the machine's peaks are from " + file.string() + ", measured on 2024-02-29");
    CHECK(second.report.levels[0].read == 500e9);
}

TEST_CASE("a file of another machine, another compiler, or without these threads is not believed") {
    const scratch s;
    const fs::path file = s.folder / "m.txt";
    const auto measured_because = [&](auto change, const std::string& why) {
        machine_report m = of_here();
        change(m);
        save_machine(file, m);
        const known_machine known = recall_machine(file, brief());
        CHECK(known.measured);
        CHECK(known.note.find(file.string() + " " + why) == 0);
        CHECK(load_machine(file).levels[0].read != 500e9);
        CHECK(load_machine(file).identity == this_machine());
    };
    measured_because([](auto& m) { m.identity.host += "x"; }, "is of the host ");
    measured_because([](auto& m) { m.identity.compiler = "Another 1.0"; }, "is of the compiler Another 1.0, not ");
    measured_because([](auto& m) { m.identity.processors += 1; }, "is of a machine with ");
    measured_because([](auto& m) { std::erase_if(m.levels, [](const auto& l) { return l.threads == 1; }); },
                     "knows nothing of 1 thread: ");
}

TEST_CASE("a damaged file is measured anew and said to be damaged; a foreign one is refused and left alone") {
    const scratch s;
    const std::string good = detail::machine_file_text(of_here());
    const fs::path file = s.file("m.txt", good.substr(0, good.size() - 2));
    const known_machine known = recall_machine(file, brief());
    CHECK(known.measured);
    CHECK(known.note.find(file.string() + " makes no sense in line ") == 0);
    s.file("m.txt", "headwise machine 7\n");
    CHECK(recall_machine(file, brief()).note.find(file.string() + " is of another version") == 0);
    s.file("m.txt", "");
    CHECK(recall_machine(file, brief()).measured);
    s.file("m.txt", "my thesis\n");
    CHECK_THROWS_WITH_AS(
        static_cast<void>(recall_machine(file, brief())),
        ("recall_machine: " + file.string() + " is not a headwise machine file; it is left as it is").c_str(),
        std::invalid_argument);
    CHECK(content(file) == "my thesis\n");
    CHECK_THROWS_AS(static_cast<void>(recall_machine(s.folder / "none" / "m.txt", brief())), std::runtime_error);
    CHECK_THROWS_AS(static_cast<void>(recall_machine(s.folder, brief())), std::invalid_argument);
}

TEST_CASE("an operation under its limit says how far it got") {
    const machine_limits m{250e9, 40e9, 20e9};
    const roofline_point fused{"fused", {2e9, 4e7, 1e8}, 0.0125, m};
    CHECK(fused.rate() == Approx(160e9));
    CHECK(fused.allowed_rate() == Approx(250e9));
    CHECK(fused.share() == Approx(0.64));
    CHECK(fused.intensity() == Approx(14.2857));
    CHECK(printed(fused) == "fused: 160 GFLOP/s at 14.3 flop/byte, 64.0 % of what compute allows (250 GFLOP/s)");
    CHECK(printed(roofline_point{"copy", {0, 4e8, 2e8}, 0.04, m}) ==
          "copy: 15.0 GB/s, 50.0 % of what memory allows (30.0 GB/s)");
    CHECK(printed(roofline_point{"registers", {1e9, 0, 0}, 0.01, m}) ==
          "registers: 100 GFLOP/s, 40.0 % of what compute allows (250 GFLOP/s)");
    for (const roofline_point& p :
         {roofline_point{"a", {}, 1, m}, roofline_point{"a", {1e9, 1, 1}, 0, m},
          roofline_point{"a", {1e9, 1, 1}, 1, {}}, roofline_point{"a", {HUGE_VAL, 1, 1}, 1, m}})
        CHECK(printed(p) == "a: no limit is known");
}

TEST_CASE("amounts read in three digits") {
    using namespace headwise::detail;
    CHECK(three_digits(0) == "0");
    CHECK(three_digits(0.00012345) == "0.000123");
    CHECK(three_digits(0.5) == "0.500");
    CHECK(three_digits(9.996) == "10.0");
    CHECK(three_digits(99.96) == "100");
    CHECK(three_digits(31000.4) == "31000");
    CHECK(three_digits(5e14) == "5e+14");
    CHECK(rate_text(999.6, "B/s") == "1.00 kB/s");
    CHECK(rate_text(38.4e9, "B/s") == "38.4 GB/s");
    CHECK(rate_text(HUGE_VAL, "B/s") == "-");
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(48 << 10) == "48 KiB");
    CHECK(bytes_text(1536) == "1.5 KiB");
    CHECK(bytes_text(1 << 20) == "1 MiB");
    CHECK(share_text(0.0451) == "4.51 %");
    CHECK(share_text(1.043) == "104 %");
}

TEST_CASE("a machine prints itself") {
    const std::string text = printed(page_samples::machine());
    CHECK(text.find(
              "A Processor \"with quotes\", 4 processors, AVX-512; L1 48 KiB, L2 1 MiB, L3 32 MiB (of 4); host <a&b>; "
              "GCC 12.2.0\nmeasured on 2024-02-29\n") == 0);
    CHECK(text.find("\n  double, 4 threads: 540 GFLOP/s\n") != std::string::npos);
    CHECK(
        text.find("\n  L2, 1 thread, 512 KiB: read 250 GB/s, write 130 GB/s, streaming 90.0 GB/s, triad 300 GB/s\n") !=
        std::string::npos);
}
