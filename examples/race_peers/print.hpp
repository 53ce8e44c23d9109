// What a race has to say: a table to read as it grows, Markdown to paste, JSON to compute with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"
#include "options.hpp"
#include "race.hpp"

namespace race {

class report {
public:
    report(const options& o, const std::vector<contender>& who, std::string scalar);

    void add(result r);
    void add(const std::optional<pair_result>& r);  ///< nothing: an output was wrong
    /// Prints what has not been printed. False when an output of ours was wrong.
    bool finish();

private:
    struct means {
        std::size_t shapes = 0;       ///< with a ratio
        double ratio = 1, fused = 0;  ///< geometric means: of the ratios, of fused's GFLOP/s
        const result *worst_ratio = nullptr, *worst_share = nullptr;  ///< share: above a million flops
    };
    [[nodiscard]] means summarise() const;
    void heading() const;
    void row(const result& r) const;
    void figures_table() const;
    void markdown() const;
    void json() const;
    void page() const;  ///< HTML, or the picture alone

    options options_;
    std::string scalar_;
    std::vector<contender> who_;
    std::vector<result> results_;
    std::vector<pair_result> pairs_;
    bool ours_right_ = true;
};

}  // namespace race
