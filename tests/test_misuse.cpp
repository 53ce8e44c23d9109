// Misuse is met at the door: one list of function x argument x fault x message, for every public function but the
// scores (test_headwise.cpp has theirs, once for each implementation). Compiled twice, for release and for debugging.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/headwise.hpp>

#include "files.hpp"

using namespace headwise;

namespace {

struct misuse {
    std::string function, argument, fault;
    std::function<void()> call;
    std::string message;
};

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
constexpr std::ptrdiff_t huge = std::numeric_limits<std::ptrdiff_t>::max();

/// A call of `compare` with one option at fault.
template <class Set>
std::function<void()> comparing(const Set& set) {
    return [set] {
        compare_options options;
        options.rounds = 2;
        set(options);
        static_cast<void>(compare(options, arm{"a", [] { return 1; }}, arm{"b", [] { return 1; }}));
    };
}

/// Two arms, measured as briefly as can be.
comparison measured() {
    compare_options options;
    options.rounds = 2, options.calls = 1;
    return compare(options, arm{"a", [] { return 1; }}, arm{"b", [] { return 1; }});
}

void add_tensors(std::vector<misuse>& list) {
    static float one = 0;
    const auto view = [](const shape4& shape) {
        return [shape] { static_cast<void>(tensor_view<float>(&one, shape)); };
    };
    const auto strided = [](const strides4& s) {
        return [s] { static_cast<void>(tensor_view<float>(&one, {2, 1, 1, 2}, s)); };
    };
    const std::string beyond = ": the furthest element lies beyond ptrdiff_t";
    const std::string far = std::to_string(huge), low = std::to_string(-huge - 1);
    for (std::size_t axis = 0; axis < 4; ++axis) {
        shape4 shape{2, 2, 2, 2};
        shape[axis] = -1;
        const std::string at = "axis " + std::to_string(axis), text = detail::text_of(shape);
        list.push_back(
            {"tensor_view", "shape", at + " negative", view(shape), "shape " + text + ": every extent must be >= 0"});
        list.push_back({"tensor", "shape", at + " negative", [shape] { static_cast<void>(tensor<double>(shape)); },
                        "shape " + text + ": every extent must be >= 0"});
        list.push_back({"randn", "shape", at + " negative", [shape] { static_cast<void>(randn<float>(shape, 1)); },
                        "shape " + text + ": every extent must be >= 0"});
    }
    list.push_back({"tensor_view", "data", "null",
                    [] {
                        static_cast<void>(tensor_view<float>(nullptr, {1, 1, 1, 1}));
                    },
                    "shape (1, 1, 1, 1): data is null, the shape is not empty"});
    list.push_back({"tensor_view", "shape", "overflows", view({huge, 1, 1, 2}),
                    "shape (" + far + ", 1, 1, 2): the size in bytes overflows ptrdiff_t"});
    list.push_back({"tensor_view", "strides", "too far", strided({huge, 0, 0, 0}),
                    "shape (2, 1, 1, 2) with strides (" + far + ", 0, 0, 0)" + beyond});
    list.push_back({"tensor_view", "strides", "too far back", strided({0, 0, 0, -huge - 1}),
                    "shape (2, 1, 1, 2) with strides (0, 0, 0, " + low + ")" + beyond});
    list.push_back({"tensor_view", "strides", "too far together", strided({huge / 8 + 1, 0, 0, huge / 8 + 1}),
                    "shape (2, 1, 1, 2) with strides (" + std::to_string(huge / 8 + 1) + ", 0, 0, " +
                        std::to_string(huge / 8 + 1) + ")" + beyond});
    // No two of the three axes reach so far together.
    constexpr std::ptrdiff_t third = huge / 12 + 1;
    list.push_back({"tensor_view", "strides", "three too far together",
                    [] {
                        static_cast<void>(tensor_view<float>(&one, {2, 2, 2, 1}, {third, third, third, 0}));
                    },
                    "shape (2, 2, 2, 1) with strides " + detail::text_of({third, third, third, 0}) + beyond});
}

void add_scores(std::vector<misuse>& list) {
    std::string none = "none of automatic";
    for (std::size_t i = 1; i < detail::isa_names.size(); ++i) none += ", " + std::string(detail::isa_names[i]);
    static const tensor<float> q({1, 2, 3, 4}), k({1, 2, 5, 4}), k_short({1, 2, 5, 3});
    const auto profile = [](const tensor<float>& second, int runs, const scores_options& options) {
        return [&second, runs, options] { static_cast<void>(profile_and_compare(q, second, runs, options)); };
    };
    const auto with = [](const scores_options& options) {
        return [options] { static_cast<void>(batched_scores_vectorized(q, k, options)); };
    };
    list.push_back({"batched_scores_vectorized", "options.threads", "negative", with({.threads = -3}),
                    "options.threads = -3: must be >= 0 (0: all)"});
    list.push_back({"batched_scores_vectorized", "options.isa", "no such value", with({.isa = static_cast<isa>(77)}),
                    "options.isa = 77: " + none});
    list.push_back({"batched_scores_vectorized", "options.stores", "no such value",
                    with({.stores = static_cast<stores>(77)}),
                    "options.stores = 77: none of automatic, cached, streaming"});
    list.push_back({"scores_workspace_bytes", "options.threads", "negative",
                    [] {
                        tensor<float> out({1, 2, 3, 5});
                        static_cast<void>(scores_workspace_bytes(q, k, out, {.threads = -1}));
                    },
                    "options.threads = -1: must be >= 0 (0: all)"});
    list.push_back({"einsum", "options.stores", "no such value",
                    [] { static_cast<void>(einsum("bhld,bhmd->bhlm", q, k, {.stores = static_cast<stores>(3)})); },
                    "options.stores = 3: none of automatic, cached, streaming"});
    list.push_back(
        {"attention", "options.alignment", "no such value",
         [] { static_cast<void>(attention(q, k, k, {.causal = true, .alignment = static_cast<causal_alignment>(9)})); },
         "options.alignment = 9: none of bottom_right, top_left"});
    list.push_back({"profile_and_compare", "k", "another depth", profile(k_short, 1, {}),
                    "q (1, 2, 3, 4) and k (1, 2, 5, 3) must have the same depth D (axis 3)"});
    for (const int runs : {0, -1, std::numeric_limits<int>::min()})
        list.push_back({"profile_and_compare", "num_runs", std::to_string(runs), profile(k, runs, {}),
                        "num_runs " + std::to_string(runs) + ": at least one timed run is needed"});
    list.push_back({"profile_and_compare", "options.scale", "not 1", profile(k, 1, {.scale = 2}),
                    "options.scale = 2.000000: the loop computes unscaled scores; it must be 1"});
    list.push_back({"profile_and_compare", "options.threads", "negative", profile(k, 1, {.threads = -1}),
                    "options.threads = -1: must be >= 0 (0: all)"});
    list.push_back(
        {"parse_isa", "isa", "unknown", [] { static_cast<void>(parse_isa("avx1024")); }, "isa 'avx1024' is " + none});
}

/// Calls with a workspace that begins at the last byte of one of their tensors.
void add_workspaces(std::vector<misuse>& list) {
    static tensor<float> q({1, 2, 9, 4}), k({1, 2, 20, 4}), v({1, 2, 20, 5}), scores({1, 2, 9, 20}), out({1, 2, 9, 5}),
        bias({1, 1, 9, 20}), lse({1, 2, 9, 1}), dq(q.shape()), dk(k.shape());
    static tensor<bool> mask({1, 2, 9, 20});
    using bytes = std::span<std::byte>;
    const auto add = [&list](const std::string& function, const std::string& argument, auto& tensor, auto call) {
        const bytes last = std::as_writable_bytes(std::span(tensor.data() + tensor.size() - 1, 1)).last(1);
        list.push_back({function, "options.workspace", "overlaps " + argument, [call, last] { call(last); },
                        "options.workspace overlaps the memory of " + argument + " " + detail::text_of(tensor.shape()) +
                            "; it must be memory of its own"});
    };
    const auto multiply = [](bytes m) { batched_scores_vectorized(q, k, scores, {.workspace = m}); };
    add("batched_scores_vectorized", "q", q, multiply);
    add("batched_scores_vectorized", "k", k, multiply);
    add("batched_scores_vectorized", "out", scores, multiply);
    const auto contract = [](bytes m) { einsum("bhld,bhmd->bhlm", q, k, scores, {.workspace = m}); };
    add("einsum", "a", q, contract);
    add("einsum", "b", k, contract);
    add("einsum", "out", scores, contract);
    const auto options = [](bytes m) {
        return attention_options<float>{.mask = mask, .bias = bias, .lse = lse, .workspace = m};
    };
    const auto attend = [options](bytes m) { attention(q, k, v, out, options(m)); };
    add("attention", "q", q, attend);
    add("attention", "k", k, attend);
    add("attention", "v", v, attend);
    add("attention", "options.mask", mask, attend);
    add("attention", "options.bias", bias, attend);
    add("attention", "options.lse", lse, attend);
    add("attention", "out", out, attend);
    const auto weigh = [options](bytes m) { attention_weights(q, k, scores, options(m)); };
    add("attention_weights", "k", k, weigh);
    add("attention_weights", "options.lse", lse, weigh);
    add("attention_logits", "out", scores, [options](bytes m) { attention_logits(q, k, scores, options(m)); });
    const auto derive = [](bytes m) { batched_scores_backward(q, k, scores, dq, dk, {.workspace = m}); };
    add("batched_scores_backward", "q", q, derive);
    add("batched_scores_backward", "k", k, derive);
    add("batched_scores_backward", "dout", scores, derive);
    add("batched_scores_backward", "dq", dq, derive);
    add("batched_scores_backward", "dk", dk, derive);
}

void add_agreement(std::vector<misuse>& list) {
    static const std::vector<float> two{1, 2}, three{1, 2, 3};
    const auto options_of = [&list](const std::string& function, const auto& call) {
        for (const auto& [value, text] : {std::pair{-1.0, "-1.000000"}, {nan, "NaN"}, {-infinity, "-inf"}}) {
            list.push_back({function, "rtol", text, [call, v = value] { call({.rtol = v}); },
                            "rtol must not be negative or NaN; it is " + std::string(text)});
            list.push_back({function, "atol", text, [call, v = value] { call({.atol = v}); },
                            "atol must not be negative or NaN; it is " + std::string(text)});
        }
    };
    options_of("isclose", [](const allclose_options& o) { static_cast<void>(isclose(1.0f, 1.0f, o)); });
    options_of("allclose", [](const allclose_options& o) { static_cast<void>(allclose(two, two, o)); });
    options_of("close_report", [](const allclose_options& o) { static_cast<void>(close_report(two, two, o)); });
    options_of("tolerance::within", [](const allclose_options& o) { static_cast<void>(tolerance::within(o)); });
    options_of("tolerance::at_least",
               [](const allclose_options& o) { static_cast<void>(tolerance::bitwise().at_least(o)); });

    const std::string apart = "the shapes must match; actual is (2), expected is (3)";
    const auto unequal = [&](const std::string& function, std::function<void()> call) {
        list.push_back({function, "shapes", "unequal", std::move(call), apart});
    };
    unequal("allclose", [] { static_cast<void>(allclose(two, three)); });
    unequal("close_report", [] { static_cast<void>(close_report(two, three)); });
    unequal("compare_ulp", [] { static_cast<void>(compare_ulp(two, three, 1)); });
    unequal("bitwise_equal", [] { static_cast<void>(bitwise_equal(two, three)); });
    list.push_back({"isclose", "mask", "too short",
                    [] {
                        bool mask[1];
                        isclose(two, two, std::span<bool>(mask));
                    },
                    "isclose: the mask has shape (1), the arrays have (2)"});

    static const tensor<float> q({1, 2, 3, 4}), k({1, 2, 5, 3});
    list.push_back(
        {"tolerance::dot", "q", "another depth than k's", [] { static_cast<void>(tolerance::dot(q, k)); },
         "tolerance::dot: q is (1, 2, 3, 4), k is (1, 2, 5, 3); they must be (b, h, l, d) and (b, kv, m, d), "
         "h a multiple of kv"});
    for (const double scale : {nan, infinity})
        list.push_back({"tolerance::dot", "scale", std::isnan(scale) ? "NaN" : "infinite",
                        [scale] { static_cast<void>(tolerance::dot(q, q, scale)); },
                        "tolerance::dot: the scale must be finite"});
    list.push_back({"allclose", "tolerance::dot", "of other outputs",
                    [] { static_cast<void>(allclose(q, q, tolerance::dot(q, q))); },
                    "tolerance::dot: q and k give outputs of shape (1, 2, 3, 3), the arrays are (1, 2, 3, 4)"});
}

void add_compare(std::vector<misuse>& list) {
    using o = compare_options;
    const auto out_of_range = [&list](const std::string& option, const std::string& rule, const auto& set,
                                      std::initializer_list<double> values) {
        for (const double value : values)
            list.push_back({"compare", option, std::to_string(value),
                            comparing([=](o& options) { set(options, value); }),
                            "compare: " + rule + ", is " + std::to_string(value)});
    };
    out_of_range("confidence", "confidence must lie between 0 and 1", [](o& x, double v) { x.confidence = v; },
                 {0, 1, -0.5, 95, nan});
    out_of_range("margin", "margin must be at least 0 and below 1", [](o& x, double v) { x.margin = v; },
                 {-0.01, 1, nan, infinity});
    out_of_range("precision", "precision must be positive", [](o& x, double v) { x.precision = v; }, {0, -1, nan});
    const auto seconds = [](double v) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(v));
    };
    out_of_range("budget", "budget must be positive", [=](o& x, double v) { x.budget = seconds(v); }, {0, -2});
    out_of_range("epoch", "epoch must be positive", [=](o& x, double v) { x.epoch = seconds(v); }, {0, -1});

    const auto named = [](const std::string& a, const std::string& b) {
        return [a, b] { static_cast<void>(compare({}, arm{a, [] { return 1; }}, arm{b, [] { return 1; }})); };
    };
    list.push_back({"compare", "arm", "none", [] { static_cast<void>(compare({})); },
                    "compare: there is no arm; at least one is needed"});
    list.push_back({"compare", "arm", "no name", named("a", ""), "compare: arm 1 has no name"});
    list.push_back({"compare", "arm", "one name twice", named("a", "a"), "compare: arms 0 and 1 are both called 'a'"});
    list.push_back({"compare", "name", "control character", named("a\nb", "c"),
                    "compare: the name of arm 0 has a control character in it"});
    list.push_back({"comparison::operator[]", "arm", "unknown", [] { static_cast<void>(measured()["c"]); },
                    "comparison: there is no arm 'c'"});
    list.push_back({"require_not_slower", "arm", "unknown",
                    [] { static_cast<void>(require_not_slower(measured(), "c", 0.1)); },
                    "comparison: there is no arm 'c'"});
    list.push_back({"require_not_slower", "arm", "arm 0",
                    [] { static_cast<void>(require_not_slower(measured(), "a", 0.1)); },
                    "require_not_slower: 'a' is what the others are compared with; name one of them"});
    for (const double margin : {-0.1, 1.0, nan})
        list.push_back({"require_not_slower", "margin", std::to_string(margin),
                        [margin] { static_cast<void>(require_not_slower(measured(), "b", margin)); },
                        "require_not_slower: margin must be at least 0 and below 1, is " + std::to_string(margin)});
    list.push_back({"sweep", "values", "none",
                    [] {
                        static_cast<void>(sweep({}, "n", std::vector<int>{},
                                                [](int, const compare_options&) { return comparison{}; }));
                    },
                    "sweep: the list of values of n is empty"});
}

void add_files(std::vector<misuse>& list, const test::scratch& here) {
    const auto at = [&here](const std::string& name) { return (here.folder / name).string(); };
    const auto reading = [](const std::string& path) { return [path] { static_cast<void>(load_npy<float>(path)); }; };
    list.push_back({"load_npy", "path", "missing", reading(at("none.npy")), at("none.npy") + ": no such file"});
    list.push_back({"load_npy", "path", "a folder", reading(here.folder.string()),
                    here.folder.string() + ": is a directory, not an npy file"});
    list.push_back({"load_npy", "path", "another type", reading(HEADWISE_TEST_DATA "/isclose_f64_a.npy"),
                    HEADWISE_TEST_DATA "/isclose_f64_a.npy: the file holds float64; load_npy<float> reads float32"});
    list.push_back({"save_npy", "path", "a folder",
                    [path = here.folder] {
                        save_npy(path, tensor<float>({1, 1, 1, 1}));
                    },
                    here.folder.string() + ": cannot be written: it is a directory"});
    list.push_back({"save_baseline", "comparison", "empty", [path = at("b")] { save_baseline(path, {}); },
                    "save_baseline: the comparison is empty"});
    const auto comparing_to = [](const std::string& path) {
        return [path] { static_cast<void>(compare_to_baseline(measured(), path)); };
    };
    list.push_back({"compare_to_baseline", "path", "missing", comparing_to(at("none")),
                    "compare_to_baseline: cannot read " + at("none")});
    const std::string text = here.write("text", "not a baseline\n").string();
    list.push_back({"compare_to_baseline", "path", "something else", comparing_to(text),
                    "compare_to_baseline: " + text + " is not a headwise baseline, version 1"});
    const std::string empty = here.write("empty", "headwise baseline 1\n").string();
    list.push_back({"compare_to_baseline", "path", "no arm", comparing_to(empty),
                    "compare_to_baseline: " + empty + " holds no arm"});
    const std::string broken = here.write("broken", "headwise baseline 1\narm 1 2 x 4 a\n").string();
    list.push_back({"compare_to_baseline", "path", "no number", comparing_to(broken),
                    "compare_to_baseline: " + broken + ": cannot make sense of 'arm 1 2 x 4 a'"});
    const std::string unknown = here.write("unknown", "headwise baseline 1\nlevel 0.95\n").string();
    list.push_back({"compare_to_baseline", "path", "another line", comparing_to(unknown),
                    "compare_to_baseline: " + unknown + ": cannot make sense of 'level 0.95'"});
    const std::string surer = here.write("surer", "headwise baseline 1\nconfidence 0.99\narm 1 1 1 4 a\n").string();
    list.push_back({"compare_to_baseline", "path", "another confidence", comparing_to(surer),
                    "compare_to_baseline: the intervals in " + surer +
                        " hold with 99 % confidence, those of this comparison with 95 %: only intervals of one "
                        "confidence combine"});
}

}  // namespace

TEST_CASE("every misuse is refused with the sentence that the list says, and no other") {
    const test::scratch here;
    std::vector<misuse> list;
    add_tensors(list), add_scores(list), add_workspaces(list), add_agreement(list), add_compare(list),
        add_files(list, here);
    std::set<std::string> seen;
    for (const misuse& m : list) {
        const std::string which = m.function + ", " + m.argument + ": " + m.fault;
        CAPTURE(which);
        CHECK(seen.insert(which).second);
        CHECK_THROWS_WITH_AS(m.call(), m.message.c_str(), std::invalid_argument);
    }
    CHECK(list.size() > 80);
}

TEST_CASE("what looks like misuse and is none") {
    CHECK(allclose(std::vector<float>{}, std::vector<float>{}));
    CHECK(isclose(1.0, 2.0, {.rtol = infinity}));
    CHECK(tensor<float>({0, huge, huge, huge}).size() == 0);
    CHECK(tensor_view<float>(nullptr, {0, 1, 1, 1}).size() == 0);
    float one = 0;
    CHECK(tensor_view<float>(&one, {1, 1, 1, 1}, {huge, -huge - 1, huge, 7}).size() == 1);  // no step is ever taken
    const tensor<float> q({1, 1, 2, 3});
    CHECK(batched_scores_vectorized(q, q).size() == 4);
    CHECK(profile_and_compare(q, q, 1).runs == 1);
    std::vector<float> memory(4096);  // a tensor, a workspace, a tensor, without a gap
    const tensor_view<float> many(memory.data(), {1, 1, 20, 3}), scores(memory.data() + 3696, {1, 1, 20, 20});
    batched_scores_vectorized(many, many, scores,
                              {.workspace = std::as_writable_bytes(std::span(memory).subspan(60, 3636))});
    warmup([] { FAIL("called"); }, 0);
    warmup([] { FAIL("called"); }, -1);
}

namespace {

template <class T>
concept gives_view = requires(T&& t) {
    std::forward<T>(t).view();
};
template <class T>
concept gives_head = requires(T&& t) {
    std::forward<T>(t).head(0, 0);
};
template <class T>
concept becomes_view = requires(T&& t) {
    as_view(std::forward<T>(t));
};
template <class T, class View>
concept converts = std::is_convertible_v<T, View> || std::is_constructible_v<View, T>;

/// Whether anything makes a view of an expression of type T.
template <class T>
constexpr bool can_be_viewed = gives_view<T> || gives_head<T> || becomes_view<T> || converts<T, tensor_view<float>> ||
                               converts<T, tensor_view<const float>>;

}  // namespace

// A view of a temporary owner would outlive it: it does not compile, by any way there is.
static_assert(can_be_viewed<tensor<float>&> && can_be_viewed<const tensor<float>&>);
static_assert(!can_be_viewed<tensor<float>> && !can_be_viewed<const tensor<float>>);
static_assert(!can_be_viewed<tensor<float>&&> && !can_be_viewed<const tensor<float>&&>);
static_assert(!converts<tensor<double>&, tensor_view<float>> &&
              !converts<tensor_view<const float>, tensor_view<float>>);
