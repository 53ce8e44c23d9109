// isclose against the answers of torch.isclose. Built several times, with flags that tempt a compiler to other answers.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <headwise/harness/agreement.hpp>

namespace {

const std::string data_folder = HEADWISE_TEST_DATA;

std::vector<char> bytes_of(const std::string& name) {
    std::ifstream file(data_folder + "/" + name, std::ios::binary);
    REQUIRE_MESSAGE(file, name);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The values of a version-1 .npy file, whatever its shape.
template <class T>
std::vector<T> values_of(const std::string& name) {
    const std::vector<char> bytes = bytes_of(name);
    const std::size_t start = 10u + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
    std::vector<T> values((bytes.size() - start) / sizeof(T));
    std::memcpy(values.data(), bytes.data() + start, values.size() * sizeof(T));
    return values;
}

/// A number as text, without trusting a library built with -ffast-math to parse infinities or subnormals.
template <class T>
T parsed(const std::string& text) {
    const headwise::detail::exact_subnormals guard;
    if (text == "nan") return std::numeric_limits<T>::quiet_NaN();
    const double value = std::strtod(text.c_str(), nullptr);
    return static_cast<T>(value);
}

struct tally {
    std::size_t rows = 0, disagreements = 0;
    std::string first;
};

/// Every way to ask: one pair; an array of a vector's length and an odd one, where the block test decides.
template <class T>
void check(tally& counts, const T& a, const T& b, const headwise::allclose_options& options, bool expected) {
    ++counts.rows;
    bool agrees = headwise::isclose(a, b, options) == expected;
    for (const std::size_t length : {1u, 37u, 64u}) {
        std::vector<T> as(length), bs(length);
        for (std::size_t i = 0; i < length; ++i) std::memcpy(&as[i], &a, sizeof a), std::memcpy(&bs[i], &b, sizeof b);
        agrees = agrees && headwise::allclose(as, bs, options) == expected;
        agrees = agrees && headwise::close_report(as, bs, options).matches == expected;
        std::memset(as.data(), 0, (length - 1) * sizeof(T)), std::memset(bs.data(), 0, (length - 1) * sizeof(T));
        agrees = agrees && headwise::allclose(as, bs, options) == expected;
    }
    if (agrees) return;
    ++counts.disagreements;
    if (counts.first.empty()) {
        std::ostringstream text;
        text << "row " << counts.rows << ": a " << a << ", b " << b << ", rtol " << options.rtol << ", atol "
             << options.atol << ", equal_nan " << options.equal_nan << ", expected " << expected;
        counts.first = text.str();
    }
}

template <class T>
tally random_rows(const std::string& prefix) {
    const auto a = values_of<T>(prefix + "_a.npy"), b = values_of<T>(prefix + "_b.npy");
    const auto expected = values_of<std::uint8_t>(prefix + "_expected.npy");
    const auto tolerances = values_of<double>(prefix + "_tolerance.npy");
    REQUIRE(a.size() >= 4000);
    REQUIRE(tolerances.size() == 2 * a.size());
    tally counts;
    for (std::size_t i = 0; i < a.size(); ++i)
        check(counts, a[i], b[i], {.rtol = tolerances[2 * i], .atol = tolerances[2 * i + 1]}, expected[i] != 0);
    return counts;
}

}  // namespace

TEST_CASE("torch's answers, edge by edge") {
    const std::vector<char> bytes = bytes_of("isclose_edges.tsv");
    std::istringstream lines(std::string(bytes.begin(), bytes.end()));
    std::string line;
    std::getline(lines, line);
    tally counts;
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::string type, a, b, rtol, atol;
        bool equal_nan = false, expected = false;
        fields >> type >> a >> b >> rtol >> atol >> equal_nan >> expected;
        REQUIRE_MESSAGE(fields, line);
        const headwise::allclose_options options{parsed<double>(rtol), parsed<double>(atol), equal_nan};
        if (type == "f32") check(counts, parsed<float>(a), parsed<float>(b), options, expected);
        else check(counts, parsed<double>(a), parsed<double>(b), options, expected);
    }
    INFO(counts.first);
    CHECK(counts.rows >= 120);
    CHECK(counts.disagreements == 0);
}

TEST_CASE("torch's answers, random float pairs around the limit") {
    const tally counts = random_rows<float>("isclose_f32");
    INFO(counts.first);
    CHECK(counts.disagreements == 0);
}

TEST_CASE("torch's answers, random double pairs around the limit") {
    const tally counts = random_rows<double>("isclose_f64");
    INFO(counts.first);
    CHECK(counts.disagreements == 0);
}
