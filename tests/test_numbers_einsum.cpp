// NaN, infinities, subnormals and signed zeros in einsum, of every kind of formula, on every target: each output is the
// chain of multiply-adds that its indices name.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <headwise/einsum.hpp>

#include "special_values.hpp"

using namespace headwise;
using test::planted, test::sort, test::sort_of, test::special_values;

namespace {

constexpr std::string_view letters = "bhlmde";
constexpr std::array<std::ptrdiff_t, 6> extents{2, 3, 6, 9, 5, 4};

/// The values of the six indices.
using index = std::array<std::ptrdiff_t, 6>;

/// The axes of one operand: an index each, and 1 before them.
struct term {
    std::string names;

    [[nodiscard]] shape4 shape() const {
        shape4 result{1, 1, 1, 1};
        for (std::size_t i = 0; i < names.size(); ++i) result[4 - names.size() + i] = extents[letters.find(names[i])];
        return result;
    }
    template <class Scalar>
    [[nodiscard]] const Scalar& at(const tensor<Scalar>& t, const index& values) const {
        shape4 i{};
        for (std::size_t axis = 0; axis < names.size(); ++axis)
            i[4 - names.size() + axis] = values[letters.find(names[axis])];
        return t(i[0], i[1], i[2], i[3]);
    }
};

/// Calls `visit(values)` for every value of the indices in `names`, the last of them the fastest, the others as they
/// are.
template <class Visit>
void each(std::string_view names, index values, const Visit& visit) {
    if (names.empty()) return visit(values);
    const std::size_t first = letters.find(names[0]);
    for (values[first] = 0; values[first] < extents[first]; ++values[first]) each(names.substr(1), values, visit);
}

/// How many outputs are not, bit for bit, the chain of multiply-adds; or, where the target has none, of another sort.
/// (A product by itself may overflow where a multiply-add does not.)
template <class Scalar>
std::ptrdiff_t wrong(const std::array<term, 3>& terms, const tensor<Scalar>& a, const tensor<Scalar>& b,
                     const tensor<Scalar>& out, isa name) {
    const term &of_a = terms[0], &of_b = terms[1], &of_out = terms[2];
    std::string summed;
    for (const char c : of_a.names)
        if (of_out.names.find(c) == std::string::npos) summed += c;
    std::ptrdiff_t bad = 0;
    each(of_out.names, {}, [&](const index& place) {
        Scalar chain = 0, apart = 0;
        each(summed, place, [&](const index& i) {
            const Scalar x = of_a.at(a, i), y = of_b.at(b, i);
            const volatile Scalar product = x * y;
            chain = std::fma(x, y, chain), apart += product;
        });
        const Scalar is = of_out.at(out, place);
        if (sort_of(is) != sort_of(chain)) bad += name != isa::baseline || sort_of(is) != sort_of(apart);
        else if (name != isa::baseline && sort_of(is) != sort::nan) bad += std::memcmp(&is, &chain, sizeof is) != 0;
    });
    return bad;
}

}  // namespace

TEST_CASE_TEMPLATE("special values of a and of b, met or alone, in formulas of every kind", Scalar, float, double) {
    // scores; values; a matrix product; several columns, and several summed indices; nothing summed; a loop over calls
    for (const std::array<term, 3>& terms : {std::array<term, 3>{{{"bhld"}, {"bhmd"}, {"bhlm"}}},
                                             {{{"bhlm"}, {"bhmd"}, {"bhld"}}},
                                             {{{"lm"}, {"md"}, {"ld"}}},
                                             {{{"bld"}, {"dhe"}, {"blhe"}}},
                                             {{{"blhe"}, {"hed"}, {"bld"}}},
                                             {{{"l"}, {"m"}, {"ml"}}},
                                             {{{"lm"}, {"m"}, {"l"}}},
                                             {{{"bld"}, {"ehd"}, {"lebh"}}},
                                             {{{"bhle"}, {"bhle"}, {"bhle"}}}}) {
        const std::string text = terms[0].names + "," + terms[1].names + "->" + terms[2].names;
        CAPTURE(text);
        auto a = randn<Scalar>(terms[0].shape(), 1), b = randn<Scalar>(terms[1].shape(), 2);
        for (const isa name : supported_isas()) {
            CAPTURE(to_string(name));
            std::ptrdiff_t bad = 0;
            for (const Scalar in_a : special_values<Scalar>())
                for (const Scalar in_b : special_values<Scalar>())
                    for (const std::ptrdiff_t part : {0, 1, 2}) {  // the first element, the middle one, the last
                        const planted in_first(a.data()[(a.size() - 1) * part / 2], in_a),
                            in_second(b.data()[(b.size() - 1) * part / 2], in_b);
                        tensor<Scalar> out(terms[2].shape());
                        std::fill_n(out.data(), out.size(), std::numeric_limits<Scalar>::quiet_NaN());
                        einsum(runtime_formula(text), a, b, out, {.isa = name});
                        bad += wrong(terms, a, b, out, name);
                    }
            CHECK(bad == 0);
        }
    }
}
