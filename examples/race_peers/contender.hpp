// One interface, every contender: a name, and a way to make a problem into something that can be called again and
// again.
//
// Raw pointers and strides only: a contender may be compiled with flags of its own, or with another Eigen.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace race {

/// Steps in elements from one batch, head and row to the next. The last axis is always contiguous.
struct steps {
    std::ptrdiff_t batch, head, row;
};

/// out[b,h,l,m] = sum over d of q[b,h,l,d] * k[b,h,m,d].
template <class Scalar>
struct problem {
    const Scalar *q, *k;
    Scalar* out;
    std::ptrdiff_t batches, heads, rows, columns, depth;  // B, H, L, M, D
    steps q_steps, k_steps, out_steps;
    int threads;

    [[nodiscard]] const Scalar* q_head(std::ptrdiff_t i) const { return q + offset(q_steps, i); }
    [[nodiscard]] const Scalar* k_head(std::ptrdiff_t i) const { return k + offset(k_steps, i); }
    [[nodiscard]] Scalar* out_head(std::ptrdiff_t i) const { return out + offset(out_steps, i); }
    [[nodiscard]] std::ptrdiff_t all_heads() const { return batches * heads; }

private:
    [[nodiscard]] std::ptrdiff_t offset(const steps& s, std::ptrdiff_t i) const {
        return i / heads * s.batch + i % heads * s.head;
    }
};

/// Does the whole operation `times` times. The loop is inside, so that the smallest shapes do not measure
/// std::function.
using runner = std::function<void(std::ptrdiff_t times)>;

template <class Call>
runner repeat(Call call) {
    return [call = std::move(call)](std::ptrdiff_t times) mutable {
        for (; times > 0; --times) call();
    };
}

struct contender {
    std::string name;     ///< as in the table and for --only
    std::string version;  ///< what was found, in words
    bool ours = false;    ///< headwise's own: never the best peer
    /// Everything that can be done once per shape is done here. An empty runner: this contender does not do that.
    std::function<runner(const problem<float>&)> on_float = nullptr;
    std::function<runner(const problem<double>&)> on_double = nullptr;

    template <class Scalar>
    [[nodiscard]] runner prepare(const problem<Scalar>& p) const {
        if constexpr (std::is_same_v<Scalar, float>) return on_float ? on_float(p) : runner{};
        else return on_double ? on_double(p) : runner{};
    }
};

/// Calls f(head) for all heads. Peers without threads of their own are given OpenMP's, one head at a time.
template <class Scalar, class F>
void for_each_head(const problem<Scalar>& p, F&& f) {
    const std::ptrdiff_t count = p.all_heads();
#if defined(_OPENMP)
    if (p.threads > 1 && count > 1) {
#pragma omp parallel for num_threads(p.threads) schedule(static)
        for (std::ptrdiff_t i = 0; i < count; ++i) f(i);
        return;
    }
#endif
    for (std::ptrdiff_t i = 0; i < count; ++i) f(i);
}

// One file each; a peer that CMake did not find has none. `threads` is what every problem of this run will ask for.
std::vector<contender> headwise_contenders();
std::vector<contender> eigen_contenders(int threads);
std::vector<contender> openblas_contenders(int threads);
std::vector<contender> blis_contenders(int threads);
std::vector<contender> onednn_contenders(int threads);
std::vector<contender> libxsmm_contenders(int threads);

}  // namespace race
