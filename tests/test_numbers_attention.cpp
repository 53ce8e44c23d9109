// NaN, infinities, subnormals and signed zeros in attention, at every kind of place, on every target: each result is
// what the definition says, and rows that cannot see the value keep their bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <headwise/attention.hpp>
#include <headwise/attention_weights.hpp>

#include "operations.hpp"
#include "special_values.hpp"

using namespace headwise;
using test::planted, test::sort, test::sort_of, test::special_values;

namespace {

/// The ways through the kernels: few rows, with more keys than one chunk; tiles, with more than one block of them; a
/// group of heads that share k and v; rows that see only some keys, or none.
struct path {
    std::string name;
    std::ptrdiff_t H, Hkv, L, M, D, Dv;
    bool causal = false, masked = false;
    double softcap = 0;

    [[nodiscard]] bool sees(std::ptrdiff_t l, std::ptrdiff_t m) const {
        return !(causal && m > l + M - L) && !(masked && (l + m) % 3 == 0);
    }
    [[nodiscard]] tensor<bool> mask() const {
        tensor<bool> result({1, 1, L, M});
        for (std::ptrdiff_t i = 0; i < result.size(); ++i) result.data()[i] = (i / M + i % M) % 3 != 0;
        return result;
    }
};

std::vector<path> paths() {
    std::vector<path> all;
    const path shapes[] = {{"few rows", 1, 1, 3, 530, 9, 21},
                           {"one key", 2, 1, 2, 1, 5, 3},
                           {"a group", 4, 2, 2, 19, 17, 8},
                           {"tiles", 2, 1, 21, 33, 8, 19}};
    for (path p : shapes)
        for (const int options : {0, 1, 2, 3}) {
            p.causal = options == 1 || options == 3, p.masked = options >= 2, p.softcap = options == 3 ? 2 : 0;
            all.push_back(p);
        }
    all.push_back({"blocks", 1, 1, 6, 530, 4, 5});
    return all;
}

/// One row by the definition: its logits, its weights, its result, and their log of the sum.
struct row {
    std::vector<double> logits, weights, out;
    double lse = 0;
};

template <class Scalar>
row define(const path& p, const tensor<Scalar>& q, const tensor<Scalar>& k, const tensor<Scalar>& v, std::ptrdiff_t h,
           std::ptrdiff_t l) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::ptrdiff_t kv = h / (p.H / p.Hkv);
    row r{std::vector<double>(static_cast<std::size_t>(p.M)), {}, std::vector<double>(static_cast<std::size_t>(p.Dv))};
    double most = -infinity, sum = 0;
    for (std::ptrdiff_t m = 0; m < p.M; ++m) {
        double logit = 0;
        for (std::ptrdiff_t d = 0; d < p.D; ++d)
            logit += static_cast<double>(q(0, h, l, d)) * static_cast<double>(k(0, kv, m, d));
        logit /= std::sqrt(static_cast<double>(p.D));
        if (p.softcap != 0) logit = p.softcap * std::tanh(logit / p.softcap);
        if (!p.sees(l, m)) logit = -infinity;
        r.logits[static_cast<std::size_t>(m)] = logit;
        if (logit > most) most = logit;
    }
    if (most == -infinity) most = 0;
    for (const double logit : r.logits) sum += r.weights.emplace_back(std::exp(logit - most));
    for (double& weight : r.weights) weight = sum == 0 ? 0 : weight / sum;
    r.lse = most + std::log(sum);
    for (std::size_t d = 0; d < r.out.size(); ++d)
        for (std::size_t m = 0; m < r.weights.size(); ++m)
            if (r.weights[m] != 0)  // what is not seen does not count
                r.out[d] += r.weights[m] * static_cast<double>(v(0, kv, static_cast<std::ptrdiff_t>(m),
                                                                 static_cast<std::ptrdiff_t>(d)));
    return r;
}

/// What the three operations make of the operands.
template <class Scalar>
struct results {
    tensor<Scalar> out, weights, logits, lse, weights_lse;

    results(const path& p, const tensor<Scalar>& q, const tensor<Scalar>& k, const tensor<Scalar>& v, isa name)
        : lse({1, p.H, p.L, 1}), weights_lse({1, p.H, p.L, 1}) {
        const tensor<bool> mask = p.mask();
        attention_options<Scalar> options{.causal = p.causal, .softcap = p.softcap, .isa = name};
        if (p.masked) options.mask = mask;
        logits = attention_logits(q, k, options);
        options.lse = weights_lse;
        weights = attention_weights(q, k, options);
        options.lse = lse;
        out = attention(q, k, v, options);
    }

    [[nodiscard]] bool same_row(const results& other, std::ptrdiff_t h, std::ptrdiff_t l) const {
        const auto same = [&](const tensor<Scalar>& a, const tensor<Scalar>& b) {
            return std::memcmp(&a(0, h, l, 0), &b(0, h, l, 0),
                               static_cast<std::size_t>(a.shape()[3]) * sizeof(Scalar)) == 0;
        };
        return same(out, other.out) && same(weights, other.weights) && same(logits, other.logits) &&
               same(lse, other.lse) && same(weights_lse, other.weights_lse);
    }
    /// How many elements of a row are of another sort than they must be, or, as numbers, far from it.
    [[nodiscard]] std::ptrdiff_t wrong(const row& must, std::ptrdiff_t h, std::ptrdiff_t l) const {
        std::ptrdiff_t bad = 0;
        const auto compare = [&](Scalar is, double expected) {
            if (sort_of(is) != sort_of(static_cast<Scalar>(expected))) ++bad;
            else if (std::isfinite(is))
                bad += !(std::abs(static_cast<double>(is) - expected) <= 1e-4 * std::max(1.0, std::abs(expected)));
        };
        for (std::size_t d = 0; d < must.out.size(); ++d)
            compare(out(0, h, l, static_cast<std::ptrdiff_t>(d)), must.out[d]);
        for (std::size_t m = 0; m < must.logits.size(); ++m) {
            compare(weights(0, h, l, static_cast<std::ptrdiff_t>(m)), must.weights[m]);
            compare(logits(0, h, l, static_cast<std::ptrdiff_t>(m)), must.logits[m]);
        }
        compare(lse(0, h, l, 0), must.lse);
        compare(weights_lse(0, h, l, 0), must.lse);
        return bad;
    }
};

/// Which operand a value is planted in. It is in its last head.
enum class operand { q, k, v };

template <class Scalar>
void try_everywhere(const path& p, isa name, operand into) {
    auto q = randn<Scalar>({1, p.H, p.L, p.D}, 1), k = randn<Scalar>({1, p.Hkv, p.M, p.D}, 2),
         v = randn<Scalar>({1, p.Hkv, p.M, p.Dv}, 3);
    const results<Scalar> clean(p, q, k, v, name);
    tensor<Scalar>& host = into == operand::q ? q : into == operand::k ? k : v;
    const std::ptrdiff_t rows = host.shape()[2], depth = host.shape()[3], head = host.shape()[1] - 1;
    std::ptrdiff_t changed = 0, bad = 0;
    for (const Scalar value : special_values<Scalar>()) {
        // A product with the largest number overflows or not as the scale is applied before it or behind.
        if (value == std::numeric_limits<Scalar>::max() && into != operand::v) continue;
        for (const std::ptrdiff_t at : {std::ptrdiff_t{0}, rows / 2, rows - 1})
            for (const std::ptrdiff_t d : {std::ptrdiff_t{0}, depth - 1}) {
                const planted plant(host(0, head, at, d), value);
                const results<Scalar> is(p, q, k, v, name);
                for (std::ptrdiff_t h = 0; h < p.H; ++h)
                    for (std::ptrdiff_t l = 0; l < p.L; ++l) {
                        const bool reached =
                            into == operand::q ? h == head && l == at : h / (p.H / p.Hkv) == head && p.sees(l, at);
                        if (reached) bad += is.wrong(define(p, q, k, v, h, l), h, l);
                        else changed += !is.same_row(clean, h, l);
                    }
            }
    }
    CHECK(changed == 0);
    CHECK(bad == 0);
}

template <class Body>
void on_every_target(const Body& body) {
    for (const isa name : supported_isas()) {
        CAPTURE(to_string(name));
        body(name);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("special values of q, k and v: the rows that see them are as defined, no other changes a bit",
                   Scalar, float, double) {
    on_every_target([](isa name) {
        for (const path& p : paths())
            for (const operand into : {operand::q, operand::k, operand::v}) {
                CAPTURE(p.name);
                CAPTURE(p.causal);
                CAPTURE(p.masked);
                CAPTURE(static_cast<int>(into));
                try_everywhere<Scalar>(p, name, into);
            }
    });
}

TEST_CASE_TEMPLATE("a row that sees one key has its v to the bit, subnormal too, and subnormals add up", Scalar, float,
                   double) {
    using is = std::numeric_limits<Scalar>;
    on_every_target([](isa name) {
        for (const std::ptrdiff_t L : {2, 30}) {
            const std::ptrdiff_t M = 40, Dv = 21;
            const auto q = randn<Scalar>({1, 1, L, 8}, 1), k = randn<Scalar>({1, 1, M, 8}, 2);
            tensor<Scalar> v({1, 1, M, Dv});
            for (std::ptrdiff_t i = 0; i < v.size(); ++i) v.data()[i] = is::denorm_min() * static_cast<Scalar>(i + 1);
            for (const std::ptrdiff_t key : {std::ptrdiff_t{0}, M / 2, M - 1}) {
                tensor<bool> mask({1, 1, 1, M});
                mask(0, 0, 0, key) = true;
                const auto out = attention(q, k, v, {.mask = mask, .isa = name});
                for (std::ptrdiff_t l = 0; l < L; ++l)
                    CHECK(std::memcmp(&out(0, 0, l, 0), &v(0, 0, key, 0), Dv * sizeof(Scalar)) == 0);
            }
            // Equal weights: the mean of all keys, within a rounding or so of the smallest number for each.
            const auto mean = attention(tensor<Scalar>(q.shape()), k, v, {.isa = name});
            for (std::ptrdiff_t d = 0; d < Dv; ++d) {
                const Scalar must = static_cast<Scalar>(d + 1 + Dv * (M - 1) / 2);
                CHECK(std::abs(mean(0, 0, L - 1, d) / is::denorm_min() - must) <= 2);
            }
        }
    });
}

TEST_CASE_TEMPLATE("a bias of any special value: minus infinity hides, plus infinity and NaN show in their row", Scalar,
                   float, double) {
    on_every_target([](isa name) {
        for (const std::ptrdiff_t L : {3, 25}) {
            const std::ptrdiff_t M = 30;
            const auto q = randn<Scalar>({1, 1, L, 8}, 1), k = randn<Scalar>({1, 1, M, 8}, 2),
                       v = randn<Scalar>({1, 1, M, 11}, 3);
            auto bias = randn<Scalar>({1, 1, L, M}, 4);
            const auto clean = attention(q, k, v, {.bias = bias, .isa = name});
            for (const Scalar value : special_values<Scalar>())
                for (const std::ptrdiff_t m : {std::ptrdiff_t{0}, M / 2, M - 1}) {
                    CAPTURE(value);
                    const planted plant(bias(0, 0, 1, m), value);
                    const auto out = attention(q, k, v, {.bias = bias, .isa = name});
                    const auto weights = attention_weights(q, k, {.bias = bias, .isa = name});
                    const bool bad = value != value || value == std::numeric_limits<Scalar>::infinity();
                    CHECK((sort_of(out(0, 0, 1, 0)) == sort::nan) == bad);
                    CHECK((sort_of(weights(0, 0, 1, m)) == sort::nan) == bad);
                    if (value < std::numeric_limits<Scalar>::lowest()) CHECK(weights(0, 0, 1, m) == 0);
                    for (const std::ptrdiff_t l : {std::ptrdiff_t{0}, std::ptrdiff_t{2}, L - 1})
                        CHECK(std::memcmp(&out(0, 0, l, 0), &clean(0, 0, l, 0), 11 * sizeof(Scalar)) == 0);
                }
        }
    });
}

TEST_CASE_TEMPLATE("an infinite v counts for a key that is seen, though its weight is zero, and not for a masked one",
                   Scalar, float, double) {
    constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
    on_every_target([](isa name) {
        for (const std::ptrdiff_t L : {3, 25})
            for (const std::ptrdiff_t M : {30, 700}) {  // 700: several blocks
                const auto q = randn<Scalar>({1, 2, L, 8}, 1), k = randn<Scalar>({1, 1, M, 8}, 2);
                auto v = randn<Scalar>({1, 1, M, 11}, 3);
                for (const std::ptrdiff_t m : {std::ptrdiff_t{0}, M / 2, M - 1}) {
                    CAPTURE(m);
                    const planted plant(v(0, 0, m, 3), infinity);
                    tensor<Scalar> bias({1, 1, L, M});
                    tensor<bool> mask({1, 1, L, M});
                    std::fill_n(mask.data(), mask.size(), true);
                    for (std::ptrdiff_t l = 0; l < L; ++l) bias(0, 0, l, m) = Scalar(-5000);
                    const auto seen = attention(q, k, v, {.bias = bias, .isa = name});
                    bias(0, 0, 1, m) = -infinity;
                    mask(0, 0, 2, m) = false;
                    const auto some = attention(q, k, v, {.causal = true, .mask = mask, .bias = bias, .isa = name});
                    for (std::ptrdiff_t l = 0; l < L; ++l)
                        for (std::ptrdiff_t h = 0; h < 2; ++h) {
                            CAPTURE(l);
                            CHECK(std::isnan(seen(0, h, l, 3)));
                            CHECK(std::isfinite(seen(0, h, l, 2)));
                            CHECK(std::isnan(some(0, h, l, 3)) == (l != 1 && l != 2 && m <= l + M - L));
                        }
                }
            }
    });
}
