// The gate: no speed without agreement. What arms return is kept, compared with arm 0's, and not taken on trust.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include <headwise/harness/close_report.hpp>
#include <headwise/harness/elements.hpp>
#include <headwise/harness/number_text.hpp>
#include <headwise/harness/tolerance.hpp>

namespace headwise {

namespace detail {

/// Visits the address of each element of an array, in row-major order.
template <class T, class Visit>
void for_each_element(const elements<T>& array, Visit&& visit) {
    const auto& [n0, n1, n2, n3] = array.at.shape;
    if (n0 == 0 || n1 == 0 || n2 == 0 || n3 == 0) return;  // else 2^63 rows of nothing would be walked
    const auto& [s0, s1, s2, s3] = array.at.strides;
    for (std::ptrdiff_t i = 0; i < n0; ++i) {
        for (std::ptrdiff_t j = 0; j < n1; ++j) {
            for (std::ptrdiff_t k = 0; k < n2; ++k) {
                const T* row = array.data + i * s0 + j * s1 + k * s2;
                for (std::ptrdiff_t l = 0; l < n3; ++l) visit(row + l * s3);
            }
        }
    }
}

}  // namespace detail

/// An input of the arms, watched: any contiguous range or strided array of numbers. It refers to the data, which must
/// outlive the comparison. `.inputs = {q, k}` makes them.
class input {
public:
    template <comparable_array Array>
    input(const Array& array) {  // NOLINT(google-explicit-constructor): that is how `.inputs = {q, k}` reads
        const auto elements = detail::elements_of(array);
        hash_ = [elements] {
            std::uint64_t hash = 0xcbf29ce484222325ull;
            detail::for_each_element(elements, [&hash](const auto* x) {
                std::uint64_t word = 0;
                static_assert(sizeof *x <= sizeof word);
                std::memcpy(&word, x, sizeof *x);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
                hash ^= hash >> 32;
            });
            return hash;
        };
        if (elements.at.size() == 0) return;
        std::ptrdiff_t low = 0, high = 0;
        for (std::size_t d = 0; d < 4; ++d) {
            const std::ptrdiff_t reach = (elements.at.shape[d] - 1) * elements.at.strides[d];
            (reach < 0 ? low : high) += reach;
        }
        first_ = elements.data + low;
        last_ = elements.data + high;
    }
    [[nodiscard]] std::uint64_t hash() const { return hash_(); }
    [[nodiscard]] bool holds(const void* address) const noexcept {
        return first_ != nullptr && !std::less<>{}(address, first_) && !std::less<>{}(last_, address);
    }

private:
    std::function<std::uint64_t()> hash_;
    const void* first_ = nullptr;  // the addresses of the lowest and of the highest element
    const void* last_ = nullptr;
};

namespace detail {

/// The outcome of holding an output against another: nothing to say when they agree.
struct agreement {
    bool agrees = true;
    std::string why;
};

/// Numbers that `closeness` does not know, or an array of them: long double and other wide ones.
template <class T>
concept wide_numbers = (std::is_arithmetic_v<T> && !element<T>) || requires(const T& array) {
    requires std::is_arithmetic_v<std::remove_cvref_t<decltype(*std::data(array))>>;
    requires !element<std::remove_cvref_t<decltype(*std::data(array))>>;
};

/// Numbers by `close_report`, anything else by ==.
struct default_agreement {
    tolerance closeness;

    template <class Actual, class Expected>
    agreement operator()(const Actual& actual, const Expected& expected) const {
        if constexpr (comparable_array<Actual> && comparable_array<Expected>) {
            const layout a = elements_of(actual).at, e = elements_of(expected).at;
            if (a.rank != e.rank || a.shape != e.shape)
                return {false, "its shape is " + a.text() + " instead of " + e.text()};
            return explain(close_report(actual, expected, closeness));
        } else if constexpr (element<Actual> && element<Expected>) {
            return explain(close_report(std::array{actual}, std::array{expected}, closeness));
        } else {
            static_assert(
                requires { static_cast<bool>(actual == expected); },
                "compare: the arms' results are neither numbers, nor arrays of numbers (both of integers of up to 64 "
                "bits, float, double, or a class of two bytes that converts to float; not of long double), nor "
                "comparable with ==; pass an agreement: compare(options, [](const auto& actual, const auto& expected) "
                "{ ... }, arms...)");
            if (actual == expected) return {};
            if constexpr (wide_numbers<Actual> || wide_numbers<Expected>)
                return {false,
                        "its result is not equal; numbers wider than double, as long double, must be: closeness "
                        "is for types up to double"};
            else return {false, "its result is not equal"};
        }
    }

    static agreement explain(const close_report& report) {
        if (report) return {};
        const close_report::difference& first = report.first[0];
        const std::string nan =
            report.nan_both == 0 || !report.rule.arithmetic()
                ? ""
                : std::string("; ") + std::to_string(report.nan_both) + (report.nan_both == 1 ? " is" : " are") +
                      " NaN in both outputs, which agree where the tolerance says .equal_nan = true";
        return {false, std::to_string(report.mismatches) + " of " + std::to_string(report.total) +
                           (report.total == 1 ? " element" : " elements") +
                           (report.mismatches == 1 ? " differs" : " differ") + ", the first at " +
                           index_text(first.index, report.rank) + ": " + instead_text(first, report.single) + nan};
    }
};

/// A caller's agreement may answer with anything that converts to bool; what it prints is the reason.
template <class Agreement, class Actual, class Expected>
agreement ask(const Agreement& agree, const Actual& actual, const Expected& expected) {
    auto answer = agree(actual, expected);
    if constexpr (std::is_same_v<decltype(answer), agreement>) {
        return answer;
    } else {
        if (static_cast<bool>(answer)) return {};
        if constexpr (!std::is_same_v<decltype(answer), bool> && requires(std::ostream & os) { os << answer; }) {
            std::ostringstream os;
            os << answer;
            return {false, os.str().substr(0, os.str().find('\n'))};
        } else {
            return {false, "the agreement given does not hold"};
        }
    }
}

/// Where a call's result goes: constructed in place (no move is timed), destroyed outside the timed window. A reference
/// is kept as the address of what it refers to; of void nothing is kept.
template <class Result>
class kept_result {
public:
    kept_result() = default;
    kept_result(const kept_result&) = delete;
    kept_result& operator=(const kept_result&) = delete;
    ~kept_result() { clear(); }

    void clear() noexcept {
        if (full_) reinterpret_cast<Result*>(storage_)->~Result();
        full_ = false;
    }
    template <class Call>
    void take(Call& call) {
        ::new (static_cast<void*>(storage_)) Result(call());
        full_ = true;
    }
    [[nodiscard]] Result& get() noexcept { return *std::launder(reinterpret_cast<Result*>(storage_)); }

private:
    alignas(Result) std::byte storage_[sizeof(Result)];
    bool full_ = false;
};

template <class Referred>
class kept_result<Referred&> {
public:
    void clear() noexcept {}
    template <class Call>
    void take(Call& call) {
        address_ = std::addressof(call());
    }
    [[nodiscard]] Referred& get() noexcept { return *address_; }

private:
    Referred* address_ = nullptr;
};

template <>
class kept_result<void> {
public:
    void clear() noexcept {}
    template <class Call>
    void take(Call& call) {
        call();
    }
};

/// std::span and its like: a constant one still gives access to elements that can be written.
template <class Array>
concept shallow_array = contiguous_array<const Array> && requires(const Array& array) {
    requires !std::is_const_v<std::remove_reference_t<decltype(*std::data(array))>>;
};

/// Does a result of this type refer to memory that outlives the call, and that can be written? References, shallow
/// arrays and trivially copyable strided ones (tensor_view) do.
template <class Result>
inline constexpr bool refers = std::is_reference_v<Result> || shallow_array<std::remove_cvref_t<Result>> ||
                               (strided_array<std::remove_cvref_t<Result>> && std::is_trivially_copyable_v<Result>);

/// Where the first element of an array, or a number, lies; null of anything else, and of an array without elements.
template <class Result>
[[nodiscard]] auto address_of(Result& result) noexcept {
    if constexpr (strided_array<std::remove_cvref_t<Result>>) {
        return elements_of(result).at.size() == 0 ? nullptr : result.data();
    } else if constexpr (comparable_array<Result>) {
        return elements_of(result).at.size() == 0 ? nullptr : std::data(result);
    } else if constexpr (element<std::remove_cvref_t<Result>>) {
        return std::addressof(result);
    } else {
        return static_cast<const void*>(nullptr);
    }
}

/// May what a result of this type refers to be overwritten?
template <class Result>
inline constexpr bool can_be_poisoned = [] {
    if constexpr (!refers<Result>) return false;
    else {
        using value = std::remove_pointer_t<decltype(address_of(std::declval<std::add_lvalue_reference_t<Result>>()))>;
        return !std::is_const_v<value> && !std::is_same_v<value, bool>;
    }
}();

/// Fills an output with NaN, before a call that must overwrite it: all bits set is a NaN in every floating-point
/// format.
template <class Output>
void poison(Output& output) {
    const auto fill = [](const auto* x) {
        std::memset(const_cast<void*>(static_cast<const void*>(x)), 0xff, sizeof *x);  // the address came without const
    };
    if constexpr (comparable_array<Output>) for_each_element(elements_of(output), fill);
    else fill(std::addressof(output));
}

/// What an output looks like, beyond agreeing: an answer of zeros agrees with many things.
struct output_facts {
    std::size_t elements = 0, zeros = 0, unwritten = 0;
    [[nodiscard]] bool all_zero() const noexcept { return elements != 0 && zeros == elements; }
};

template <class Array>
output_facts facts_of(const Array& array) {
    output_facts facts;
    if constexpr (comparable_array<Array>) {
        for_each_element(elements_of(array), [&]<class T>(const T* x) {
            unsigned char set[sizeof(T)];
            std::memset(set, 0xff, sizeof(T));
            ++facts.elements;
            if (to_double(*x) == 0) ++facts.zeros;
            // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the poison is a pattern of bits
            if constexpr (!std::is_integral_v<T>) facts.unwritten += std::memcmp(x, set, sizeof(T)) == 0;
        });
    }
    return facts;
}

/// How many numbers of an output are NaN, of whatever pattern.
template <class Output>
std::size_t nans_in(const Output& output) {
    std::size_t count = 0;
    const auto look = [&count]<class T>(const T* x) {
        if constexpr (!std::is_integral_v<T>) count += is_nan<double>(load<double>(*x));
    };
    if constexpr (comparable_array<Output>) for_each_element(elements_of(output), look);
    else if constexpr (element<Output>) look(&output);
    return count;
}

/// A dense copy of an array that lives elsewhere.
template <class T, std::size_t Rank>
class snapshot {
public:
    template <class Array>
    explicit snapshot(const Array& array) {
        const auto source = elements_of(array);
        values_ = std::make_unique<T[]>(static_cast<std::size_t>(source.at.size()));
        std::copy(source.at.shape.end() - Rank, source.at.shape.end(), shape_.begin());
        std::ptrdiff_t step = 1;
        for (std::size_t d = Rank; d-- > 0; step *= shape_[d]) strides_[d] = step;
        T* next = values_.get();
        for_each_element(source, [&](const T* x) { *next++ = *x; });
    }
    const T* data() const noexcept { return values_.get(); }
    const std::array<std::ptrdiff_t, Rank>& shape() const noexcept { return shape_; }
    const std::array<std::ptrdiff_t, Rank>& strides() const noexcept { return strides_; }

private:
    std::unique_ptr<T[]> values_;
    std::array<std::ptrdiff_t, Rank> shape_{}, strides_{};
};

/// A copy of what arm 0 returned that no later call can reach.
template <class Value>
auto copy_of(const Value& value) {
    if constexpr (strided_array<Value>) {
        using element_type = std::remove_cvref_t<decltype(*value.data())>;
        return snapshot<element_type, std::tuple_size_v<std::remove_cvref_t<decltype(value.shape())>>>(value);
    } else if constexpr (comparable_array<Value>) {
        return snapshot<std::remove_cvref_t<decltype(*std::data(value))>, 1>(value);
    } else {
        static_assert(std::is_copy_constructible_v<Value>,
                      "compare: arm 0's result must be copyable, so that later calls cannot change it");
        return Value(value);
    }
}

}  // namespace detail
}  // namespace headwise
