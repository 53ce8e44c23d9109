// What it costs to include a header: processor time of the compiler on a file that holds nothing else, the least of
// several runs, taken in turn so that a busy machine disturbs all alike. Prints; asserts nothing.
//
//     inclusion_cost <compiler line, with -I, without a file> [runs]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace {

struct subject {
    const char* name;
    std::vector<std::string> headers;
    double seconds = 1e9;
};

double children_seconds() {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void time_once(subject& s, const std::string& compiler, const std::string& stem) {
    {
        std::ofstream file(stem + ".cpp");
        for (const std::string& header : s.headers) file << "#include <" << header << ">\n";
    }
    const double before = children_seconds();
    const std::string line = compiler + " -c " + stem + ".cpp -o " + stem + ".o";
    if (std::system(line.c_str()) != 0) std::exit(1);
    s.seconds = std::min(s.seconds, children_seconds() - before);
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return 2;
    const int runs = count > 2 ? std::atoi(arguments[2]) : 5;
    std::vector<subject> subjects{
        {"nothing", {}},
        {"<chrono> <vector> <string> <functional> <ostream>", {"chrono", "vector", "string", "functional", "ostream"}},
        {"headwise/harness.hpp", {"headwise/harness.hpp"}},
        {"headwise/harness/agreement.hpp", {"headwise/harness/agreement.hpp"}},
        {"<Eigen/Core>", {"Eigen/Core"}},
        {"headwise/scores_loop.hpp", {"headwise/scores_loop.hpp"}},
        {"headwise/scores.hpp", {"headwise/scores.hpp"}},
        {"headwise/headwise.hpp", {"headwise/headwise.hpp"}},
    };
    const char* temporary = std::getenv("TMPDIR");
    const std::string stem =
        std::string(temporary != nullptr ? temporary : "/tmp") + "/inclusion_cost_" + std::to_string(getpid());
    for (int run = 0; run < runs; ++run)
        for (subject& s : subjects) time_once(s, arguments[1], stem);
    for (const char* ending : {".cpp", ".o"}) std::remove((stem + ending).c_str());

    const auto row = [](const subject& s, const subject& of) {
        std::printf("%-52s %6.3f s  %5.2f x\n", s.name, s.seconds, s.seconds / of.seconds);
    };
    for (std::size_t i = 0; i < subjects.size(); ++i) row(subjects[i], subjects[i < 4 ? 1 : 4]);
}
