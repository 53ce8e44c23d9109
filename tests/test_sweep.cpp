// A comparison over a list of parameters.
#include <doctest/doctest.h>

#include <chrono>
#include <locale>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <headwise/harness/sweep.hpp>

#include "simulated_machine.hpp"

using namespace headwise;
using namespace std::chrono_literals;
using doctest::Approx;

namespace {

// "linear" takes 10 us per unit, "constant" takes 300 us.
sweep_result linear_against_constant(const std::vector<double>& values) {
    return sweep({.budget = 600ms, .seed = 1}, "n", values, [](double n, const compare_options& o) {
        simulated_machine m({.white = 0.002});
        arm linear{"linear", [&] {
                       m.work(10'000 * n);
                       return 1;
                   }};
        arm constant{"constant", [&] {
                         m.work(300'000);
                         return 1;
                     }};
        return detail::compare_on(m, o, detail::default_agreement{o.closeness}, linear, constant);
    });
}

}  // namespace

TEST_CASE("budget and permitted error are shared out evenly") {
    std::vector<int> seen;
    const sweep_result s =
        sweep({.budget = 900ms, .confidence = 0.94}, "n", {1, 2, 3}, [&](int n, const compare_options& o) {
            seen.push_back(n);
            CHECK(o.budget == 300ms);
            CHECK(o.confidence == Approx(0.98));
            return comparison{};
        });
    CHECK(seen == std::vector<int>{1, 2, 3});
    CHECK(s.points.size() == 3);
    CHECK(s.points[2].label == "3");
    CHECK(s.points[2].parameter == 3);
    CHECK_THROWS_AS(
        static_cast<void>(sweep({}, "n", std::vector<int>{}, [](int, const compare_options&) { return comparison{}; })),
        std::invalid_argument);
}

TEST_CASE("values that are not numbers are counted") {
    const sweep_result s = sweep({}, "shape", std::vector<std::string>{"32x32", "64x64"},
                                 [](const std::string&, const compare_options&) { return comparison{}; });
    CHECK(s.points[1].label == "64x64");
    CHECK(s.points[1].parameter == 1);
}

TEST_CASE("the crossover is found, bridging points without a winner") {
    const auto found = linear_against_constant({3, 10, 30, 90, 300}).crossovers();
    REQUIRE(found.size() == 1);
    CHECK(found[0].arm == "constant");
    CHECK(found[0].faster_after);
    CHECK(found[0].before == 10);
    CHECK(found[0].after == 90);
    CHECK(found[0].estimate == Approx(30).epsilon(0.02));
    CHECK(linear_against_constant({3, 10}).crossovers().empty());
}

TEST_CASE("one table for all") {
    std::ostringstream out;
    out << linear_against_constant({10, 90});
    CHECK(out.str().find(" n  linear  constant  speed-up") == 0);
    CHECK(out.str().find("all intervals together hold at 95 %") != std::string::npos);
    CHECK(out.str().find("constant becomes faster than linear between n = 10 and 90, about 30") != std::string::npos);
}

TEST_CASE("where the winner changes is said by the points' labels, and about where only between numbers") {
    struct german : std::numpunct<char> {
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    const auto text_of_change = [](const auto& first, const auto& second) {
        using value = std::remove_cvref_t<decltype(first)>;
        int at = 0;
        const sweep_result s = sweep({}, "n", std::vector<value>{first, second}, [&](const value&, const auto&) {
            comparison c;
            c.arms.resize(2);
            c.arms[0].name = "a", c.arms[1].name = "b";
            const double ratio = at++ == 0 ? 0.5 : 2;
            c.arms[1].speedup = interval{ratio, ratio, ratio};
            c.arms[1].verdict = ratio > 1 ? verdict::faster : verdict::slower;
            return c;
        });
        std::ostringstream out;
        out.imbue(std::locale(std::locale::classic(), new german));
        out << s;
        const std::string text = out.str();
        return text.substr(text.find("between"));
    };
    CHECK(text_of_change(std::string("random"), std::string("sorted")) == "between n = random and sorted\n");
    CHECK(text_of_change(262144, 1048576) == "between n = 262144 and 1048576, about 524000\n");
    CHECK(text_of_change(262144.0, 1048576.0) == "between n = 262144 and 1048576, about 524000\n");
    CHECK(text_of_change(0.001f, 0.004f) == "between n = 0.001 and 0.004, about 0.002\n");
    CHECK(text_of_change(1, 2) == "between n = 1 and 2, about 1.41\n");
}
