// Writes a real trace of two threads, with a name that wants escaping, for a viewer to open.
#include <cstddef>
#include <iostream>
#include <thread>
#include <vector>

#include <headwise/harness/keep.hpp>
#include <headwise/harness/trace.hpp>

namespace {

void compute(std::size_t rows) {
    HEADWISE_SCOPE("compute", {.flops = 2.0 * static_cast<double>(rows) * 256}, "rows \"x\" 256");
    std::vector<float> values(256, 1.5f);
    for (std::size_t r = 0; r < rows; ++r) {
        HEADWISE_SCOPE("row \"r\" ä");
        for (float& v : values) v = v * 0.5f + 1;
        headwise::keep(values);
    }
    headwise::record_value("rows", static_cast<double>(rows));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: sample_trace FILE\n";
        return 2;
    }
    headwise::profile p;
    headwise::name_thread("main thread");
    {
        HEADWISE_SCOPE("everything");
        std::jthread worker([] {
            headwise::name_thread("worker");
            for (std::size_t i = 1; i < 40; ++i) compute(i);
        });
        for (std::size_t i = 1; i < 40; ++i) compute(40 - i);
    }
    p.stop();
    headwise::save_trace(argv[1], p, {.process_name = "sample"});
    std::cout << p.table();
}
