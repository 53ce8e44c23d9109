// The race: attention scores by our loop, by our fused routine, and by each library that was found. See --help.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "contender.hpp"
#include "options.hpp"
#include "print.hpp"
#include "race.hpp"

namespace {

using race::contender;

/// A peer's way in: everything that it can do with so many threads.
struct entry {
    const char* name;
    std::vector<contender> (*contenders)(int threads);
};

const std::vector<entry> found_at_configuration {
#if defined(HEADWISE_RACE_EIGEN)
    {"Eigen", race::eigen_contenders},
#endif
#if defined(HEADWISE_RACE_OPENBLAS)
        {"OpenBLAS", race::openblas_contenders},
#endif
#if defined(HEADWISE_RACE_BLIS)
        {"BLIS", race::blis_contenders},
#endif
#if defined(HEADWISE_RACE_ONEDNN)
        {"oneDNN", race::onednn_contenders},
#endif
#if defined(HEADWISE_RACE_LIBXSMM)
        {"libxsmm", race::libxsmm_contenders},
#endif
};

/// Everyone, ours first. What is left out says so, in one line each.
std::vector<contender> all_contenders(int threads) {
    for (const std::string& name : race::split(HEADWISE_RACE_MISSING))
        if (!name.empty()) std::fprintf(stderr, "left out: %s (not found when this program was built)\n", name.c_str());
    std::vector<contender> all = race::headwise_contenders();
    for (const entry& peer : found_at_configuration) {
        try {
            for (contender& c : peer.contenders(threads)) all.push_back(std::move(c));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "left out: %s (%s)\n", peer.name, error.what());
        }
    }
    return all;
}

/// The subject, and those whose name contains one of `only`.
std::vector<contender> chosen(std::vector<contender> all, const std::vector<std::string>& only) {
    if (only.empty()) return all;
    const auto left_out = [&](const contender& c) {
        return std::none_of(only.begin(), only.end(),
                            [&](const std::string& part) { return c.name.find(part) != std::string::npos; });
    };
    all.erase(std::remove_if(all.begin() + 1, all.end(), left_out), all.end());
    return all;
}

template <class Scalar>
int run(const race::options& o) {
    const std::vector<contender> who = chosen(all_contenders(o.threads), o.only);
    race::report report(o, who, sizeof(Scalar) == 4 ? "float" : "double");
    for (const race::shape& s : o.shapes.empty() ? race::grid : o.shapes)
        report.add(race::race_shape<Scalar>(s, who, o));
    std::vector<race::pair_of_shapes> pairs;
    if (o.extra) pairs = race::extra_pairs;
    if (o.extra && o.threads > 1)
        for (const race::shape& s : race::grid) pairs.push_back({s.text() + " on all threads against one", s, s, true});
    for (const race::pair_of_shapes& pair : pairs) report.add(race::race_pair<Scalar>(pair, who[0], o));
    return report.finish() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    race::options o;
    try {
        o = race::parse({arguments + 1, arguments + count});
    } catch (const std::invalid_argument& refused) {
        std::fprintf(stderr, "race_peers: %s\n", refused.what());
        return 2;
    }
    if (o.help) return std::fputs(race::usage, stdout), 0;
    try {
        return o.in_double ? run<double>(o) : run<float>(o);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "race_peers: %s\n", error.what());
        return 1;
    }
}
