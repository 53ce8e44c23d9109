// Writes a page and a picture of everything into a folder, from fixed data: what pages.mjs looks at.
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <headwise/harness/page_comparison.hpp>
#include <headwise/harness/page_profile.hpp>

#include "../page_samples.hpp"

int main(int count, char** arguments) {
    if (count != 2) {
        std::cerr << "usage: pages FOLDER\n";
        return 2;
    }
    using namespace headwise;
    const auto to = [&](const std::string& name) { return std::ofstream(arguments[1] + ("/" + name)); };
    const auto html = [&](const std::string& name, const auto&... parts) {
        std::ofstream out = to(name + ".html");
        write_html(out, parts...);
    };
    const auto svg = [&](const std::string& name, const auto& of) {
        std::ofstream out = to(name + ".svg");
        write_svg(out, of);
    };
    const machine_report machine = page_samples::machine();
    const std::vector<roofline_point> operations = page_samples::operations(), odd = page_samples::hostile_operations();
    const page_options everything{
        .agreement = "all 3 values agree\n", .operations = operations, .machine = &machine, .footer = "pages FOLDER"};
    html("comparison", page_samples::ordinary(), everything);
    html("comparison_hostile", page_samples::hostile(), page_options{.operations = odd});
    html("comparison_large", page_samples::ordinary(100'000));
    html("sweep", page_samples::sweep());
    html("roofline", std::span<const roofline_point>(operations), page_options{.machine = &machine});
    std::vector<page_case> cases(2);
    cases[0] = {"seed", "(2, 3, 8, 8, 16)", page_samples::ordinary(), "all 384 values agree", operations};
    cases[1] = {"bad", "(1, 1, 1, 1, 1)", page_samples::ordinary(), "1 of 2 values differ", {}};
    cases[1].comparison.arms[1].verdict = verdict::mismatch;
    cases[1].comparison.arms[1].reason = "1 of 2 values differ";
    html("profile", std::span<const page_case>(cases));
    svg("comparison", page_samples::ordinary());
    svg("sweep", page_samples::sweep());
    svg("roofline", std::span<const roofline_point>(operations));
    std::ofstream race = to("race.svg");
    std::vector<plot_interval> rows;
    for (int i = 0; i < 20; ++i) {
        const double ratio = 0.9 + 0.07 * i;
        rows.push_back(
            {"(1,12,197,197," + std::to_string(i) + ") onednn", interval{ratio, ratio / 1.05, ratio * 1.05}});
    }
    race << intervals_svg(rows, 720, "time of the best peer / time of fused", detail::plot_style);
    return race ? 0 : 1;
}
