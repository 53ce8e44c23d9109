// As much of CUDA's runtime as a timer of events calls, with a stream whose time a test sets.
#pragma once

#include <string>
#include <vector>

struct fake_event {
    float time = -1;
    unsigned flags = 0;
    bool is_synchronised = false;
};
using cudaEvent_t = fake_event*;
using cudaStream_t = int*;
enum cudaError_t { cudaSuccess = 0, cudaErrorNoDevice = 100 };
constexpr unsigned cudaEventDefault = 0;

struct fake_cuda {
    float time = 0;                 // of the stream, in milliseconds
    cudaStream_t stream = nullptr;  // the last one recorded on
    int created = 0, destroyed = 0;
    std::string failing;  // the call that fails, until it is cleared
    std::vector<std::string> calls;
};
inline fake_cuda the_gpu;

inline cudaError_t fake_call(const char* name) {
    the_gpu.calls.emplace_back(name);
    return the_gpu.failing == name ? cudaErrorNoDevice : cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    if (const cudaError_t error = fake_call("create")) return error;
    *event = new fake_event{-1, flags, false};
    ++the_gpu.created;
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    ++the_gpu.destroyed;
    return fake_call("destroy");
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    the_gpu.stream = stream;
    event->time = the_gpu.time;
    event->is_synchronised = false;
    return fake_call("record");
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    event->is_synchronised = true;
    return fake_call("synchronise");
}
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
    *ms = stop->is_synchronised ? stop->time - start->time : -1.0f;
    return fake_call("elapsed");
}
inline const char* cudaGetErrorString(cudaError_t) { return "no CUDA-capable device is detected"; }
