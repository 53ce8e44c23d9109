// Traces: every rule of the format, on hostile names and on a million events.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <headwise/harness/trace.hpp>

#include "trace_checker.hpp"

using namespace headwise;

namespace {

constexpr std::uint32_t none = detail::none;

recording small() {
    recording r{.start = 1'000'000'000'000, .stop = 1'000'000'100'000, .memory_counted = true, .threads = {}};
    r.threads.resize(2);
    r.threads[0] = {1,
                    "main",
                    {{"outer", "(2, 3)", r.start + 1, r.start + 1'002'003, none, 0, false},
                     {"inner", nullptr, r.start + 1'000, r.start + 1'000, 0, none, true}},
                    {{{.flops = 1.5e9, .bytes_read = 8, .bytes_written = 0}, {2, 4096, 0, 0}}},
                    {{"queue", r.start + 10, 3.25}, {"queue", r.start + 20, std::numeric_limits<double>::infinity()}},
                    0};
    r.threads[1] = {7, "", {{"other", nullptr, r.start, r.start + 999, none, none, false}}, {}, {}, 0};
    return r;
}

std::string traced(const std::vector<recording>& recordings, const trace_options& options = {}) {
    std::ostringstream out;
    write_trace(out, recordings, options);
    return out.str();
}

recording named(const char* name) {
    recording r{.start = 5, .stop = 9, .memory_counted = false, .threads = {}};
    r.threads.push_back({1, name, {{name, name, 5, 6, none, 0, false}}, {{}}, {}, 0});
    return r;
}

std::string written_name(const char* name) {
    const test::trace_summary summary = test::check_trace(traced({named(name)}));
    CHECK(summary.threads.at(1) == *summary.names.begin());
    return *summary.names.begin();
}

}  // namespace

TEST_CASE("a trace, word for word") {
    CHECK(traced({small()}, {.process_name = "a \"process\"", .process_id = 42}) ==
          R"json({"displayTimeUnit":"ns","traceEvents":[
{"name":"process_name","ph":"M","pid":42,"tid":0,"args":{"name":"a \"process\""}},
{"name":"thread_name","ph":"M","pid":42,"tid":1,"args":{"name":"main"}},
{"name":"outer","ph":"X","pid":42,"tid":1,"cat":"scope",)json"
          R"json("ts":0.001,"dur":1002.002,"args":{"shape":"(2, 3)",)json"
          R"json("flops":1.5e+09,"bytes read":8,"allocations":2,"allocated bytes":4096}},
{"name":"inner","ph":"X","pid":42,"tid":1,"cat":"scope","ts":1.000,"dur":0.000,"args":{"had not ended":true}},
{"name":"queue","ph":"C","pid":42,"tid":1,"ts":0.010,"args":{"value":3.25}},
{"name":"thread_name","ph":"M","pid":42,"tid":7,"args":{"name":"thread 7"}},
{"name":"other","ph":"X","pid":42,"tid":7,"cat":"scope","ts":0.000,"dur":0.999}
]}
)json");
    recording later = small();
    for (thread_recording& thread : later.threads) {
        for (scope_run& run : thread.runs) run.begin += 2'000'000, run.end += 2'000'000;
    }
    const test::trace_summary summary = test::check_trace(traced({small(), later}));
    CHECK(summary.scopes == 6);
    CHECK(summary.counters == 2);
    CHECK(summary.process == "headwise");
    CHECK(test::check_trace(traced({})).scopes == 0);
}

TEST_CASE("times keep every nanosecond, however large") {
    std::string text;
    const auto sink = [&](const char* piece, std::size_t size) { text.append(piece, size); };
    detail::json_stream json(sink);
    for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{7}, std::int64_t{999}, std::int64_t{1'050},
                                  std::int64_t{9'007'199'254'740'993}, INT64_MAX, std::int64_t{-1}, INT64_MIN})
        json.microseconds(ns) << " ";
    json.flush();
    CHECK(text == "0.000 0.007 0.999 1.050 9007199254740.993 9223372036854775.807 -0.001 -9223372036854775.808 ");
}

TEST_CASE("names are escaped, and what is not UTF-8 is replaced") {
    const std::string bad = "\xEF\xBF\xBD";
    CHECK(written_name("plain") == "plain");
    CHECK(written_name("quote \" and \\ and /") == "quote \" and \\ and /");
    CHECK(written_name("line\nbreak\ttab\x01\x1f\x7f") == "line\nbreak\ttab\x01\x1f\x7f");
    CHECK(written_name("K \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80") == "K \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
    CHECK(written_name("\xFF") == bad);
    CHECK(written_name("a\x80z") == "a" + bad + "z");
    CHECK(written_name("\xC3") == bad);  // cut off
    CHECK(written_name("\xC3(") == bad + "(");
    CHECK(written_name("\xE2\x82") == bad + bad);
    CHECK(written_name("\xC0\xAF") == bad + bad);  // overlong
    CHECK(written_name("\xE0\x80\xAF") == bad + bad + bad);
    CHECK(written_name("\xED\xA0\x80") == bad + bad + bad);  // a surrogate
    CHECK(written_name("\xED\x9F\xBF") == "\xED\x9F\xBF");
    CHECK(written_name("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // beyond Unicode
    CHECK(written_name("\xF4\x8F\xBF\xBF") == "\xF4\x8F\xBF\xBF");
    CHECK(written_name("\xF5\x80\x80\x80") == bad + bad + bad + bad);
    CHECK(written_name("</script>") == "</script>");
}

TEST_CASE("every text of two and of three bytes comes out as valid UTF-8") {
    for (unsigned first = 0x80; first < 0x100; ++first) {
        for (unsigned second = 1; second < 0x100; ++second) {
            const char two[]{static_cast<char>(first), static_cast<char>(second), 0};
            const char three[]{static_cast<char>(first), static_cast<char>(second), static_cast<char>(0x80), 0};
            REQUIRE_NOTHROW((void)test::check_trace(traced({named(two)})));
            REQUIRE_NOTHROW((void)test::check_trace(traced({named(three)})));
        }
    }
}

TEST_CASE("a trace of a million events on three threads keeps every rule") {
    constexpr int threads = 3, rounds = 1 << 16;
    profile p;
    {
        std::vector<std::jthread> running;
        for (int t = 0; t < threads; ++t) {
            running.emplace_back([] {
                name_thread("worker");
                for (int i = 0; i < rounds; ++i) {
                    HEADWISE_SCOPE("round", {.flops = 2}, "shape");
                    HEADWISE_SCOPE("work");
                    for (int k = 0; k < 3; ++k) HEADWISE_SCOPE("step \"k\"");
                    if (i % 1024 == 0) record_value("i", i);
                }
            });
        }
    }
    for (int i = 0; i < 20'000; ++i) HEADWISE_SCOPE("main");
    p.stop();
    std::ostringstream out;
    write_trace(out, p);
    const test::trace_summary summary = test::check_trace(out.view());
    CHECK(summary.scopes == 5 * threads * rounds + 20'000);
    CHECK(summary.scopes > 1'000'000);
    CHECK(summary.counters == threads * (rounds / 1024));
    CHECK(summary.threads.size() == threads + 1);
    CHECK(summary.names == std::set<std::string>{"main", "round", "step \"k\"", "work"});
    const recording recorded = p.recordings().at(0);
    CHECK(summary.last_ns <= recorded.stop - recorded.start);
}

TEST_CASE("a file is replaced whole, or not at all") {
    const auto path = std::filesystem::temp_directory_path() / "headwise_trace.json";
    profile p;
    { HEADWISE_SCOPE("s"); }
    save_trace(path, p);
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK(test::check_trace(text).scopes == 1);
    CHECK(std::filesystem::remove(path));
    CHECK_THROWS_AS(save_trace(path / "not" / "a folder.json", p), std::runtime_error);
    CHECK_THROWS_AS(save_trace(std::filesystem::temp_directory_path(), p), std::invalid_argument);
}

TEST_CASE("the checker sees what is wrong") {
    const std::string good = traced({small()});
    CHECK_NOTHROW((void)test::check_trace(good));
    const auto broken = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const std::size_t at = text.find(from);
        REQUIRE(at != std::string::npos);
        return text.replace(at, from.size(), to);
    };
    CHECK_THROWS_AS((void)test::check_trace(broken("0.001", "0.01")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"dur\":1002.002", "\"dur\":1")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"dur\":0.000", "\"dur\":9000.000")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"ts\":1.000", "\"ts\":0.000")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"ts\":1.000", "\"ts\":-1.000")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"tid\":7", "\"tid\":8")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("]}", "],}")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("outer", "ou\nter")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("outer", "ou\xFFter")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(broken("\"X\"", "\"Y\"")), std::runtime_error);
    CHECK_THROWS_AS((void)test::check_trace(good + "x"), std::runtime_error);
}
