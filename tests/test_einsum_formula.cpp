#include <headwise/einsum_formula.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

using namespace headwise;

namespace {

template <std::size_t N>
struct literal {
    char text[N];
    constexpr literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

/// Whether a formula passes at compile time: an error in a constant is none of a type's, but makes it no constant.
template <literal Formula>
concept compiles = requires {
    typename std::bool_constant<(einsum_formula(runtime_formula(Formula.text)), true)>;
};

std::string refusal(const std::string& text) {
    try {
        const einsum_formula formula = runtime_formula(text);
        return "read: " + std::string(formula.text);
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
}

}  // namespace

static_assert(compiles<"bhld,bhmd->bhlm"> && compiles<"bhlm,bhmd->bhld"> && compiles<"bhlm,bhld->bhmd">);
static_assert(compiles<"ij,jk->ik"> && compiles<" i j , j k -> i k "> && compiles<"Aa,aB->AB"> && compiles<",->">);
static_assert(compiles<"bld,dhe->blhe"> && compiles<"bhld,bhld->">);
static_assert(!compiles<""> && !compiles<"ij,jk"> && !compiles<"ij->ij"> && !compiles<"ij,jk,kl->il">);
static_assert(!compiles<"ii,ij->j"> && !compiles<"ij,jj->i"> && !compiles<"ij,jk->iik">);
static_assert(!compiles<"ij,jk->iz"> && !compiles<"ij,k->i"> && !compiles<"i,kj->i"> && !compiles<"ij,j k->i">);
static_assert(!compiles<"...ij,jk->ik"> && !compiles<"i1,1k->ik"> && !compiles<"abcde,e->abcd"> &&
              !compiles<"ij,jk->i-k"> && !compiles<"ij,jk=>ik">);

// A literal is read at compile time; a string that is not constant is not taken for one.
static_assert(std::is_convertible_v<runtime_formula, einsum_formula>);
static_assert(!std::is_convertible_v<std::string_view, runtime_formula>);
static_assert(std::is_trivially_copyable_v<einsum_formula>);

TEST_CASE("what a formula cannot be, and what is said of it") {
    const auto says = [](const std::string& formula, const std::string& what) {
        CAPTURE(formula);
        CHECK(refusal(formula) == "einsum(\"" + formula + "\"): " + what);
    };
    says("bhld,bhmd", "has no \"->\": write the indices of the result after it");
    says("", "has no \"->\": write the indices of the result after it");
    says("ij>ij", "has no \"->\": write the indices of the result after it");
    says("ij->ij", "must have two operands, with one comma between them");
    says("ij,jk,kl->il", "must have two operands, with one comma between them");
    says("...ij,...jk->...ik", "\"...\" is not done: name every axis");
    says("i1,jk->ik", "'1' is no index: those are the letters a-z and A-Z");
    says("ij,jk->i,k", "',' is no index: those are the letters a-z and A-Z");
    says("ij,jk->ik->", "'-' is no index: those are the letters a-z and A-Z");
    says("i\tj,jk->ik", "'\t' is no index: those are the letters a-z and A-Z");
    says("abcde,e->abcd", "index 'e' is one too many: tensors have four axes");
    says("e,abcde->abcd", "index 'e' is one too many: tensors have four axes");
    says("abc,cde->abdex", "index 'x' is one too many: tensors have four axes");
    says("ii,ij->j", "index 'i' is twice in one place: diagonals and traces are not done");
    says("ij,jj->i", "index 'j' is twice in one place: diagonals and traces are not done");
    says("ij,jk->iki", "index 'i' is twice in one place: diagonals and traces are not done");
    says("ij,jk->iz", "index 'z' of the result is in no operand");
    says("ij,k->ik", "index 'j' is in a alone: sum over it first");
    says("i,kj->ik", "index 'j' is in b alone: sum over it first");
}

TEST_CASE("spaces are skipped; the text stays as it was written") {
    const std::string text = " b h l d , bhmd  -> bhl m";
    const einsum_formula formula = runtime_formula(text);
    CHECK(formula.text == text);
    CHECK(formula.a == detail::axis_names{'b', 'h', 'l', 'd'});
    CHECK(formula.b == detail::axis_names{'b', 'h', 'm', 'd'});
    CHECK(formula.out == detail::axis_names{'b', 'h', 'l', 'm'});
}

TEST_CASE("the product behind a formula") {
    using order = detail::axis_order;
    constexpr einsum_formula scores = "bhld,bhmd->bhlm";
    static_assert(scores.in_order && !scores.exchanged && scores.product.one_each);
    static_assert(scores.product.first == 'b' && scores.product.second == 'h' && scores.product.row == 'l' &&
                  scores.product.column == 'm' && scores.product.depth == 'd');

    constexpr einsum_formula values = "bhlm,bhmd->bhld";
    static_assert(!values.in_order && values.q_order == order{0, 1, 2, 3} && values.k_order == order{0, 1, 3, 2} &&
                  values.out_order == order{0, 1, 2, 3});

    // The names are the last axes; those without one go where the product lacks an index.
    constexpr einsum_formula matrices = "ij,kj->ik", vector = "j,ij->i";
    static_assert(matrices.in_order && vector.in_order);
    static_assert(vector.a == detail::axis_names{'\0', '\0', '\0', 'j'} && vector.product.row == '\0');
    constexpr einsum_formula columns = "ji,bj->ib";
    static_assert(columns.q_order == order{0, 1, 3, 2} && columns.out_order == order{0, 1, 2, 3});
    constexpr einsum_formula spread = "hdl,bhd->lbh";  // no columns; b is a row of b's
    static_assert(spread.product.second == 'h' && spread.q_order == order{0, 1, 3, 2});

    // The last index of the result becomes a column: a and b change places for it.
    constexpr einsum_formula transposed = "bhld,bhmd->bhml";
    static_assert(transposed.exchanged && transposed.product.column == 'l' && transposed.product.row == 'm');
    static_assert(!einsum_formula("lb,mb->lmb").exchanged && einsum_formula("ij,j->i").exchanged);

    static_assert(!einsum_formula("bld,dhe->blhe").product.one_each &&
                  !einsum_formula("bhle,bhle->bhl").product.one_each);
    static_assert(einsum_formula("bhd,bhd->bh").product.one_each && !einsum_formula("hld,hle->de").product.one_each);
}
