// einsum against its definition: plain loops over every index of the formula, summed in double.
#include <headwise/einsum.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "layouts.hpp"
#include "reference.hpp"
#include "refusal.hpp"

using namespace headwise;
using test::laid_out, test::refusal;

namespace {

/// What a formula means, for indices of given extents.
struct definition {
    std::string a, b, out, indices{};
    std::vector<std::ptrdiff_t> extents{};

    /// Of the indices listed, those that the formula has.
    definition(const std::string& formula, const std::vector<std::pair<char, std::ptrdiff_t>>& list)
        : a(formula.substr(0, formula.find(','))),
          b(formula.substr(a.size() + 1, formula.find('-') - a.size() - 1)),
          out(formula.substr(formula.find('>') + 1)) {
        for (const auto& [index, extent] : list)
            if ((a + b).find(index) != std::string::npos) indices += index, extents.push_back(extent);
    }

    [[nodiscard]] std::ptrdiff_t extent(char index) const { return extents[indices.find(index)]; }

    [[nodiscard]] shape4 shape(const std::string& term) const {
        shape4 result{1, 1, 1, 1};
        for (std::size_t i = 0; i < term.size(); ++i) result[4 - term.size() + i] = extent(term[i]);
        return result;
    }

    /// The element that the values of the indices name.
    template <class View>
    [[nodiscard]] auto& at(const View& view, const std::string& term, const std::vector<std::ptrdiff_t>& values) const {
        std::array<std::ptrdiff_t, 4> i{};
        for (std::size_t axis = 0; axis < term.size(); ++axis)
            i[4 - term.size() + axis] = values[indices.find(term[axis])];
        return view(i[0], i[1], i[2], i[3]);
    }

    /// Calls f with every combination of values.
    template <class F>
    void each(F f) const {
        std::vector<std::ptrdiff_t> values(indices.size());
        for (;;) {
            f(values);
            std::size_t i = values.size();
            while (i > 0 && ++values[i - 1] == extents[i - 1]) values[--i] = 0;
            if (i == 0) return;
        }
    }

    /// Empty, or the first element of `result` that is further from the sum than gamma_D allows.
    template <class Scalar>
    [[nodiscard]] std::string mismatch(tensor_view<const Scalar> result, tensor_view<const Scalar> x,
                                       tensor_view<const Scalar> y, double scale = 1) const {
        if (result.shape() != shape(out)) return "shape " + detail::text_of(result.shape());
        tensor<double> sums(shape(out)), magnitudes(shape(out));
        std::ptrdiff_t depth = 1;
        for (const char index : indices)
            if (out.find(index) == out.npos) depth *= extent(index);
        each([&](const auto& values) {
            const double product = static_cast<double>(at(x, a, values)) * static_cast<double>(at(y, b, values));
            at(sums.view(), out, values) += scale * product;
            at(magnitudes.view(), out, values) += std::abs(scale * product);
        });
        const auto [B, H, L, M] = result.shape();
        for (std::ptrdiff_t i = 0; i < result.size(); ++i) {
            const shape4 where = {i / M / L / H, i / M / L % H, i / M % L, i % M};
            const double is = static_cast<double>(result(where[0], where[1], where[2], where[3]));
            if (!(std::abs(is - sums.data()[i]) <= 2 * test::gamma<Scalar>(depth + 1) * magnitudes.data()[i]))
                return "at " + detail::text_of(where) + " is " + std::to_string(is) + ", must be " +
                       std::to_string(sums.data()[i]);
        }
        return {};
    }
};

/// Random operands of a formula, and what einsum makes of them.
template <class Scalar>
struct trial {
    definition what;
    tensor<Scalar> a, b;
    trial(const std::string& formula, const std::vector<std::pair<char, std::ptrdiff_t>>& extents)
        : what(formula, extents), a(randn<Scalar>(what.shape(what.a), 1)), b(randn<Scalar>(what.shape(what.b), 2)) {}

    [[nodiscard]] std::string formula() const { return what.a + "," + what.b + "->" + what.out; }
    [[nodiscard]] std::string mismatch(const tensor<Scalar>& result, double scale = 1) const {
        return what.mismatch<Scalar>(result, a, b, scale);
    }
    [[nodiscard]] std::string mismatch() const { return mismatch(einsum(runtime_formula(formula()), a, b)); }
};

/// Of a temporary too, until the end of the expression.
tensor_view<const float> as_const_view(const tensor<float>& values) { return values.view(); }

template <class Body>
void with_every_order(std::string indices, const Body& body) {
    std::sort(indices.begin(), indices.end());
    do body(indices);
    while (std::next_permutation(indices.begin(), indices.end()));
}

template <class Scalar>
bool same_bits(const tensor<Scalar>& x, const tensor<Scalar>& y) {
    return x.shape() == y.shape() &&
           std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(Scalar)) == 0;
}

template <class To, class From>
tensor<To> converted(const tensor<From>& from) {
    tensor<To> result(from.shape());
    std::transform(from.data(), from.data() + from.size(), result.data(), [](From x) { return static_cast<To>(x); });
    return result;
}

const std::vector<std::pair<char, std::ptrdiff_t>> extents = {{'b', 2}, {'h', 3},  {'l', 7},  {'m', 6}, {'d', 5},
                                                              {'e', 4}, {'i', 19}, {'j', 21}, {'k', 37}};

}  // namespace

TEST_CASE_TEMPLATE("one index of each kind, in every order of every operand's axes", Scalar, float, double) {
    int formulas = 0;
    with_every_order("bhld", [&](const std::string& a) {
        with_every_order("bhmd", [&](const std::string& b) {
            with_every_order("bhlm", [&](const std::string& out) {
                const trial<Scalar> t(a + "," + b + "->" + out, {{'b', 2}, {'h', 3}, {'l', 2}, {'m', 4}, {'d', 3}});
                CAPTURE(t.formula());
                REQUIRE(t.mismatch() == "");
                ++formulas;
            });
        });
    });
    CHECK(formulas == 24 * 24 * 24);
}

TEST_CASE_TEMPLATE("matrices, vectors, numbers, and kinds without an index", Scalar, float, double) {
    for (const char* formula : {"ij,jk->ik",   "ij,kj->ik",   "ji,jk->ik",  "ij,jk->ki", "kj,ji->ki", "ij,j->i",
                                "i,ij->j",     "j,ij->i",     "i,i->",      "i,j->ij",   "i,j->ji",   "bij,bjk->bik",
                                "bij,jk->bik", "ij,bjk->bik", "bij,bj->bi", "bi,bi->b",  "bi,bi->bi", "bij,bij->bij",
                                "bi,bj->bij",  "bi,b->bi",    "b,bi->ib",   "i,->i",     ",i->i",     ",->"}) {
        const trial<Scalar> t(formula, extents);
        CAPTURE(formula);
        CHECK(t.mismatch() == "");
    }
}

TEST_CASE_TEMPLATE("several indices of one kind: merged, as further heads, or in a loop", Scalar, float, double) {
    const auto check = [](const std::string& formula) {
        CAPTURE(formula);
        CHECK(trial<Scalar>(formula, extents).mismatch() == "");
    };
    for (const char* formula : {"bld,dhe->blhe", "bld,hde->bhle", "bld,hed->blhe", "blhe,hed->bld", "bld,ble->de",
                                "bhld,bhld->", "bhld,bhle->de", "lbd,lbe->de", "bhld,d->bhl", "blhd,hd->bl"})
        check(formula);
    with_every_order("behl", [&](const std::string& out) { check("bld,ehd->" + out); });
    with_every_order("bdhl", [&](const std::string& out) { check("bl,hd->" + out); });  // sums over nothing
    with_every_order("bhle", [&](const std::string& b) {  // three batch indices, four, and every sum of two to four
        check("bhle," + b + "->bhl");
        check("bhle," + b + "->bhle");
        check("bhle," + b + "->elhb");
    });
}

TEST_CASE("summed indices that step as one through both operands are one; others are refused, and which") {
    const auto dense = randn<float>({1, 3, 4, 5}, 1), other = randn<float>({1, 3, 4, 5}, 2);
    const trial<float> t("hld,hle->de", {{'h', 3}, {'l', 4}, {'d', 5}, {'e', 5}});
    // (h,l) and (l,h) buffers: each steps as one where the other does not.
    const auto swapped = [](const tensor<float>& x) {
        return tensor_view<const float>(x.data(), {1, 3, 4, 5}, {60, 5, 15, 1});
    };
    CHECK(t.what.mismatch<float>(as_const_view(einsum("hld,hle->de", dense, other)), dense, other) == "");
    CHECK(t.what.mismatch<float>(as_const_view(einsum("hld,hle->de", swapped(dense), swapped(other))), swapped(dense),
                                 swapped(other)) == "");
    CHECK(refusal([&] { (void)einsum("hld,hle->de", dense, swapped(other)); }) ==
          "einsum(\"hld,hle->de\"): the summed indices 'h', 'l' do not step as one axis in a, strides (60, 20, 5, 1), "
          "and in b, strides (60, 5, 15, 1): make a dense copy first");
    // An index of extent 1 takes no step, whatever its stride.
    const tensor_view<const float> one(other.data(), {1, 1, 4, 5}, {0, 999, 15, 1}),
        two(dense.data(), {1, 1, 4, 5}, {0, -9, 5, 1});
    CHECK(definition("hld,hle->de", {{'h', 1}, {'l', 4}, {'d', 5}, {'e', 5}})
              .mismatch<float>(as_const_view(einsum("hld,hle->de", one, two)), one, two) == "");
}

TEST_CASE_TEMPLATE("every layout of a, b and out; nothing else is read or written", Scalar, float, double) {
    for (const char* formula : {"bhld,bhmd->bhlm", "bhlm,bhmd->bhld", "bhlm,bhld->bhmd", "lhd,mhd->hml",
                                "bld,ehd->blhe", "blhe,blhe->blhe"}) {
        const trial<Scalar> t(formula, extents);
        const einsum_formula read = runtime_formula(formula);
        for (const test::layout& how : test::layouts()) {
            CAPTURE(formula);
            CAPTURE(how.name);
            const laid_out<Scalar> a(t.a, how), b(t.b, how), out(t.what.shape(t.what.out), how);
            CHECK(t.mismatch(einsum(read, a.view(), t.b)) == "");
            CHECK(t.mismatch(einsum(read, t.a, b.view())) == "");
            einsum(read, a.view(), b.view(), out.view());
            CHECK(t.what.template mismatch<Scalar>(out.view(), t.a, t.b) == "");
            CHECK(out.written() == out.view().size());
        }
    }
}

TEST_CASE_TEMPLATE("the same bits as the routine itself on permuted views, with every option", Scalar, float, double) {
    const auto q = randn<Scalar>({2, 6, 130, 61}, 1), k = randn<Scalar>({2, 6, 150, 61}, 2);
    const auto dout = randn<Scalar>({2, 6, 130, 150}, 3);  // enough for a second thread
    const tensor_view<const Scalar> k_transposed(k.data(), {2, 6, 61, 150}, {6 * 150 * 61, 150 * 61, 1, 61});
    for (const isa name : supported_isas())
        for (const int threads : {1, 3}) {
            const scores_options options{.threads = threads, .scale = 0.3, .isa = name};
            CHECK(same_bits(einsum("bhld,bhmd->bhlm", q, k, options), batched_scores_vectorized(q, k, options)));
            CHECK(same_bits(einsum("bhlm,bhmd->bhld", dout, k, options),
                            batched_scores_vectorized(dout, k_transposed, options)));
            // a and b exchanged, for a result whose last index is a's.
            CHECK(same_bits(einsum("bhmd,bhld->bhlm", k, q, options), batched_scores_vectorized(q, k, options)));
            CHECK(same_bits(einsum("bhld,bhmd->bhml", q, k, options), batched_scores_vectorized(k, q, options)));
        }
}

TEST_CASE_TEMPLATE("sixteen bits: the sums of floats, or these rounded once", Scalar, Eigen::bfloat16, Eigen::half) {
    // The best but AVX-512 BF16, whose sums are others.
    const scores_options options{.scale = 0.7, .isa = supported_isas().back()};
    for (const char* formula :
         {"bhld,bhmd->bhlm", "bhlm,bhmd->bhld", "bhld,bhmd->blhm", "bld,dhm->blhm", "bhld,bhld->bhl"})
        for (const std::ptrdiff_t extent : {0, 7, 20}) {  // also of what is summed
            const trial<Scalar> x(formula, {{'b', 2}, {'h', 3}, {'l', 5}, {'m', extent}, {'d', extent}});
            const einsum_formula read = runtime_formula(x.formula());
            const auto must = einsum(read, converted<float>(x.a), converted<float>(x.b), options);
            tensor<float> exact(must.shape());
            einsum(read, x.a, x.b, exact, options);
            CHECK(same_bits(exact, must));
            CHECK(same_bits(einsum(read, x.a, x.b, options), converted<Scalar>(must)));
        }
}

TEST_CASE("options reach every formula, looped ones too") {
    for (const char* formula : {"bhld,bhmd->bhlm", "bhlm,bhmd->bhld", "bld,ehd->hble", "bhle,bhle->bhl"}) {
        CAPTURE(formula);
        const trial<double> t(formula, extents);
        const einsum_formula read = runtime_formula(formula);
        CHECK(t.mismatch(einsum(read, t.a, t.b, {.scale = -0.25}), -0.25) == "");
        tensor<double> out(t.what.shape(t.what.out));
        einsum(read, t.a, t.b, out, {.scale = 3});
        CHECK(t.mismatch(out, 3) == "");
        CHECK(refusal([&] { (void)einsum(read, t.a, t.b, {.threads = -1}); }) ==
              "options.threads = -1: must be >= 0 (0: all)");
    }
}

TEST_CASE("tensors, views, const or not; outputs by name and by view") {
    auto q = randn<float>({1, 2, 3, 4}, 1);
    const auto k = randn<float>({1, 2, 5, 4}, 2);
    const tensor<float> expected = batched_scores_vectorized(q, k);
    tensor<float> out({1, 2, 3, 5});
    const tensor_view<const float> k_view = k.view();
    einsum("bhld,bhmd->bhlm", q.view(), k_view, out);
    CHECK(same_bits(out, expected));
    einsum("bhld,bhmd->bhlm", q, k, out.view(), {.scale = 1});
    CHECK(same_bits(out, expected));
    CHECK(same_bits(einsum("bhld,bhmd->bhlm", randn<float>({1, 2, 3, 4}, 1), k), expected));
    CHECK(same_bits(einsum("bhld,bhld->bhl", q, q), einsum("bhld,bhld->bhl", q.view(), tensor(q))));
}

TEST_CASE("no index summed over, or one of extent 0: zeros over an old output; an empty result: nothing") {
    constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();
    for (const char* formula : {"bhld,bhmd->bhlm", "bhlm,bhmd->bhld", "bld,ehd->blhe", "bhld,bhle->de"}) {
        CAPTURE(formula);
        const definition what(formula, {{'b', 2}, {'h', 3}, {'l', 0}, {'m', 0}, {'d', 4}, {'e', 5}});
        tensor<float> a(what.shape(what.a)), b(what.shape(what.b)), out(what.shape(what.out));
        std::fill_n(out.data(), out.size(), 42.0f);
        const tensor<float> result = einsum(runtime_formula(formula), a, b);
        CHECK(result.shape() == out.shape());
        einsum(runtime_formula(formula), a, b, out);
        CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 0 && !std::signbit(x); }));
    }
    // Extents whose product would overflow, but for a zero.
    const tensor_view<const float> a(nullptr, {huge, huge, 0, 3}), b(nullptr, {huge, huge, 0, 2});
    tensor<float> out({1, 1, 3, 2});
    out(0, 0, 2, 1) = 42;
    einsum("abcd,abce->de", a, b, out);
    CHECK(out(0, 0, 2, 1) == 0);
    float untouched = 42;
    einsum("hld,hmd->hlm", tensor<float>({1, 0, 3, 4}), tensor<float>({1, 0, 5, 4}),
           tensor_view(&untouched, {1, 0, 3, 5}));
    einsum("bld,ehd->blhe", tensor<float>({1, 0, 3, 4}), tensor<float>({1, 5, 6, 4}),
           tensor_view(&untouched, {0, 3, 6, 5}));
    CHECK(untouched == 42);
}

TEST_CASE("refused by name, before out is touched") {
    const auto a = randn<float>({2, 3, 4, 5}, 1);
    const auto b = randn<float>({2, 3, 6, 5}, 2);
    tensor<float> out({2, 3, 4, 6});
    std::fill_n(out.data(), out.size(), 42.0f);
    const auto into = [&](einsum_formula formula, const auto& x, const auto& y, auto&& result) {
        return refusal([&] { einsum(formula, x, y, result); });
    };
    using view = tensor_view<const float>;
    const std::string scores = "einsum(\"bhld,bhmd->bhlm\"): ";
    CHECK(into("bhld,bhmd->bhlm", a, view(b.data(), {2, 3, 6, 4}), out) ==
          scores + "index 'd' has extent 5 in a (2, 3, 4, 5) and 4 in b (2, 3, 6, 4)");
    CHECK(into("bhld,bhmd->bhlm", a, view(b.data(), {1, 3, 6, 5}), out) ==
          scores + "index 'b' has extent 2 in a (2, 3, 4, 5) and 1 in b (1, 3, 6, 5)");
    CHECK(into("bhld,bhmd->bhlm", a, b, tensor_view(out.data(), {2, 3, 3, 6})) ==
          scores + "index 'l' has extent 4 in a (2, 3, 4, 5) and 3 in out (2, 3, 3, 6)");
    CHECK(into("bhld,bhmd->bhlm", a, b, tensor_view(out.data(), {2, 3, 4, 5})) ==
          scores + "index 'm' has extent 6 in b (2, 3, 6, 5) and 5 in out (2, 3, 4, 5)");
    CHECK(into("bhld,bhmd->bhml", a, b, out) ==
          "einsum(\"bhld,bhmd->bhml\"): index 'l' has extent 4 in a (2, 3, 4, 5) and 6 in out (2, 3, 4, 6)");
    CHECK(into("hld,hmd->hlm", a, view(b.data(), {1, 3, 6, 5}), tensor_view(out.data(), {1, 3, 4, 6})) ==
          "einsum(\"hld,hmd->hlm\"): a (2, 3, 4, 5) has extent 2 at axis 0, which the formula does not name; it must "
          "be 1");
    CHECK(into("hld,hmd->hlm", view(a.data(), {1, 3, 4, 5}), b, tensor_view(out.data(), {1, 3, 4, 6})) ==
          "einsum(\"hld,hmd->hlm\"): b (2, 3, 6, 5) has extent 2 at axis 0, which the formula does not name; it must "
          "be 1");
    CHECK(into("hld,hmd->hlm", view(a.data(), {1, 3, 4, 5}), view(b.data(), {1, 3, 6, 5}), out) ==
          "einsum(\"hld,hmd->hlm\"): out (2, 3, 4, 6) has extent 2 at axis 0, which the formula does not name; it "
          "must be 1");
    CHECK(into("bhld,bhmd->bhlm", a, b, tensor_view(out.data(), {2, 2, 4, 6})) ==
          scores + "index 'h' has extent 3 in a (2, 3, 4, 5) and 2 in out (2, 2, 4, 6)");
    CHECK(into("bld,dhe->blhe", view(a.data(), {1, 2, 4, 5}), view(b.data(), {1, 5, 3, 2}),
               tensor_view(out.data(), {2, 4, 2, 3})) ==
          "einsum(\"bld,dhe->blhe\"): index 'h' has extent 3 in b (1, 5, 3, 2) and 2 in out (2, 4, 2, 3)");
    // The same extent in all of them is no better.
    const auto everywhere = [&](einsum_formula formula, const shape4& x, const shape4& y, const shape4& result) {
        return into(formula, view(a.data(), x), view(b.data(), y), tensor_view(out.data(), result));
    };
    CHECK(everywhere("hld,hmd->hlm", {2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 4, 6}).find("2 at axis 0") < 100);
    CHECK(everywhere("ld,md->lm", {1, 3, 4, 5}, {1, 3, 6, 5}, {1, 3, 4, 6}).find("3 at axis 1") < 100);
    CHECK(everywhere("j,ij->i", {1, 1, 2, 3}, {1, 1, 4, 3}, {1, 1, 2, 4}).find("2 at axis 2") < 100);
    CHECK(everywhere("ib,b->ib", {1, 1, 3, 2}, {1, 5, 1, 2}, {1, 5, 3, 2}).find("5 at axis 1") < 100);
    // Without an index of some kind, the axis in its place must be 1 too: row, column, summed.
    const auto unnamed = [&](einsum_formula formula, const shape4& x, const shape4& y) {
        return refusal([&] { (void)einsum(formula, view(a.data(), x), view(b.data(), y)); });
    };
    CHECK(unnamed("j,ij->i", {1, 1, 2, 3}, {1, 1, 4, 3}).find("a (1, 1, 2, 3) has extent 2 at axis 2") !=
          std::string::npos);
    CHECK(unnamed("ij,j->i", {1, 1, 2, 3}, {1, 1, 4, 3}).find("b (1, 1, 4, 3) has extent 4 at axis 2") !=
          std::string::npos);
    CHECK(unnamed("i,j->ij", {1, 1, 2, 3}, {1, 1, 2, 4}).find("a (1, 1, 2, 3) has extent 2 at axis 2") !=
          std::string::npos);
    CHECK(unnamed("hld,d->hl", {2, 3, 4, 5}, {1, 1, 1, 5}).find("a (2, 3, 4, 5) has extent 2 at axis 0") !=
          std::string::npos);
    CHECK(unnamed("bld,dhe->blhe", {1, 2, 4, 5}, {1, 4, 3, 2}) ==
          "einsum(\"bld,dhe->blhe\"): index 'd' has extent 5 in a (1, 2, 4, 5) and 4 in b (1, 4, 3, 2)");

    CHECK(into("bhld,bhmd->bhlm", a, b, tensor_view(out.data(), {2, 3, 4, 6}, {72, 24, 6, 0})) ==
          scores +
              "out (2, 3, 4, 6) with strides (72, 24, 6, 0): its elements overlap one another; each must have an "
              "address of its own");
    // By their own names, also where they change places.
    for (const char* formula : {"bhld,bhmd->bhlm", "bhld,bhmd->bhml", "bhld,bhmd->blhm"}) {
        const std::string quoted = std::string("einsum(\"") + formula + "\"): ";
        auto buffer = randn<float>({2, 3, 6, 8}, 3);
        const tensor<float> before = buffer;
        const auto square = randn<float>({2, 3, 6, 8}, 4);
        const tensor<float> dense = einsum(runtime_formula(formula), square, square);
        const tensor_view<float> inside(buffer.data(), dense.shape());
        CHECK(into(runtime_formula(formula), buffer, square, inside) ==
              quoted + "out " + detail::text_of(dense.shape()) +
                  " overlaps the memory of a (2, 3, 6, 8); the result needs memory of its own");
        CHECK(into(runtime_formula(formula), square, buffer, inside) ==
              quoted + "out " + detail::text_of(dense.shape()) +
                  " overlaps the memory of b (2, 3, 6, 8); the result needs memory of its own");
        CHECK(same_bits(buffer, before));
    }
    const std::string looped = "einsum(\"bhle,bhle->bhl\"): ";
    auto buffer = randn<float>({2, 3, 4, 5}, 3);
    CHECK(into("bhle,bhle->bhl", buffer, a, tensor_view(buffer.data() + 119, {1, 2, 3, 4}, {0, -12, -4, -1})) ==
          looped + "out (1, 2, 3, 4) overlaps the memory of a (2, 3, 4, 5); the result needs memory of its own");
    CHECK(into("bhle,bhle->bhl", a, buffer, tensor_view(buffer.data() + 119, {1, 2, 3, 4}, {0, -12, -4, -1})) ==
          looped + "out (1, 2, 3, 4) overlaps the memory of b (2, 3, 4, 5); the result needs memory of its own");
    CHECK(into("bhle,bhle->bhl", a, a, tensor_view(buffer.data(), {1, 2, 3, 4}, {0, 4, 4, 1})) ==
          looped +
              "out (1, 2, 3, 4) with strides (0, 4, 4, 1): its elements overlap one another; each must have an "
              "address of its own");
    CHECK(std::all_of(out.data(), out.data() + out.size(), [](float x) { return x == 42; }));
}
