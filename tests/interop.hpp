// What the tests of views of other libraries' tensors ask of each.
#pragma once

#include <utility>

#include <headwise/interop.hpp>

#include "refusal.hpp"

namespace headwise::test {

template <class T>
concept viewed = requires(T&& x) {
    view_of(std::forward<T>(x));
};
template <class Target, class T>
concept seen_as = requires(T&& x) {
    view_as<Target>(std::forward<T>(x));
};

template <class Scalar>
[[nodiscard]] bool is(const tensor_view<Scalar>& view, const void* data, const shape4& shape, const strides4& strides) {
    return view.data() == data && view.shape() == shape && view.strides() == strides;
}

}  // namespace headwise::test
