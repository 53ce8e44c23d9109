// One pair of numbers: torch.isclose to the last bit. And one block of them, at the speed of memory.
//
// The rule is simple; keeping a compiler from improving it is not. With -march=native GCC contracts atol + rtol*|b|
// into an FMA, and -ffast-math reassociates, deletes the tests for NaN and infinity, and links code that makes
// subnormals zero. So: every product, sum and difference passes through `hide`, every decision is taken on integers,
// and `exact_subnormals` holds the processor to IEEE 754 while we look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <headwise/error.hpp>
#include <headwise/harness/elements.hpp>
#include <headwise/harness/ulp.hpp>

namespace headwise {

/// The names and defaults of torch.allclose. Both tolerances are >= 0; infinity is allowed, NaN is refused.
struct allclose_options {
    double rtol = 1e-5;
    double atol = 1e-8;
    bool equal_nan = false;
};

namespace detail {

/// The optimiser cannot see through this: what came in was computed and rounded, what comes out is a stranger.
template <class Value>
inline void hide(Value& value) noexcept {
#if defined(__GNUC__) && defined(__SSE2__)
    asm volatile("" : "+x"(value));
#elif defined(__GNUC__) && defined(__aarch64__)
    asm volatile("" : "+w"(value));
#elif defined(__GNUC__)
    asm volatile("" : "+m"(value));
#else
    volatile Value stored = value;
    value = stored;
#endif
}

/// While it lives, subnormals are numbers on this thread: flush-to-zero, which -ffast-math switches on at start-up, is
/// off. It writes the control register only if that was on, and puts it back as it was.
class exact_subnormals {
#if defined(__GNUC__) && defined(__SSE2__)
    using word = std::uint32_t;
    static constexpr word flushing = 0x8040;  // FTZ, DAZ
    static word read() noexcept {
        word w;
        asm volatile("stmxcsr %0" : "=m"(w));
        return w;
    }
    static void write(word w) noexcept { asm volatile("ldmxcsr %0" : : "m"(w) : "memory"); }
#elif defined(__GNUC__) && defined(__aarch64__)
    using word = std::uint64_t;
    static constexpr word flushing = word{1} << 24;  // FZ
    static word read() noexcept {
        word w;
        asm volatile("mrs %0, fpcr" : "=r"(w));
        return w;
    }
    static void write(word w) noexcept { asm volatile("msr fpcr, %0" : : "r"(w) : "memory"); }
#else
    using word = int;
    static constexpr word flushing = 0;
    static word read() noexcept { return 0; }
    static void write(word) noexcept {}
#endif
    word saved_ = read();

public:
    exact_subnormals() noexcept {
        if (saved_ & flushing) write(saved_ & ~flushing);
    }
    ~exact_subnormals() {
        if (saved_ & flushing) write(saved_);
    }
    exact_subnormals(const exact_subnormals&) = delete;
    exact_subnormals& operator=(const exact_subnormals&) = delete;
};

inline void check_options(const allclose_options& options) {
    for (const auto& [name, value] : {std::pair{"rtol", &options.rtol}, std::pair{"atol", &options.atol}}) {
        const auto bits = to_bits(*value);
        if (is_nan<double>(bits)) refuse(std::string(name) + " must not be negative or NaN; it is NaN");
        if (bits > sign_bit<double>)
            refuse(std::string(name) + " must not be negative or NaN; it is " + std::to_string(*value));
    }
}

/// The type that A and B are compared in: their own if it is one; for half and bfloat16 float, each step rounded back;
/// for integers double, after an exact difference; for mixed operands the wider.
template <class A, class B>
using compared_as = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double> ||
                                           std::is_integral_v<A> || std::is_integral_v<B>,
                                       double, float>;

/// a as a Number, as its bit pattern.
template <class Number, class T>
bits_of<Number> load(const T& a) noexcept {
    if constexpr (std::is_same_v<T, Number>) {
        return to_bits(a);
    } else if constexpr (small_float<T>) {
        return load<Number>(static_cast<float>(a));
    } else {
        Number wide = static_cast<Number>(a);
        hide(wide);
        return to_bits(wide);
    }
}

/// A pattern as the number it stands for. By reference, because a function that returns a NaN is undefined to some
/// compilers under -ffast-math; `finite_number` is for patterns known to be finite.
template <class Number>
void put(Number& x, bits_of<Number> bits) noexcept {
    std::memcpy(&x, &bits, sizeof x);
}

template <class Number>
Number finite_number(bits_of<Number> bits) noexcept {
    return std::bit_cast<Number>(bits);
}

/// A Number's pattern as the pattern of the same double.
template <class Number>
std::uint64_t widened(bits_of<Number> bits) noexcept {
    Number x;
    put(x, bits);
    return load<double>(x);
}

/// What rtol and atol become in Number: converted once, where subnormals are exact.
template <class Number>
struct limits {
    Number rtol, atol;
    bool equal_nan;
    explicit limits(const allclose_options& options) noexcept : equal_nan(options.equal_nan) {
        double r = options.rtol, a = options.atol;
        hide(r), hide(a);
        rtol = static_cast<Number>(r), atol = static_cast<Number>(a);
        hide(rtol), hide(atol);
    }
};

enum class kind : unsigned char { finite, nan_one_side, nan_both, infinite };

/// The judgement on one pair, |a - b| and what was allowed as patterns of Number.
template <class Number>
struct judged {
    bool close;
    enum kind kind;
    bits_of<Number> error, allowed;
};

template <class A, class B>
struct pair_of {
    using num = compared_as<A, B>;
    using bits = bits_of<num>;
    static constexpr bool integers = std::is_integral_v<A> && std::is_integral_v<B>;
    static constexpr bool halves = std::is_same_v<A, B> && small_float<A>;

    /// Rounds a step to the operands' own type, where that is narrower than the arithmetic.
    static bits settle(num& x) noexcept {
        hide(x);
        if constexpr (halves) {
            if constexpr (requires { static_cast<A>(x); }) return load<num>(static_cast<A>(x));
        }
        return to_bits(x);
    }

    /// |a - b|. Integers of any signedness: exact in 64 bits, then rounded once.
    static bits error(const A& a, const B& b) noexcept {
        if constexpr (integers) {
            return load<num>(integer_distance(a, b));
        } else {
            num x, y;
            put(x, load<num>(a)), put(y, load<num>(b));
            x -= y;
            return magnitude<num>(settle(x));
        }
    }

    static std::uint64_t integer_distance(A a, B b) noexcept {
        const auto x = +a;  // the promotion lets bool and char in
        const auto y = +b;
        const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
        return std::cmp_less(x, y) ? uy - ux : ux - uy;
    }

    /// atol + |rtol * b|, or `bound` where that is more. NaN stays NaN: its pattern is the greatest of all.
    static bits allowed(const B& b, const limits<num>& limit, const num& bound) noexcept {
        num x;
        put(x, load<num>(b));
        x *= limit.rtol;
        put(x, magnitude<num>(settle(x)));
        x += limit.atol;
        return std::max(settle(x), to_bits(bound));
    }

    static enum kind kind_of(bits a, bits b) noexcept {
        const bool nan_a = is_nan<num>(a), nan_b = is_nan<num>(b);
        if (nan_a && nan_b) return kind::nan_both;
        if (nan_a || nan_b) return kind::nan_one_side;
        return is_finite<num>(a) && is_finite<num>(b) ? kind::finite : kind::infinite;
    }

    static judged<num> judge(const A& a, const B& b, const limits<num>& limit, const num& bound) noexcept {
        const bits x = load<num>(a), y = load<num>(b), e = error(a, b), t = allowed(b, limit, bound);
        const enum kind kind = kind_of(x, y);
        bool equal = is_equal<num>(x, y);
        if constexpr (integers) equal = integer_distance(a, b) == 0;
        const bool within = e < infinity_bits<num> && t <= infinity_bits<num> && e <= t;
        return {equal || within || (limit.equal_nan && kind == kind::nan_both), kind, e, t};
    }
};

#if defined(__GNUC__)
inline constexpr std::size_t vector_bytes =
#if defined(__AVX2__)
    32;
#else
    16;
#endif

/// A number type as a register holds it, and its bits.
template <class Number>
struct lanes {
    typedef Number values __attribute__((vector_size(vector_bytes)));
    typedef bits_of<Number> bits __attribute__((vector_size(vector_bytes)));
    static constexpr std::ptrdiff_t count = vector_bytes / sizeof(Number);
};
#endif

/// What a block is held against. The records are those of a report: pairs that beat one want a closer look.
template <class Number>
struct block_limits {
    Number rtol, atol;
    Number row = 0;  ///< times column[i]: the bound of pair i
    Number error_record = 0, ratio_record = 0, bound_record = 0;
};

/// True: every one of the n pairs is close, and none beats a record. False: look closer. Each question is put so that
/// its answer is a sign bit ("t - e is negative", "the exponent of e overflows when one is added"), so a block costs
/// one OR per question and one test in all, and nothing that -ffinite-math-only could delete. rtol must be finite.
/// `Infinities` excuses equal ones, as masked scores have them; without it they ask for a closer look, and the block
/// costs a tenth less.
template <bool Bound, bool Records, bool Infinities, class Number>
bool surely_close(const Number* a, const Number* b, const Number* column, std::ptrdiff_t n,
                  const block_limits<Number>& limit) noexcept {
#if defined(__GNUC__)
    using values = typename lanes<Number>::values;
    using bits = typename lanes<Number>::bits;
    using word = bits_of<Number>;
    constexpr std::ptrdiff_t lane_count = lanes<Number>::count;
    constexpr word positive = ~sign_bit<Number>;
    constexpr word one_exponent = word{1} << (std::numeric_limits<Number>::digits - 1);
    [[maybe_unused]] constexpr word beyond_infinity = positive - infinity_bits<Number>;
    const values rtol = limit.rtol - values{}, atol = limit.atol - values{}, row = limit.row - values{};
    bits suspect{};
    const auto look = [&](const Number* pa, const Number* pb, const Number* pc, std::size_t bytes)
        __attribute__((always_inline)) {
        values x{}, y{}, c{};
        std::memcpy(&x, pa, bytes), std::memcpy(&y, pb, bytes);
        values difference = x - y, product = rtol * y;
        hide(difference), hide(product);
        const bits error = reinterpret_cast<bits>(difference) & positive;
        const values e = reinterpret_cast<values>(error);
        values t = atol + reinterpret_cast<values>(reinterpret_cast<bits>(product) & positive);
        hide(t);
        bits beyond = reinterpret_cast<bits>(t - e);
        if constexpr (Bound) {
            std::memcpy(&c, pc, bytes);
            values bound = row * c;
            hide(bound);
            beyond &= reinterpret_cast<bits>(bound - e);
            if constexpr (Records) {
                beyond |= reinterpret_cast<bits>(limit.ratio_record * t - e) &
                          reinterpret_cast<bits>(limit.ratio_record * bound - e);
                beyond |= reinterpret_cast<bits>(limit.bound_record * bound - e);
            }
        } else if constexpr (Records) {
            beyond |= reinterpret_cast<bits>(limit.ratio_record * t - e);
        }
        if constexpr (Records) beyond |= reinterpret_cast<bits>(limit.error_record - e);
        beyond |= error + one_exponent;
        if constexpr (Infinities) {
            const bits pattern = reinterpret_cast<bits>(x);
            beyond &= ~reinterpret_cast<bits>(pattern == reinterpret_cast<bits>(y));
            beyond |= (pattern & positive) + beyond_infinity;  // a NaN is not excused
        }
        suspect |= beyond;
    };
    const auto columns_from = [&](std::ptrdiff_t i) { return Bound ? column + i : nullptr; };
    std::ptrdiff_t i = 0;
#pragma GCC unroll 4
    for (; i + lane_count <= n; i += lane_count) look(a + i, b + i, columns_from(i), vector_bytes);
    if (i < n) look(a + i, b + i, columns_from(i), static_cast<std::size_t>(n - i) * sizeof(Number));
    word all = 0;
    for (std::ptrdiff_t lane = 0; lane < lane_count; ++lane) all |= suspect[lane];
    return (all & sign_bit<Number>) == 0;
#else
    return (void)a, (void)b, (void)column, (void)limit, n == 0;
#endif
}

}  // namespace detail
}  // namespace headwise
