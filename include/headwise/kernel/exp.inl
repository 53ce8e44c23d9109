// e^x and tanh, lanes at a time. Included once for every target, by attention.inl.
//
// x = n ln 2 + r with n whole and |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r) with q the polynomial whose greatest relative
// error is least (3e-9 for float, 4e-18 for double: an exchange of Remez); e^x = 2^n e^r. ln 2 is split in two, the
// first part so short that its product with n is exact.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::HEADWISE_TARGET {

template <class Scalar>
struct exp_constants;

template <>
struct exp_constants<float> {
    static constexpr float log2_e = 0x1.715476p+0f, ln2_high = 0x1.62ep-1f, ln2_low = 0x1.0bfbe8p-15f;
    static constexpr float lowest = -104.665225f;  // -151 ln 2: from here on the result is zero
    static constexpr float q[] = {0x1.6a2466p-10f, 0x1.1239e2p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f};
    // Adding it leaves x rounded to a whole n in the lowest bits, n + 151, where a shift makes an exponent of it: of
    // 2^(n + 24), and of an exact zero for n = -151. So the product with 2^-24 rounds into the subnormal range once.
    static constexpr float rounder = 0x1.8p+23f + 151, unscale = 0x1p-24f;
    static constexpr float tanh_lowest = -30;  // 1 + e^x is 1
};

template <>
struct exp_constants<double> {
    static constexpr double log2_e = 0x1.71547652b82fep+0, ln2_high = 0x1.62e42fefa4p-1,
                            ln2_low = -0x1.8432a1b0e2634p-43;
    static constexpr double lowest = -745.8263662762511;  // -1076 ln 2
    static constexpr double q[] = {0x1.ad7f3d4d66f3ap-26, 0x1.28ad6dc9b519ep-22, 0x1.71df25669dfc3p-19,
                                   0x1.a0199a11e212ap-16, 0x1.a01a012a54325p-13, 0x1.6c16c18428117p-10,
                                   0x1.1111111127bdep-7,  0x1.5555555550885p-5,  0x1.55555555554fap-3,
                                   0x1.000000000000ap-1};
    static constexpr double rounder = 0x1.8p+52 + 1076, unscale = 0x1p-53;
    static constexpr double tanh_lowest = -60;
};

template <class V>
HEADWISE_INLINE typename V::vec constant(const typename V::scalar& value) {
    return V::broadcast(&value);
}

/// x in its two parts: r, and 2^n in the form that the target multiplies by best.
template <class V>
struct reduced {
    using constants = exp_constants<typename V::scalar>;
    typename V::vec r, n;

    HEADWISE_INLINE explicit reduced(typename V::vec x) {
        typename V::vec whole;
        if constexpr (V::has_scale) {
            n = whole = V::round(V::mul(x, constant<V>(constants::log2_e)));
        } else {
            const auto shifted = V::hidden(V::madd(x, constant<V>(constants::log2_e), constant<V>(constants::rounder)));
            whole = V::sub(shifted, constant<V>(constants::rounder));
            n = V::shift_to_exponent(shifted);
        }
        r = V::madd(whole, constant<V>(-constants::ln2_high), x);
        r = V::madd(whole, constant<V>(-constants::ln2_low), r);
    }
    /// r^2 q(r) + r = e^r - 1.
    [[nodiscard]] HEADWISE_INLINE typename V::vec less_one() const {
        auto p = constant<V>(constants::q[0]);
        HEADWISE_UNROLL
        // NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array
        for (std::size_t i = 1; i < sizeof constants::q / sizeof constants::q[0]; ++i)
            p = V::madd(p, r, constant<V>(constants::q[i]));
        return V::madd(V::mul(p, r), r, r);
    }
    /// 2^n value.
    [[nodiscard]] HEADWISE_INLINE typename V::vec times_power(typename V::vec value) const {
        if constexpr (V::has_scale) return V::scale(value, n);
        else return V::mul(V::mul(value, n), constant<V>(constants::unscale));
    }
};

/// e^x for x <= 0, within 2 ULP; 1 at 0, 0 at minus infinity, rounded once where it is subnormal; NaN stays NaN. Above
/// zero it holds as far as e^x < 2^100.
template <class V>
HEADWISE_INLINE typename V::vec exp(typename V::vec x) {
    using constants = exp_constants<typename V::scalar>;
    const reduced<V> parts(V::max(constant<V>(constants::lowest), x));
    auto p = constant<V>(constants::q[0]);
    HEADWISE_UNROLL
    // NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array
    for (std::size_t i = 1; i < sizeof constants::q / sizeof constants::q[0]; ++i)
        p = V::madd(p, parts.r, constant<V>(constants::q[i]));
    p = V::madd(p, parts.r, constant<V>(1));
    p = V::madd(p, parts.r, constant<V>(1));
    return parts.times_power(p);
}

/// tanh x = -u / (2 + u) with u = e^(-2|x|) - 1, in which small x lose no digits; within 4 ULP. NaN stays NaN.
template <class V>
HEADWISE_INLINE typename V::vec tanh(typename V::vec x) {
    using constants = exp_constants<typename V::scalar>;
    const auto twice = V::mul(V::magnitude(x), constant<V>(-2));
    const reduced<V> parts(V::max(constant<V>(constants::tanh_lowest), twice));
    const auto power = parts.times_power(constant<V>(1));
    const auto u = V::madd(power, parts.less_one(), V::sub(power, constant<V>(1)));
    return V::with_sign_of(V::div(u, V::add(u, constant<V>(2))), x);
}

}  // namespace headwise::kernel::HEADWISE_TARGET
HEADWISE_TARGET_END
