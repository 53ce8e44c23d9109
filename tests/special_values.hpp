// Values that arithmetic treats apart, for tests that plant them in an operand, one at a time.
#pragma once

#include <cstring>
#include <limits>
#include <vector>

#include <headwise/tensor.hpp>

namespace headwise::test {

/// What became of a value: a NaN, an infinity of one sign or the other, or a number.
enum class sort { nan, up, down, finite };

template <class Scalar>
[[nodiscard]] sort sort_of(Scalar x) {
    if (x != x) return sort::nan;
    if (x > std::numeric_limits<Scalar>::max()) return sort::up;
    return x < std::numeric_limits<Scalar>::lowest() ? sort::down : sort::finite;
}

template <class Scalar>
[[nodiscard]] std::vector<Scalar> special_values() {
    using is = std::numeric_limits<Scalar>;
    return {is::quiet_NaN(),  is::infinity(), -is::infinity(), Scalar(0), -Scalar(0),
            is::denorm_min(), is::min() / 4,  is::max(),       Scalar(3)};
}

/// A value in the place of an element's own, for as long as this lives.
template <class Scalar>
class planted {
public:
    planted(Scalar& where, Scalar value) : where_(where), before_(where) { where = value; }
    planted(const planted&) = delete;
    planted& operator=(const planted&) = delete;
    ~planted() { where_ = before_; }

private:
    Scalar& where_;
    Scalar before_;
};

}  // namespace headwise::test
