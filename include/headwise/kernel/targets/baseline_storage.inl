// Sixteen-bit formats on arrays of four, the arithmetic of storage.hpp: what compilers without these arrays do one at a
// time.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::baseline {

#if defined(__GNUC__) || defined(__clang__)
/// Conversions of four; comparisons give all ones or none.
struct four {
    using floats = bytes16<float>::vec;
    typedef std::int32_t ints __attribute__((vector_size(16)));
    typedef std::uint32_t words __attribute__((vector_size(16)));
    typedef std::uint16_t shorts __attribute__((vector_size(8)));

    static HEADWISE_INLINE ints if_else(ints condition, ints a, ints b) { return (condition & a) | (~condition & b); }

    static HEADWISE_INLINE floats widened(shorts bits, bfloat16) {
        return reinterpret_cast<floats>(__builtin_convertvector(bits, words) << 16);
    }
    static HEADWISE_INLINE floats widened(shorts bits, half) {
        const ints all = reinterpret_cast<ints>(__builtin_convertvector(bits, words)), magnitude = all & 0x7fff;
        const ints sign = reinterpret_cast<ints>(reinterpret_cast<words>(all) >> 15 << 31);
        const ints small = reinterpret_cast<ints>(__builtin_convertvector(magnitude, floats) * 0x1p-24f);
        const ints special = (magnitude >= 0x7c00) & 0x38000000, quiet = (magnitude > 0x7c00) & 0x400000;
        const ints large = ((magnitude << 13) + 0x38000000 + special) | quiet;
        return reinterpret_cast<floats>(sign | if_else(magnitude < 0x400, small, large));
    }

    static HEADWISE_INLINE shorts rounded(floats v, bfloat16) {
        const words bits = reinterpret_cast<words>(v), sum = bits + 0x7fffu + (bits >> 16 & 1u);
        // NOLINTNEXTLINE(misc-redundant-expression): NaN is what differs from itself
        return shortened(if_else(v != v, reinterpret_cast<ints>(bits | 0x400000u), reinterpret_cast<ints>(sum)), 16);
    }
    static HEADWISE_INLINE shorts rounded(floats v, half) {
        const ints bits = reinterpret_cast<ints>(v), magnitude = bits & 0x7fffffff;
        const ints sign = reinterpret_cast<ints>(reinterpret_cast<words>(bits) >> 31 << 15);
        const ints small = reinterpret_cast<ints>(reinterpret_cast<floats>(magnitude) + 0.5f) - 0x3f000000;
        const ints nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
        ints result = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
        result = if_else(magnitude < 0x38800000, small, result);
        result = if_else(magnitude >= 0x477ff000, ints{} + 0x7c00, result);
        return shortened(sign | if_else(magnitude > 0x7f800000, nan, result), 0);
    }

private:
    static HEADWISE_INLINE shorts shortened(ints bits, int shift) {
        return __builtin_convertvector(reinterpret_cast<words>(bits) >> shift, shorts);
    }
};

template <class Stored>
struct short_memory {
    static HEADWISE_INLINE four::floats load(const Stored* p) {
        four::shorts bits;
        __builtin_memcpy(&bits, p, sizeof bits);
        return four::widened(bits, Stored{});
    }
    static HEADWISE_INLINE four::floats load_first(const Stored* p, int n) {
        Stored part[4] = {};
        for (int i = 0; i < n; ++i) part[i] = p[i];
        return load(part);
    }
    static HEADWISE_INLINE void store(Stored* p, four::floats v) {
        const four::shorts bits = four::rounded(v, Stored{});
        __builtin_memcpy(p, &bits, sizeof bits);
    }
    template <int Vectors>
    static HEADWISE_INLINE void stream(Stored* p, const four::floats (&v)[Vectors]) {
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) store(p + 4 * i, v[i]);
    }
    static HEADWISE_INLINE void store_first(Stored* p, four::floats v, int n) {
        Stored part[4];
        store(part, v);
        for (int i = 0; i < n; ++i) p[i] = part[i];
    }
};

template <>
struct memory<bytes16<float>, bfloat16> : short_memory<bfloat16> {};
template <>
struct memory<bytes16<float>, half> : short_memory<half> {};
#endif

template <>
struct registers_of<bfloat16> : registers_of<float> {};
template <>
struct registers_of<half> : registers_of<float> {};

}  // namespace headwise::kernel::baseline
HEADWISE_TARGET_END
