// One shape's race: check everyone, race those who are right, measure the limit in between, compare.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <headwise/harness/work.hpp>

#include "contender.hpp"
#include "grid.hpp"
#include "limit.hpp"
#include "options.hpp"
#include "rounds.hpp"
#include "stage.hpp"

namespace race {

enum class standing { raced, wrong, unable };

struct figure {
    std::string name;
    bool ours;
    standing state = standing::unable;
    double seconds = 0;  ///< median of a call
    std::size_t rounds = 0;
};

struct result {
    race::shape shape;
    headwise::work work;
    std::vector<figure> figures;              ///< in the order of the contenders; the first is `fused`
    std::optional<std::size_t> best_peer;     ///< the lowest median time
    std::optional<headwise::interval> ratio;  ///< the best peer's time over fused's
    headwise::machine_limits machine;
    headwise::roofline_limit limit;

    /// GB/s where memory is the limit, else GFLOP/s.
    [[nodiscard]] double rate(double seconds) const {
        return (limit.memory_bound ? work.bytes_read + work.bytes_written : work.flops) / seconds / 1e9;
    }
    [[nodiscard]] const char* unit() const { return limit.memory_bound ? "GB/s" : "GF/s"; }
    [[nodiscard]] bool fused_raced() const { return figures.front().state == standing::raced; }
};

/// `who` first to last; the first is the subject.
template <class Scalar>
result race_shape(const shape& s, const std::vector<contender>& who, const options& o) {
    result r{s, s.work(sizeof(Scalar)), {}, {}, {}, {}, {}};
    stage<Scalar> on(s, o.threads, o.huge_pages);
    const problem<Scalar> p = on.get();
    reference<Scalar> truth(p);

    std::vector<entrant> entrants;
    std::vector<std::size_t> figure_of;
    for (const contender& c : who) {
        figure& f = r.figures.emplace_back(figure{c.name, c.ours});
        try {
            runner run = c.prepare(p);
            if (!run) continue;
            on.poison();
            run(1);
            f.state = truth.agrees(on.out()) ? standing::raced : standing::wrong;
            if (f.state == standing::wrong) continue;
            entrants.push_back({c.name, std::move(run)});
            figure_of.push_back(r.figures.size() - 1);
        } catch (const std::exception&) {
            f.state = standing::unable;
        }
    }

    limit_probe<Scalar> probe(on.inputs(), on.outputs(), o.threads, o.cpu_time);
    constexpr std::size_t looks = 50;
    if (entrants.empty()) probe.look();
    if (!entrants.empty())
        race_rounds(
            entrants,
            {.budget = o.budget, .settle = o.threads > 1, .processor_time = o.cpu_time, .each = [&](std::size_t round) {
                 if (round < looks) probe.look();
             }});
    r.machine = probe.seen();
    r.limit = headwise::limit_of(r.work, r.machine);

    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < entrants.size(); ++i) {
        figure& f = r.figures[figure_of[i]];
        f.seconds = median_seconds(entrants[i]);
        f.rounds = static_cast<std::size_t>(std::count_if(entrants[i].seconds.begin(), entrants[i].seconds.end(),
                                                          [](double t) { return !std::isnan(t); }));
        if (!f.ours && (!best || f.seconds < r.figures[figure_of[*best]].seconds)) best = i;
    }
    if (best) {
        r.best_peer = figure_of[*best];
        if (r.fused_raced()) r.ratio = paired_ratio(entrants[*best], entrants.front());
    }
    return r;
}

/// Two shapes of the fused routine alone, in the same rounds: time per output of the first over that of the second.
struct pair_result {
    std::string title;
    double first_rate, second_rate;  ///< GFLOP/s
    std::optional<headwise::interval> ratio;
};

template <class Scalar>
std::optional<pair_result> race_pair(const pair_of_shapes& shapes, const contender& fused, const options& o) {
    stage<Scalar> first(shapes.first, o.threads, o.huge_pages),
        second(shapes.second, shapes.second_alone ? 1 : o.threads, o.huge_pages);
    std::vector<entrant> entrants;
    for (stage<Scalar>* on : {&first, &second}) {
        entrants.push_back({shapes.title, fused.prepare(on->get())});
        entrants.back().run(1);
        if (!reference<Scalar>(on->get()).agrees(on->out())) return std::nullopt;
    }
    race_rounds(entrants, {.budget = o.budget, .settle = o.threads > 1, .processor_time = o.cpu_time});
    const double flops[] = {shapes.first.work(sizeof(Scalar)).flops, shapes.second.work(sizeof(Scalar)).flops};
    pair_result r{shapes.title, flops[0] / median_seconds(entrants[0]) / 1e9,
                  flops[1] / median_seconds(entrants[1]) / 1e9, paired_ratio(entrants[0], entrants[1])};
    if (r.ratio) {
        const double scale = flops[1] / flops[0];
        *r.ratio = {r.ratio->estimate * scale, r.ratio->low * scale, r.ratio->high * scale};
    }
    return r;
}

}  // namespace race
