// Time on a GPU's stream, between two events: what torch.cuda.Event(enable_timing=True) gives. Only where CUDA's
// headers are found (HEADWISE_HAVE_CUDA_TIMER says so); link with cudart.
#pragma once

#if __has_include(<cuda_runtime.h>)
#define HEADWISE_HAVE_CUDA_TIMER 1

#include <cstddef>
#include <cuda_runtime.h>
#include <string>
#include <utility>

#include <headwise/error.hpp>

namespace headwise {

/// start() and stop() put an event each into the stream and return at once; elapsed_ms() waits for the second and says
/// how long the stream took between them, with a resolution of half a microsecond. Events are made, with timing on,
/// when first recorded, on the device that is current then: a timer that is never used needs no GPU.
///
/// Asked before both were recorded: `std::invalid_argument`. When CUDA fails: `std::runtime_error` with its words.
class cuda_event_timer {
public:
    explicit cuda_event_timer(cudaStream_t stream = nullptr) noexcept : stream_(stream) {}
    cuda_event_timer(const cuda_event_timer&) = delete;
    cuda_event_timer& operator=(const cuda_event_timer&) = delete;
    ~cuda_event_timer() {
        for (const mark& m : {start_, stop_}) {
            if (m.event != nullptr) (void)cudaEventDestroy(m.event);
        }
    }

    void start() {
        stop_.is_recorded = false;
        record(start_);
    }
    void stop() {
        if (!start_.is_recorded) detail::refuse(std::string("cuda_event_timer: stop() before start()"));
        record(stop_);
    }

    /// Waits until the stream has come to stop().
    [[nodiscard]] float elapsed_ms() const {
        if (!start_.is_recorded || !stop_.is_recorded)
            detail::refuse(std::string("cuda_event_timer: elapsed_ms() needs start() and stop() before it"));
        check(cudaEventSynchronize(stop_.event), "cudaEventSynchronize");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, start_.event, stop_.event), "cudaEventElapsedTime");
        return ms;
    }

private:
    struct mark {
        cudaEvent_t event = nullptr;
        bool is_recorded = false;
    };

    static void check(cudaError_t error, const char* call) {
        if (error == cudaSuccess) return;
        detail::fail(std::string("cuda_event_timer: ") + call + ": " + cudaGetErrorString(error));
    }
    void record(mark& m) {
        m.is_recorded = false;
        if (m.event == nullptr) check(cudaEventCreateWithFlags(&m.event, cudaEventDefault), "cudaEventCreateWithFlags");
        check(cudaEventRecord(m.event, stream_), "cudaEventRecord");
        m.is_recorded = true;
    }

    cudaStream_t stream_;
    mark start_, stop_;
};

}  // namespace headwise
#endif
