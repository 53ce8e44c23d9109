// What batched_scores_loop and batched_scores_vectorized promise alike: PyTorch's scores, and refusals. Built twice, as
// released and with every assertion of Eigen and the standard library, because a refusal must come before those.
#include <headwise/headwise.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <headwise/doctest.hpp>

using namespace headwise;

namespace {

struct fault {
    const char* name;
    std::function<void()> call;
    const char* message;
};

constexpr float old = 1234.5f;

/// Operands in one buffer: q from 0, k from 1000, out from 2000 on.
struct operands {
    tensor<float> buffer{shape4{1, 1, 1, 4096}};
    operands() { std::fill_n(buffer.data(), buffer.size(), old); }

    [[nodiscard]] tensor_view<float> at(std::ptrdiff_t offset, const shape4& shape) {
        return {buffer.data() + offset, shape};
    }
    [[nodiscard]] tensor_view<float> out(const strides4& strides) {
        return {buffer.data() + 2000, {2, 3, 4, 6}, strides};
    }
    [[nodiscard]] bool untouched() const {
        return std::all_of(buffer.data(), buffer.data() + buffer.size(), [](float x) { return x == old; });
    }
};

/// Everything that an implementation must refuse of (q, k, out), and the sentence that it must say. `into(q, k, out)`
/// and `anew(q, k)` are its two forms.
template <class Into, class Anew>
std::vector<fault> faults_of(operands& o, const Into& into, const Anew& anew) {
    using view = tensor_view<float>;
    const view q = o.at(0, {2, 3, 4, 5}), k = o.at(1000, {2, 3, 6, 5}), out = o.at(2000, {2, 3, 4, 6});
    const auto call = [&into](const view& a, const view& b, const view& c) { return [=, &into] { into(a, b, c); }; };
    const auto returning = [&anew](const view& a, const view& b) { return [=, &anew] { anew(a, b); }; };
    const auto to_null = [=](const shape4& shape) { return [=] { (void)view(nullptr, shape); }; };
    const auto sized = [=, data = o.buffer.data()](const shape4& shape) { return [=] { (void)view(data, shape); }; };

#define HEADWISE_INPUTS(q_is, rule) "q " q_is " and k (2, 3, 6, 5) must have the same " rule
#define HEADWISE_SHAPE(out_is) "out " out_is " must have the shape of the result, (2, 3, 4, 6)"
#define HEADWISE_SELF(strides)                                                                                       \
    "out (2, 3, 4, 6) with strides " strides ": its elements overlap one another; each must have an address of its " \
                                             "own"
    constexpr const char* heads =
        "q (2, 2, 4, 5) and k (2, 3, 6, 5): the number of heads H (axis 1) of q must be a multiple of that of k";
    constexpr const char* of_q =
        "out (2, 3, 4, 6) overlaps the memory of q (2, 3, 4, 5); the result needs memory of its own";
    constexpr const char* of_k =
        "out (2, 3, 4, 6) overlaps the memory of k (2, 3, 6, 5); the result needs memory of its own";
    return {
        {"B differs", call(o.at(0, {1, 3, 4, 5}), k, out), HEADWISE_INPUTS("(1, 3, 4, 5)", "batch size B (axis 0)")},
        {"H differs", call(o.at(0, {2, 2, 4, 5}), k, out), heads},
        {"D differs", call(o.at(0, {2, 3, 4, 4}), k, out), HEADWISE_INPUTS("(2, 3, 4, 4)", "depth D (axis 3)")},
        {"D is 0 in q alone", call(o.at(0, {2, 3, 4, 0}), k, out), HEADWISE_INPUTS("(2, 3, 4, 0)", "depth D (axis 3)")},
        {"q is transposed", call(o.at(0, {2, 3, 5, 4}), k, out), HEADWISE_INPUTS("(2, 3, 5, 4)", "depth D (axis 3)")},
        {"q is empty", call(view(), k, out), HEADWISE_INPUTS("(0, 0, 0, 0)", "batch size B (axis 0)")},
        {"B differs, no out", returning(o.at(0, {1, 3, 4, 5}), k),
         HEADWISE_INPUTS("(1, 3, 4, 5)", "batch size B (axis 0)")},
        {"H differs, no out", returning(o.at(0, {2, 2, 4, 5}), k), heads},
        {"D differs, no out", returning(o.at(0, {2, 3, 4, 4}), k), HEADWISE_INPUTS("(2, 3, 4, 4)", "depth D (axis 3)")},

        {"out: B", call(q, k, o.at(2000, {1, 3, 4, 6})), HEADWISE_SHAPE("(1, 3, 4, 6)")},
        {"out: H", call(q, k, o.at(2000, {2, 2, 4, 6})), HEADWISE_SHAPE("(2, 2, 4, 6)")},
        {"out: L", call(q, k, o.at(2000, {2, 3, 5, 6})), HEADWISE_SHAPE("(2, 3, 5, 6)")},
        {"out: M", call(q, k, o.at(2000, {2, 3, 4, 5})), HEADWISE_SHAPE("(2, 3, 4, 5)")},
        {"out is transposed", call(q, k, o.at(2000, {2, 3, 6, 4})), HEADWISE_SHAPE("(2, 3, 6, 4)")},
        {"out has the shape of q", call(q, k, o.at(2000, {2, 3, 4, 5})), HEADWISE_SHAPE("(2, 3, 4, 5)")},
        {"out is empty", call(q, k, view()), HEADWISE_SHAPE("(0, 0, 0, 0)")},

        {"out begins in q's last element", call(q, k, o.at(119, {2, 3, 4, 6})), of_q},
        {"out is q's memory", call(q, k, o.at(0, {2, 3, 4, 6})), of_q},
        {"out ends in k's first element", call(q, k, o.at(857, {2, 3, 4, 6})), of_k},
        {"out is k's memory", call(q, k, o.at(1000, {2, 3, 4, 6})), of_k},
        {"out, backwards, reaches q", call(q, k, view(o.buffer.data() + 119 + 143, {2, 3, 4, 6}, {-72, -24, -6, -1})),
         of_q},

        {"out repeats along B", call(q, k, o.out({0, 24, 6, 1})), HEADWISE_SELF("(0, 24, 6, 1)")},
        {"out repeats along H", call(q, k, o.out({72, 0, 6, 1})), HEADWISE_SELF("(72, 0, 6, 1)")},
        {"out repeats along L", call(q, k, o.out({72, 24, 0, 1})), HEADWISE_SELF("(72, 24, 0, 1)")},
        {"out repeats along M", call(q, k, o.out({72, 24, 6, 0})), HEADWISE_SELF("(72, 24, 6, 0)")},
        {"out's rows overlap", call(q, k, o.out({72, 24, 5, 1})), HEADWISE_SELF("(72, 24, 5, 1)")},
        {"out's heads overlap", call(q, k, o.out({72, 23, 6, 1})), HEADWISE_SELF("(72, 23, 6, 1)")},
        {"out's batches overlap", call(q, k, o.out({71, 24, 6, 1})), HEADWISE_SELF("(71, 24, 6, 1)")},
        {"out's rows, backwards, overlap", call(q, k, o.out({72, 24, -5, 1})), HEADWISE_SELF("(72, 24, -5, 1)")},

        {"null data", to_null({2, 3, 4, 5}), "shape (2, 3, 4, 5): data is null, the shape is not empty"},
        {"B < 0", sized({-1, 3, 4, 5}), "shape (-1, 3, 4, 5): every extent must be >= 0"},
        {"H < 0", sized({2, -1, 4, 5}), "shape (2, -1, 4, 5): every extent must be >= 0"},
        {"L < 0", sized({2, 3, -1, 5}), "shape (2, 3, -1, 5): every extent must be >= 0"},
        {"D < 0", sized({0, 0, 0, -1}), "shape (0, 0, 0, -1): every extent must be >= 0"},
        {"too large", sized({1, 8, std::ptrdiff_t{1} << 30, std::ptrdiff_t{1} << 30}),
         "shape (1, 8, 1073741824, 1073741824): the size in bytes overflows ptrdiff_t"},
    };
#undef HEADWISE_INPUTS
#undef HEADWISE_SHAPE
#undef HEADWISE_SELF
}

template <class Into, class Anew>
void check_refusals(const Into& into, const Anew& anew) {
    operands o;
    for (const fault& f : faults_of(o, into, anew)) {
        CAPTURE(f.name);
        CHECK_THROWS_WITH_AS(f.call(), f.message, std::invalid_argument);
        CHECK(o.untouched());
    }
    // Right beside q and k is allowed.
    const auto q = o.at(0, {2, 3, 4, 5}), k = o.at(1000, {2, 3, 6, 5});
    CHECK_NOTHROW(into(q, k, o.at(120, {2, 3, 4, 6})));
    CHECK_NOTHROW(into(q, k, o.at(856, {2, 3, 4, 6})));
}

tensor<float> from(const std::string& name) { return load_npy<float>(std::string(HEADWISE_TEST_DATA "/") + name); }

template <class Out>
concept loop_writes = requires(const tensor<float>& in, Out&& out) {
    batched_scores_loop(in, in, std::forward<Out>(out));
};
template <class Out>
concept fused_writes = requires(const tensor<float>& in, Out&& out) {
    batched_scores_vectorized(in, in, std::forward<Out>(out));
    batched_scores_vectorized(in, in, std::forward<Out>(out), scores_options{});
};
template <class Out>
constexpr bool both_write = loop_writes<Out>&& fused_writes<Out>;
template <class Out>
constexpr bool neither_writes = !loop_writes<Out> && !fused_writes<Out>;

}  // namespace

// A result needs a place that lives on: an owner by name, or a view, which does not own. Never const, nor another type.
static_assert(both_write<tensor<float>&>);
static_assert(both_write<tensor_view<float>> && both_write<tensor_view<float>&>);
static_assert(both_write<const tensor_view<float>&>);
static_assert(neither_writes<tensor<float>> && neither_writes<const tensor<float>>);
static_assert(neither_writes<const tensor<float>&>);
static_assert(neither_writes<tensor_view<const float>> && neither_writes<tensor_view<const float>&>);
static_assert(neither_writes<tensor<double>&> && neither_writes<tensor_view<double>>);

TEST_CASE("the loop refuses, in a sentence with argument, values and rule, and writes nothing") {
    check_refusals([](auto... arguments) { batched_scores_loop(arguments...); },
                   [](auto q, auto k) { (void)batched_scores_loop(q, k); });
}

TEST_CASE("the fused routine refuses the same, in the same words") {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        check_refusals([name](auto... arguments) { batched_scores_vectorized(arguments..., {.isa = name}); },
                       [name](auto q, auto k) { (void)batched_scores_vectorized(q, k, {.isa = name}); });
    }
}

TEST_CASE("both give the scores that PyTorch gave") {
    for (const std::string name : {"seed", "ocr"}) {
        CAPTURE(name);
        const auto q = from(name + "_q.npy"), k = from(name + "_k.npy"), scores = from(name + "_scores.npy");
        REQUIRE(scores.size() == (name == "seed" ? 2 * 3 * 8 * 8 : 4 * 8 * 80 * 80));
        const allclose_options within{.rtol = 0, .atol = 1e-5};
        HEADWISE_CHECK_CLOSE(batched_scores_loop(q, k), scores, within);
        for (const isa target : supported_isas()) {
            CAPTURE(to_string(target));
            HEADWISE_CHECK_CLOSE(batched_scores_vectorized(q, k, {.isa = target}), scores, within);
        }
    }
}

TEST_CASE("PyTorch's scores are told from any that are wrong in one place") {
    const auto q = from("ocr_q.npy"), k = from("ocr_k.npy");
    auto scores = from("ocr_scores.npy");
    scores(3, 7, 79, 79) += 3e-5f;
    const close_report report(batched_scores_vectorized(q, k), scores, {.rtol = 0, .atol = 1e-5});
    CHECK(report.mismatches == 1);
    CHECK(report.first[0].index == std::array<std::ptrdiff_t, 4>{3, 7, 79, 79});
}
