// Sixteen-bit formats with Advanced SIMD: four elements to a register of floats, and back.

HEADWISE_TARGET_BEGIN
namespace headwise::kernel::neon {

/// What both formats share.
template <class Stored, class Convert>
struct short_memory {
    static HEADWISE_INLINE float32x4_t load(const Stored* p) {
        uint16x4_t bits;
        __builtin_memcpy(&bits, p, sizeof bits);
        return Convert::widened(bits);
    }
    static HEADWISE_INLINE float32x4_t load_first(const Stored* p, int n) {
        Stored part[4] = {};
        for (int i = 0; i < n; ++i) part[i] = p[i];
        return load(part);
    }
    static HEADWISE_INLINE void store(Stored* p, float32x4_t v) {
        const uint16x4_t bits = Convert::rounded(v);
        __builtin_memcpy(p, &bits, sizeof bits);
    }
    template <int Vectors>
    static HEADWISE_INLINE void stream(Stored* p, const float32x4_t (&v)[Vectors]) {
        HEADWISE_UNROLL
        for (int i = 0; i < Vectors; ++i) store(p + 4 * i, v[i]);
    }
    static HEADWISE_INLINE void store_first(Stored* p, float32x4_t v, int n) {
        Stored part[4];
        store(part, v);
        for (int i = 0; i < n; ++i) p[i] = part[i];
    }
};

struct convert_bfloat16 {
    static HEADWISE_INLINE float32x4_t widened(uint16x4_t bits) {
        return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
    }
    static HEADWISE_INLINE uint16x4_t rounded(float32x4_t v) {
        const uint32x4_t bits = vreinterpretq_u32_f32(v), last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), last);
        const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
        return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), sum, quiet), 16);
    }
};

struct convert_half {
    static HEADWISE_INLINE float32x4_t widened(uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }
    static HEADWISE_INLINE uint16x4_t rounded(float32x4_t v) { return vreinterpret_u16_f16(vcvt_f16_f32(v)); }
};

template <>
struct memory<f32x4, bfloat16> : short_memory<bfloat16, convert_bfloat16> {};
template <>
struct memory<f32x4, half> : short_memory<half, convert_half> {};

template <>
struct registers_of<bfloat16> : registers_of<float> {};
template <>
struct registers_of<half> : registers_of<float> {};

}  // namespace headwise::kernel::neon
HEADWISE_TARGET_END
