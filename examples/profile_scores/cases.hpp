// The tensors that profile_scores works on: from files, or random.
#pragma once

#include <string>
#include <vector>

#include <headwise/headwise.hpp>

#include "options.hpp"

namespace profile_scores {

using view = headwise::tensor_view<const float>;

/// Dense memory in the order (b, h, l, d), or (b, l, h, d); the view is (b, h, l, d) either way, and copies nothing.
struct operand {
    headwise::tensor<float> memory;
    bool blhd = false;

    [[nodiscard]] view bhld() const {
        if (!blhd) return memory.view();
        const auto& shape = memory.shape();
        const auto strides = memory.strides();
        return {memory.data(),
                {shape[0], shape[2], shape[1], shape[3]},
                {strides[0], strides[2], strides[1], strides[3]}};
    }
};

struct test_case {
    std::string name;
    operand q, k;
};

/// The same values, laid out as asked.
inline operand laid_out(headwise::tensor<float> bhld, bool blhd) {
    if (!blhd) return {std::move(bhld)};
    const auto& shape = bhld.shape();
    operand result{headwise::tensor<float>({shape[0], shape[2], shape[1], shape[3]}), true};
    for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
        for (std::ptrdiff_t h = 0; h < shape[1]; ++h)
            for (std::ptrdiff_t l = 0; l < shape[2]; ++l)
                std::copy_n(&bhld(b, h, l, 0), shape[3], &result.memory(b, l, h, 0));
    return result;
}

inline test_case random_case(const std::string& name, const std::array<std::ptrdiff_t, 5>& shape, const options& o) {
    const auto [b, h, l, m, d] = shape;
    return {name, laid_out(headwise::randn<float>({b, h, l, d}, o.seed), o.blhd),
            laid_out(headwise::randn<float>({b, h, m, d}, o.seed + 1), o.blhd)};
}

inline std::vector<test_case> cases_of(const options& o) {
    std::vector<test_case> cases;
    if (!o.q_file.empty()) {
        const auto from = [&o](const std::string& file) { return operand{headwise::load_npy<float>(file), o.blhd}; };
        cases.push_back({"files", from(o.q_file), from(o.k_file)});
    } else if (o.shape) {
        cases.push_back(random_case("random", *o.shape, o));
    } else {
        const std::string data = HEADWISE_EXAMPLE_DATA;
        cases.push_back(random_case("seed", {2, 3, 8, 8, 16}, o));
        cases.push_back({"ocr", laid_out(headwise::load_npy<float>(data + "/ocr_q.npy"), o.blhd),
                         laid_out(headwise::load_npy<float>(data + "/ocr_k.npy"), o.blhd)});
    }
    return cases;
}

}  // namespace profile_scores
