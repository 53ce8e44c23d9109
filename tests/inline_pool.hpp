// A pool that runs every task at once where it is scheduled, and counts them: what a call allocates with it is all the
// call's own, and whether it wanted a second thread is no matter of time.
#pragma once

#include <functional>

#include <headwise/parallel.hpp>

namespace headwise::test {

class inline_pool : public Eigen::ThreadPoolInterface {
public:
    void Schedule(std::function<void()> task) override {
        ++scheduled;
        task();
    }
    int NumThreads() const override { return 7; }
    int CurrentThreadId() const override { return -1; }
    int scheduled = 0;
};

}  // namespace headwise::test
