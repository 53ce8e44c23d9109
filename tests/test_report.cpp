// What a comparison looks like: held word for word, since people and programs read it.
#include <doctest/doctest.h>

#include <clocale>
#include <locale>
#include <limits>
#include <sstream>
#include <string>

#include <headwise/harness/report.hpp>

using namespace headwise;

namespace {

comparison example() {
    comparison c;
    c.confidence = 0.95;
    c.margin = 0.01;
    c.calls_per_epoch = 10;
    c.epochs_per_block = 2;
    c.blocks = 2;
    c.seconds = 0.98;
    c.budget_seconds = 1;
    c.seed = 18446744073709551615ull;
    c.control = interval{1.0001, 0.9990, 1.0012};
    c.arms.resize(6);
    const char* names[]{"loop", "fused", "same", "slow", "unclear", "wrong"};
    const verdict verdicts[]{verdict::baseline, verdict::faster,     verdict::equivalent,
                             verdict::slower,   verdict::unresolved, verdict::mismatch};
    for (std::size_t i = 0; i < 6; ++i) {
        arm_result& arm = c.arms[i];
        arm.name = names[i];
        arm.verdict = verdicts[i];
        arm.verified = i < 4;
        arm.time = statistics::summarise({9800, 9800, 9810, 9750});
        arm.samples = {9800, 9800.5};
        arm.spoiled = {false, true};
    }
    c.arms[1].speedup = interval{7.31, 7.24, 7.38};
    c.arms[2].speedup = interval{1.0004, 0.9992, 1.0016};
    c.arms[3].speedup = interval{0.8, 0.75, 0.85};
    c.arms[4].speedup = interval{1.02, 0.98, 1.06};
    c.arms[4].reason = "a difference of 4.0 % would have shown";
    c.arms[5].reason = "1 of 3 elements differs, the first at (1): 2.5 instead of 2";
    c.arms[4].detectable = 0.04;
    return c;
}

template <class Write>
std::string written(Write&& write) {
    std::ostringstream out;
    write(out);
    return out.str();
}

}  // namespace

TEST_CASE("the table and its sentences") {
    CHECK(written([](std::ostream& out) { out << example(); }) ==
          "arm       a call   spread  speed-up  95 % interval  verdict     outputs\n"
          "loop     9.80 us  0.051 %         1                 baseline    reference\n"
          "fused    9.80 us  0.051 %     7.31x      7.24-7.38  faster      agree\n"
          "same     9.80 us  0.051 %   1.0004x  0.9992-1.0016  equivalent  agree\n"
          "slow     9.80 us  0.051 %     0.80x      0.75-0.85  slower      agree\n"
          "unclear  9.80 us  0.051 %    1.020x    0.980-1.060  unresolved  not checked\n"
          "wrong    9.80 us  0.051 %         -              -  mismatch    WRONG\n"
          "\n"
          "fused is 7.31x as fast as loop (95 %: 7.24-7.38), outputs agree\n"
          "same is as fast as loop, within 1.0 %: 1.0004x (95 %: 0.9992-1.0016), outputs agree\n"
          "slow takes 1.25x the time of loop (95 %: 1.18-1.33), outputs agree\n"
          "cannot tell unclear from loop: 1.020x (95 %: 0.980-1.060), outputs not checked; a difference of 4.0 % would "
          "have shown\n"
          "wrong does not agree with loop: 1 of 3 elements differs, the first at (1): 2.5 instead of 2; it has no "
          "speed-up\n"
          "4 rounds of 10 calls, interleaved, in 0.98 s; 4.0 % would have shown; identical code came out at 1.0001x\n");
}

TEST_CASE("cold times have columns of their own, a clause in the sentence and an entry in the JSON") {
    comparison c = example();
    c.arms.resize(3);
    c.arms[0].cold = cold_result{verdict::baseline, {}, statistics::summarise({29000, 29000})};
    c.arms[1].cold = cold_result{verdict::faster, interval{2.5, 2.4, 2.6}, statistics::summarise({11600, 11600})};
    CHECK(written([&](std::ostream& out) { out << c; }) ==
          "arm     a call   spread  speed-up  95 % interval     cold  speed-up   interval  verdict     outputs\n"
          "loop   9.80 us  0.051 %         1                 29.0 us         1             baseline    reference\n"
          "fused  9.80 us  0.051 %     7.31x      7.24-7.38  11.6 us     2.50x  2.40-2.60  faster      agree\n"
          "same   9.80 us  0.051 %   1.0004x  0.9992-1.0016        -         -          -  equivalent  agree\n"
          "\n"
          "fused is 7.31x as fast as loop (95 %: 7.24-7.38), outputs agree; from cold caches 2.50x (2.40-2.60)\n"
          "same is as fast as loop, within 1.0 %: 1.0004x (95 %: 0.9992-1.0016), outputs agree\n"
          "4 rounds of 10 calls, interleaved, in 0.98 s; identical code came out at 1.0001x\n");
    const std::string markdown = written([&](std::ostream& out) { write_markdown(out, c); });
    CHECK(markdown.find("|---|---:|---:|---:|---:|---:|---:|---:|---|---|\n") != std::string::npos);
    const std::string text = written([&](std::ostream& out) { write_json(out, c); });
    CHECK(text.find(R"("cold": {"verdict": "faster", "speedup": {"estimate": 2.5, "low": 2.4, "high": 2.6}, )"
                    R"("median_ns_per_call": 11600})") != std::string::npos);
}

TEST_CASE("numbers have a point, whatever the locale") {
    CHECK(detail::json(0.1) == "0.1");
    CHECK(detail::json(1e300) == "1e+300");
    CHECK(detail::json(5e-324) == "5e-324");
    CHECK(detail::fixed(0.125, 2) == "0.12");
    CHECK(detail::fixed(-1e22, 1) == "-10000000000000000000000.0");
    const std::string before = written([](std::ostream& out) {
        out << example();
        write_json(out, example());
    });
    bool comma = false;
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
        comma = comma || std::setlocale(LC_NUMERIC, name) != nullptr;
    MESSAGE("a locale with a decimal comma: " << (comma ? "tried" : "there is none here"));
    CHECK(written([](std::ostream& out) {
              out << example();
              write_json(out, example());
          }) == before);
    std::setlocale(LC_NUMERIC, "C");
}

TEST_CASE("nor do a comma and thousands of the C++ locale come into files") {
    struct german : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    comparison c = example();
    c.blocks = 12345, c.arms[1].time.count = 54321;
    const auto files = [&](std::ostream& out) {
        write_json(out, c);
        write_csv(out, c);
        out << detail::general(12345.678, 7) << detail::scientific(0.5, 2);
    };
    const std::string before = written(files);
    CHECK(before.find("\"blocks\": 12345,") != std::string::npos);
    CHECK(detail::number_in("12345.5") == 12345.5);
    const std::locale restored = std::locale::global(std::locale(std::locale::classic(), new german));
    CHECK(written(files) == before);
    CHECK(detail::number_in("12345.5") == 12345.5);
    CHECK_FALSE(detail::number_in("12.345,5"));
    std::locale::global(restored);
    for (const char* none : {"", " 1", "1 ", "1x", "x", "1e999", "nan"}) CHECK_FALSE(detail::number_in(none));
}

TEST_CASE("Markdown escapes what would end a cell") {
    comparison c = example();
    c.arms.resize(2);
    c.arms[1].name = "a|b";
    CHECK(written([&](std::ostream& out) {
              write_markdown(out, c);
          }).find("| a\\|b | 9.80 us | 0.051 % | 7.31x | 7.24-7.38 | faster | agree |\n") != std::string::npos);
}

TEST_CASE("Markdown shows what would be an element of HTML") {
    comparison c = example();
    c.arms.resize(2);
    c.arms[1].name = "vector<float>&";
    const std::string text = written([&](std::ostream& out) { write_markdown(out, c); });
    CHECK(text.find("| vector&lt;float>&amp; | 9.80 us") != std::string::npos);
    CHECK(text.find("\nvector&lt;float>&amp; is 7.31x as fast as loop") != std::string::npos);
}

TEST_CASE("columns are as wide as their characters, not as their bytes") {
    const std::vector<std::vector<std::string>> rows{{"na\xc3\xafve \xe2\x88\x91", "1"}, {"fused", "23"}};
    CHECK(written([&](std::ostream& out) {
              detail::write_columns(out, rows, {false, true});
          }) == "na\xc3\xafve \xe2\x88\x91   1\nfused    23\n");
}

TEST_CASE("CSV has a line for each sample") {
    comparison c = example();
    c.arms.resize(1);
    c.arms[0].name = "say \"loop\"";
    c.arms[0].samples[1] = std::numeric_limits<double>::quiet_NaN();
    CHECK(written([&](std::ostream& out) { write_csv(out, c); }) ==
          "arm,round,ns_per_call,spoiled\n\"say \"\"loop\"\"\",0,9800,0\n\"say \"\"loop\"\"\",1,,1\n");
}

TEST_CASE("JSON holds everything, and nothing that JSON does not know") {
    comparison c = example();
    c.notes = {"tab\there"};
    c.arms[1].speedup->high = std::numeric_limits<double>::infinity();
    c.arms[1].name = "quo\"te\\";
    const std::string text = written([&](std::ostream& out) { write_json(out, c); });
    for (const char* part :
         {R"("seed": "18446744073709551615")", R"("notes": ["tab\u0009here"])",
          R"({"name": "quo\"te\\", "verdict": "faster")", R"("speedup": {"estimate": 7.31, "low": 7.24, "high": null})",
          R"("samples": [9800, 9800.5])", R"("spoiled": [1])", R"("speedup": null)"}) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, part);
    }
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    CHECK(std::ranges::count(text, '{') == std::ranges::count(text, '}'));
}

TEST_CASE("numbers read well and read back") {
    CHECK(detail::duration_text(0.242) == "0.24 ns");
    CHECK(detail::duration_text(99.96) == "100 ns");
    CHECK(detail::duration_text(999.6) == "1.00 us");
    CHECK(detail::duration_text(33'600'000) == "33.6 ms");
    CHECK(detail::duration_text(12e9) == "12.0 s");
    CHECK(detail::percent_text(0.00037) == "0.037 %");
    CHECK(detail::percent_text(0.33) == "33 %");
    CHECK(detail::confidence_text(0.95) == "95 %");
    CHECK(detail::confidence_text(0.999) == "99.9 %");
    CHECK(detail::confidence_text(1 - 0.05 / 7) == "99.286 %");
    CHECK(detail::confidence_text(0.999999) == "99.9999 %");
    CHECK(detail::confidence_text(0.99999) == "99.999 %");
    CHECK(detail::confidence_text(1 - 0.05 / 7000) == "99.99929 %");
    CHECK(detail::confidence_text(1) == "100 %");
    CHECK(detail::json(0.1) == "0.1");
    CHECK(detail::json(1.0 / 3) == "0.3333333333333333");
    const detail::ratio_text small({3e-5, 2.97e-5, 3.04e-5});
    CHECK(small.estimate == "0.0000300x");
    CHECK(small.range == "0.0000297-0.0000304");
    CHECK(detail::ratio_text({1e-300, 0, 1}).estimate.size() == 305);  // printed, whatever it is
    CHECK(detail::ratio_text({0.0123, 0.0122, 0.0124}).estimate == "0.0123x");
    CHECK(detail::decimals_for(0.14) == 2);
    CHECK(detail::decimals_for(0.0012) == 4);
    CHECK(detail::decimals_for(1e-7) == 4);
    CHECK(detail::decimals_for(35) == 0);
    CHECK(detail::decimals_for(0) == 2);
}
