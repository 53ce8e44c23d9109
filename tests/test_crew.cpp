// The guard that keeps helpers off their caller's processor. (What a crew does with work: test_parallel.cpp.)
#include <headwise/crew.hpp>

#include <doctest/doctest.h>

#if defined(__linux__)

#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <thread>
#include <utility>

using headwise::detail::crew;
using headwise::detail::current_processor;
using headwise::detail::processor_guard;
using headwise::detail::shared_pieces;
using namespace std::chrono_literals;

namespace {

using processors = std::set<int>;

/// Those that a thread, or this one, may run on.
processors allowed(pid_t thread = 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(thread, sizeof set, &set) == 0);
    processors found;
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set)) found.insert(static_cast<int>(i));
    return found;
}
void allow(const processors& wanted, pid_t thread = 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int i : wanted) CPU_SET(static_cast<std::size_t>(i), &set);
    REQUIRE(sched_setaffinity(thread, sizeof set, &set) == 0);
}
processors without(processors all, int one) {
    all.erase(one);
    return all;
}

/// Calls `body(first, second)`, two processors there are, on a thread that may be bound to any; does nothing where
/// there is only one.
template <class Body>
void on_two_processors(const Body& body) {
    const processors all = allowed();
    if (all.size() < 2) return;
    std::thread([&] { body(*all.begin(), *all.rbegin()); }).join();
}

/// A thread that waits for calls.
class worker {
public:
    worker() {
        call([this] { id = static_cast<pid_t>(syscall(SYS_gettid)); });
    }
    headwise::thread_pool& pool() { return pool_; }
    void call(std::function<void()> body) {
        Eigen::Barrier done(1);
        pool_.Schedule([&] {
            body();
            done.Notify();
        });
        done.Wait();
    }
    pid_t id = 0;

private:
    Eigen::ThreadPool pool_{1};
};

/// Waits, but not for ever.
template <class Condition>
bool comes_true(const Condition& condition) {
    for (const auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < 20s;) {
        if (condition()) return true;
        std::this_thread::sleep_for(100us);
    }
    return false;
}

}  // namespace

TEST_CASE("a guard keeps the threads that told it off the processor that it was told, and no others") {
    on_two_processors([](int first, int second) {
        const processors all = allowed();
        processor_guard guard;
        worker listed, late, stranger;
        listed.call([&] { guard.enlist(), guard.enlist(); });
        guard.avoid(first);
        CHECK(allowed(listed.id) == without(all, first));
        guard.avoid(-1);  // not known
        CHECK(allowed(listed.id) == without(all, first));
        guard.avoid(second);
        CHECK(allowed(listed.id) == without(all, second));

        late.call([&] { guard.enlist(); });
        CHECK(allowed(late.id) == all);
        guard.avoid(second);  // as before, but not of this one
        CHECK(allowed(late.id) == without(all, second));
        CHECK(allowed(stranger.id) == all);
        CHECK(allowed() == all);
    });
}

TEST_CASE("what they avoid already costs no call of the system") {
    on_two_processors([](int first, int) {
        const processors all = allowed();
        processor_guard guard;
        worker listed;
        listed.call([&] { guard.enlist(); });
        guard.avoid(first);
        allow(all, listed.id);
        guard.avoid(first);
        CHECK(allowed(listed.id) == all);
    });
}

TEST_CASE("threads that were created to run on one processor only are left there, and never led elsewhere") {
    on_two_processors([](int first, int second) {
        allow({first});
        processor_guard guard;
        worker listed;
        listed.call([&] { guard.enlist(); });
        guard.avoid(first);
        CHECK(allowed(listed.id) == processors{first});
        guard.avoid(second);
        CHECK(allowed(listed.id) == processors{first});
    });
}

TEST_CASE("a helper leaves its caller's processor when it finds itself there, and before it is woken again") {
    on_two_processors([](int first, int second) {
        /// One thread, and where that could run when it was last given a task.
        struct noting_pool : headwise::thread_pool {
            void Schedule(std::function<void()> task) override {
                seen = allowed(helper.id);
                helper.pool().Schedule(std::move(task));
            }
            int NumThreads() const override { return 1; }
            int CurrentThreadId() const override { return -1; }
            worker helper;
            processors seen;
        };
        const processors all = allowed();
        processor_guard guard;
        noting_pool pool;
        crew helpers(0us, &guard);
        const auto nothing = [](int, std::ptrdiff_t) {};
        const auto share = [&] {
            shared_pieces work(2, 2, nothing);
            REQUIRE(crew::share(&helpers, pool, work));
            CHECK(comes_true([&] { return helpers.awake() == 0; }));
        };

        allow({first});
        allow({first}, pool.helper.id);
        CHECK(comes_true([&] { return current_processor() == first; }));
        share();
        CHECK(pool.seen == processors{first});  // nobody knew it yet
        CHECK(allowed(pool.helper.id) == without(all, first));
        allow({second});
        share();
        CHECK(pool.seen == without(all, second));
        CHECK(allowed(pool.helper.id) == without(all, second));
    });
}

#endif
