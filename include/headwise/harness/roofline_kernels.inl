// The bodies of roofline.hpp's probes, compiled once per instruction set: included inside a namespace (and a target
// region) that has defined `vec_float`, `vec_double`, `splat`, `madd` and `stream`. No includes, no lambdas here.

/// `rounds` times `fma_chains` vector FMAs: 4 cycles of latency on 2 units need 8 chains, 12 cover slower machines.
/// Each starts from a value of its own: equal chains are one chain to an optimiser, which then folds them, and the peak
/// reads half as high again as it is.
template <class Scalar>
HEADWISE_ROOFLINE_NOINLINE Scalar spin_fma(long rounds, const Scalar* seeds) {
    auto s0 = splat(seeds[0]), s1 = splat(seeds[1]), s2 = splat(seeds[2]), s3 = splat(seeds[3]);
    auto s4 = splat(seeds[4]), s5 = splat(seeds[5]), s6 = splat(seeds[6]), s7 = splat(seeds[7]);
    auto s8 = splat(seeds[8]), s9 = splat(seeds[9]), s10 = splat(seeds[10]), s11 = splat(seeds[11]);
    const auto factor = splat(seeds[12]), addend = splat(seeds[13]);
    for (long i = 0; i < rounds; ++i) {
        s0 = madd(s0, factor, addend), s1 = madd(s1, factor, addend), s2 = madd(s2, factor, addend);
        s3 = madd(s3, factor, addend), s4 = madd(s4, factor, addend), s5 = madd(s5, factor, addend);
        s6 = madd(s6, factor, addend), s7 = madd(s7, factor, addend), s8 = madd(s8, factor, addend);
        s9 = madd(s9, factor, addend), s10 = madd(s10, factor, addend), s11 = madd(s11, factor, addend);
    }
    const auto sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) + ((s8 + s9) + (s10 + s11));
    return sum[0];
}

/// `count` floats, a multiple of `stretch_granule`, 64-byte aligned, `passes` times over. Eight sums, or the additions'
/// latency would hide the second load of a cycle. The pages to come are fetched: without it the processor waits for
/// each one's translation, and reads a tenth less from memory than a routine that does it.
HEADWISE_ROOFLINE_NOINLINE inline float read_pass(const float* data, std::size_t count, long passes) {
    constexpr std::size_t lanes = sizeof(vec_float) / sizeof(float);
    vec_float s0 = splat(0.0f), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (long pass = 0; pass < passes; ++pass)
        for (std::size_t i = 0; i < count; i += 8 * lanes) {
            constexpr std::size_t page = 4096 / sizeof(float);
            if (i % page == 0) detail::fetch_line(data + i + (i + 8 * page < count ? 8 * page : 0));
            s0 = s0 + load(data + i), s1 = s1 + load(data + i + lanes);
            s2 = s2 + load(data + i + 2 * lanes), s3 = s3 + load(data + i + 3 * lanes);
            s4 = s4 + load(data + i + 4 * lanes), s5 = s5 + load(data + i + 5 * lanes);
            s6 = s6 + load(data + i + 6 * lanes), s7 = s7 + load(data + i + 7 * lanes);
        }
    const vec_float sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
    return sum[0];
}

HEADWISE_ROOFLINE_NOINLINE inline void write_pass(float* data, std::size_t count, long passes, float value) {
    constexpr std::size_t lanes = sizeof(vec_float) / sizeof(float);
    for (long pass = 0; pass < passes; ++pass) {
        const vec_float v = splat(value + static_cast<float>(pass));
        for (std::size_t i = 0; i < count; i += 4 * lanes)
            store(data + i, v), store(data + i + lanes, v), store(data + i + 2 * lanes, v),
                store(data + i + 3 * lanes, v);
    }
}

HEADWISE_ROOFLINE_NOINLINE inline void stream_pass(float* data, std::size_t count, long passes, float value) {
    constexpr std::size_t lanes = sizeof(vec_float) / sizeof(float);
    for (long pass = 0; pass < passes; ++pass) {
        const vec_float v = splat(value + static_cast<float>(pass));
        for (std::size_t i = 0; i < count; i += 4 * lanes)
            stream(data + i, v), stream(data + i + lanes, v), stream(data + i + 2 * lanes, v),
                stream(data + i + 3 * lanes, v);
    }
}

/// a[i] = b[i] + factor * c[i] over three stretches of `count` floats, one after the other.
HEADWISE_ROOFLINE_NOINLINE inline void triad_pass(float* data, std::size_t count, long passes, float factor) {
    constexpr std::size_t lanes = sizeof(vec_float) / sizeof(float);
    const vec_float f = splat(factor);
    const float *b = data + count, *c = b + count;
    for (long pass = 0; pass < passes; ++pass)
        for (std::size_t i = 0; i < count; i += 2 * lanes) {
            store(data + i, madd(load(c + i), f, load(b + i)));
            store(data + i + lanes, madd(load(c + i + lanes), f, load(b + i + lanes)));
        }
}

inline constexpr detail::roofline_kernels kernels{instruction_set,
                                                  sizeof(vec_float) / sizeof(float),
                                                  sizeof(vec_double) / sizeof(double),
                                                  spin_fma<float>,
                                                  spin_fma<double>,
                                                  read_pass,
                                                  write_pass,
                                                  stream_pass,
                                                  triad_pass};
