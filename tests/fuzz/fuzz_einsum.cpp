// Formulas of einsum, any text: what is accepted is what the rules allow; and each call of an accepted one, with
// operands of any extents and strides, either is refused and writes nothing, or gives what plain loops over the
// indices give. Small whole numbers, so that every order of summation gives the same result.
#include <array>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>

#include <headwise/einsum.hpp>

#include "arena.hpp"
#include "input.hpp"

using namespace headwise;

namespace {

/// A formula by the rules, read anew.
struct rules {
    std::string a, b, out;
    bool allowed = false;

    explicit rules(std::string text) {
        if (text.find("...") != text.npos || text.find("->") == text.npos) return;  // nor does a space part an arrow
        std::erase(text, ' ');
        const std::size_t comma = text.find(','), arrow = text.find("->");
        if (comma == text.npos || arrow == text.npos || comma > arrow) return;
        a = text.substr(0, comma), b = text.substr(comma + 1, arrow - comma - 1), out = text.substr(arrow + 2);
        allowed = is_term(a) && is_term(b) && is_term(out) && lies_in(out, a + b) && lies_in(a, b + out) &&
                  lies_in(b, a + out);
    }
    [[nodiscard]] static bool is_term(const std::string& term) {
        for (std::size_t i = 0; i < term.size(); ++i) {
            const char c = term[i];
            if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) return false;
            if (term.find(c, i + 1) != term.npos) return false;
        }
        return term.size() <= 4;
    }
    [[nodiscard]] static bool lies_in(const std::string& term, const std::string& others) {
        return term.find_first_not_of(others) == term.npos;
    }
    [[nodiscard]] std::string summed() const {
        std::string all;
        for (const char c : a)
            if (out.find(c) == out.npos) all += c;
        return all;
    }
};

using extents = std::map<char, std::ptrdiff_t>;

shape4 shape_of(const std::string& term, const extents& extent) {
    shape4 shape{1, 1, 1, 1};
    for (std::size_t i = 0; i < term.size(); ++i) shape[4 - term.size() + i] = extent.at(term[i]);
    return shape;
}

/// The element that the indices' values name.
template <class Scalar>
const Scalar& at(const tensor_view<Scalar>& view, const std::string& term, const extents& values) {
    shape4 i{};
    for (std::size_t axis = 0; axis < term.size(); ++axis) i[4 - term.size() + axis] = values.at(term[axis]);
    return view(i[0], i[1], i[2], i[3]);
}

/// Calls `visit(values)` for all values of the indices in `names`, the others as they are.
template <class Visit>
void each_value(const std::string& names, const extents& extent, extents values, const Visit& visit) {
    if (names.empty()) return visit(values);
    for (std::ptrdiff_t i = 0; i < extent.at(names[0]); ++i) {
        values[names[0]] = i;
        each_value(names.substr(1), extent, values, visit);
    }
}

template <class Scalar>
void check(const fuzz::arena<Scalar>& memory, const rules& formula, const extents& extent, const tensor_view<Scalar>& a,
           const tensor_view<Scalar>& b, const tensor_view<Scalar>& out, Scalar scale) {
    each_value(formula.out, extent, {}, [&](const extents& place) {
        Scalar sum = 0;
        each_value(formula.summed(), extent, place,
                   [&](const extents& i) { sum += memory.old(at(a, formula.a, i)) * memory.old(at(b, formula.b, i)); });
        fuzz::must(at(out, formula.out, place) == scale * sum, "an output is not the sum of its products");
    });
    if (a.size() != 0 && b.size() != 0 && out.size() != 0) memory.check_written({out}, {a, b});
    else memory.check_written({out}, {});
}

template <class Scalar>
void run(fuzz::input& in, const std::string& text, const rules& formula) {
    extents extent;
    for (const char c : formula.a + formula.b) extent[c] = in.between(0, 23) % 6;
    fuzz::arena<Scalar> memory(in.byte());
    shape4 shape = shape_of(formula.b, extent);
    const bool fits = in.between(0, 15) != 0;
    if (!fits) shape[static_cast<std::size_t>(in.between(0, 3))] += 1;
    tensor_view<Scalar> a, b, out;
    if (!memory.take(in, shape_of(formula.a, extent), a) || !memory.take(in, shape, b)) return;
    if (!memory.take(in, shape_of(formula.out, extent), out)) return;
    scores_options options;
    options.threads = static_cast<int>(in.between(1, 2));
    options.scale = static_cast<double>(in.between(-2, 4));
    options.isa = supported_isas()[in.byte() % supported_isas().size()];
    bool refused = false;
    try {
        einsum(runtime_formula(text), a, b, out, options);
    } catch (const std::invalid_argument&) {
        refused = true;
    }
    if (refused) fuzz::must(memory.untouched(), "a refused call wrote something");
    else {
        fuzz::must(fits, "extents that do not fit were accepted");
        check(memory, formula, extent, a, b, out, static_cast<Scalar>(options.scale));
    }
    if (!fits) return;
    // Of dense operands with one summed index none is refused.
    const tensor<Scalar> dense_a = memory.old(a), dense_b = memory.old(b);
    tensor<Scalar> into(out.shape());
    try {
        einsum(runtime_formula(text), dense_a, dense_b, into, options);
    } catch (const std::invalid_argument& e) {
        if (formula.summed().size() < 2) fuzz::wrong(e.what());
        return;
    }
    if (refused) return;
    fuzz::each(out.shape(), [&](auto i, auto h, auto l, auto m) {
        fuzz::must(into(i, h, l, m) == out(i, h, l, m), "other strides, another result");
    });
}

/// Any text; or three terms of few letters, so that many are formulas.
std::string text_of(fuzz::input& in) {
    if (in.byte() % 4 == 0) return in.text(48);
    constexpr std::array<const char*, 3> between{",", "->", ""};
    std::string text;
    for (const char* const behind : between) {
        for (auto left = in.between(0, 4); left > 0; --left) text += static_cast<char>('a' + in.between(0, 4));
        text += behind;
    }
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input in(data, size);
    const bool wide = in.byte() % 2 == 0;
    const std::string text = text_of(in);
    const rules formula(text);
    try {
        static_cast<void>(einsum_formula(runtime_formula(text)));
        if (!formula.allowed) fuzz::wrong("accepted against the rules: " + text);
    } catch (const std::invalid_argument& e) {
        if (formula.allowed) fuzz::wrong(e.what());
        return 0;
    }
    if (wide) run<double>(in, text, formula);
    else run<float>(in, text, formula);
    return 0;
}
