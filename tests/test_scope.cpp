// What scopes write down: a fake clock makes every nanosecond known.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <latch>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <headwise/harness/profiler.hpp>

using namespace headwise;

namespace {

/// Time goes by only where a test says so, on each thread for itself.
thread_local std::int64_t fake_time = 0;
std::int64_t fake_now() noexcept { return fake_time; }
constexpr profile_clock fake_clock{fake_now, false};

/// Each reading takes a random while; the time of the last one is kept for the test's own accounts.
thread_local std::mt19937_64 ticking_engine;
std::int64_t ticking_now() noexcept { return fake_time += static_cast<std::int64_t>(ticking_engine() % 1000); }

/// One time for all threads.
std::atomic<std::int64_t> common_time{0};
std::int64_t common_now() noexcept { return common_time.load(); }

const char* const names[]{"a", "b", "c", "d", "e", "f"};

struct account {
    std::int64_t calls = 0, self = 0, total = 0, least = INT64_MAX, most = 0;
};

/// Random scopes of random depth, and a second book kept about them with a stack of its own.
class random_thread {
public:
    explicit random_thread(unsigned seed) : engine_(seed) {
        ticking_engine.seed(seed + 100);
        fake_time = static_cast<std::int64_t>(seed) * 1'000'000'007;
    }

    void run(int scopes) {
        while (scopes > 0) roots_ += visit(scopes, 0);
    }

    [[nodiscard]] std::int64_t roots() const { return roots_; }
    [[nodiscard]] const account& of(std::size_t name) const { return book_[name]; }

private:
    /// One scope and what is inside it; its length.
    std::int64_t visit(int& left, int depth) {
        --left;
        const std::size_t name = engine_() % std::size(names);
        std::int64_t begin = 0, inside = 0;
        ++around_[name];
        {
            const scope s(names[name]);
            begin = fake_time;
            while (left > 0 && depth < 40 && engine_() % 5 < 2) inside += visit(left, depth + 1);
        }
        const std::int64_t length = fake_time - begin;
        account& a = book_[name];
        ++a.calls;
        a.self += length - inside;
        if (--around_[name] == 0) a.total += length;
        a.least = std::min(a.least, length);
        a.most = std::max(a.most, length);
        return length;
    }

    std::mt19937_64 engine_;
    std::array<account, std::size(names)> book_{};
    std::array<int, std::size(names)> around_{};
    std::int64_t roots_ = 0;
};

}  // namespace

TEST_CASE("a million random nested scopes on four threads are accounted for to the nanosecond") {
    constexpr int threads = 4, scopes = 250'000;
    profile p({.clock = {ticking_now, false}});
    std::vector<random_thread> books;
    for (unsigned i = 0; i < threads; ++i) books.emplace_back(i + 1);
    {
        std::vector<std::jthread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back([&book = books[i], i] {
                book = random_thread(i + 1);
                book.run(scopes);
            });
        }
    }
    p.stop();
    const profile_table table = p.table();

    std::int64_t roots = 0, self = 0, calls = 0;
    for (const random_thread& book : books) roots += book.roots();
    for (const profile_row& row : table.rows) self += row.self_ns, calls += row.calls;
    CHECK(calls == threads * scopes);
    CHECK(table.total_ns == roots);
    CHECK(self == roots);
    CHECK(table.threads == threads);
    CHECK(table.open == 0);
    CHECK(table.lost == 0);
    REQUIRE(table.rows.size() == std::size(names));
    for (std::size_t name = 0; name < std::size(names); ++name) {
        account sum;
        for (const random_thread& book : books) {
            const account& a = book.of(name);
            sum.calls += a.calls, sum.self += a.self, sum.total += a.total;
            sum.least = std::min(sum.least, a.least), sum.most = std::max(sum.most, a.most);
        }
        const profile_row& row = table[names[name]];
        CHECK(row.calls == sum.calls);
        CHECK(row.self_ns == sum.self);
        CHECK(row.total_ns == sum.total);
        CHECK(row.min_ns == sum.least);
        CHECK(row.max_ns == sum.most);
    }
    for (const recording& recorded : p.recordings()) {
        for (const thread_recording& thread : recorded.threads) {
            for (std::size_t i = 0; i < thread.runs.size(); ++i) {
                const scope_run& run = thread.runs[i];
                if (run.parent == detail::none) continue;
                REQUIRE(run.parent < i);
                REQUIRE(thread.runs[run.parent].begin <= run.begin);
                REQUIRE(thread.runs[run.parent].end >= run.end);
            }
        }
    }
}

TEST_CASE("asking for the table changes nothing") {
    profile p({.clock = fake_clock});
    const scope outer("outer");
    fake_time += 5;
    {
        HEADWISE_SCOPE("inner");
        fake_time += 3;
    }
    const profile_table first = p.table(), second = p.table();
    CHECK(p.is_recording());
    CHECK(first.total_ns == second.total_ns);
    CHECK(first["inner"].calls == 1);
    CHECK(second["inner"].calls == 1);
    {
        HEADWISE_SCOPE("inner");
        fake_time += 4;
    }
    p.stop();
    CHECK(p.table()["inner"].calls == 2);
    CHECK(p.table()["inner"].total_ns == 7);
    CHECK(p.table()["inner"].calls == 2);
}

TEST_CASE("a scope that has not ended counts so far") {
    common_time = 100;
    profile p({.clock = {common_now, true}});
    const scope outer("outer");
    common_time = 110;
    const profile_table so_far = p.table();
    CHECK(so_far["outer"].total_ns == 10);
    CHECK(so_far.open == 1);
    {
        const scope inner("inner");
        common_time = 125;
        p.stop();
        common_time = 500;
    }
    const profile_table table = p.table();
    CHECK(table["outer"].total_ns == 25);
    CHECK(table["outer"].self_ns == 10);
    CHECK(table["inner"].total_ns == 15);
    CHECK(table.total_ns == 25);
    CHECK(table.open == 2);
}

TEST_CASE("where threads have clocks of their own, an open scope is cut at its thread's last moment") {
    profile p({.clock = fake_clock});
    std::latch inner_done(1), asked(1);
    std::jthread other([&] {
        fake_time = 1'000'000;
        const scope outer("other's");
        fake_time += 7;
        { const scope inner("inner"); }
        fake_time += 100;
        inner_done.count_down();
        asked.wait();
    });
    inner_done.wait();
    CHECK(p.table()["other's"].total_ns == 7);
    asked.count_down();
}

TEST_CASE("only what begins while a profile records is recorded, and parents are those recorded") {
    const scope before("before");
    profile p({.clock = fake_clock});
    {
        const scope root("root");
        fake_time += 2;
    }
    CHECK(p.table().total_ns == 2);
    std::optional<scope> across(std::in_place, "across");
    fake_time += 3;
    p.stop();
    { const scope after("after"); }
    p.start();
    {
        const scope second("second");
        fake_time += 4;
        across.reset();  // begun in another recording: it must not close `second`
        const scope third("third");
        fake_time += 1;
    }
    p.stop();
    const profile_table table = p.table();
    REQUIRE(table.rows.size() == 4);
    CHECK(table["across"].total_ns == 0);  // the last moment that its thread had seen
    CHECK(table["second"].total_ns == 5);
    CHECK(table["second"].self_ns == 4);
    CHECK(table["third"].self_ns == 1);
    CHECK(table.total_ns == 7);
    CHECK(p.recordings().size() == 2);
    CHECK(p.recordings()[1].threads[0].runs[1].parent == 0);
}

TEST_CASE("one profile records at a time") {
    {
        profile p;
        CHECK_THROWS_WITH_AS(profile(), "profile: another profile is recording; only one can at a time",
                             std::invalid_argument);
        CHECK_THROWS_AS(p.start(), std::invalid_argument);
        { const scope s("still recording"); }
        CHECK(p.table()["still recording"].calls == 1);
        p.stop();
        p.stop();
        CHECK_FALSE(p.is_recording());
        const profile other;
        CHECK(other.is_recording());
    }
    { const scope s("nobody listens"); }
    const profile next;
    CHECK(next.table().rows.empty());
    CHECK_THROWS_AS(profile({.clock = {nullptr, true}}), std::invalid_argument);
}

TEST_CASE("a thread that has ended leaves its scopes, and its log to a thread of a later recording") {
    const auto run_threads = [](int count, const char* name) {
        for (int i = 0; i < count; ++i) {
            std::jthread([name] {
                const scope s(name);
                fake_time += 10;
            }).join();
        }
    };
    const auto logs = [] {
        int count = 0;
        for (const detail::thread_log* log = detail::the_recorder.logs; log != nullptr; log = log->next) ++count;
        return count;
    };
    profile p({.clock = fake_clock});
    run_threads(5, "first");
    p.stop();
    CHECK(p.table()["first"].calls == 5);
    CHECK(p.table()["first"].total_ns == 50);
    CHECK(p.table().threads == 5);
    const int before = logs();
    profile q({.clock = fake_clock});
    run_threads(5, "second");
    q.stop();
    CHECK(logs() == before);
    CHECK(q.table()["second"].calls == 5);
    CHECK(q.table().rows.size() == 1);
    CHECK(p.table()["first"].calls == 5);
}

TEST_CASE("threads may go on while a table is made") {
    profile p({.most_events = 5000});
    std::atomic<bool> end{false};
    std::vector<std::jthread> running;
    for (int i = 0; i < 2; ++i) {
        running.emplace_back([&] {
            while (!end.load(std::memory_order_relaxed)) {
                HEADWISE_SCOPE("outer", {.flops = 1}, "shape");
                HEADWISE_SCOPE("inner");
                record_value("value", 1);
            }
        });
    }
    for (int i = 0; i < 12; ++i) {
        const profile_table table = p.table();
        std::int64_t self = 0;
        for (const profile_row& row : table.rows) {
            CHECK(row.self_ns >= 0);
            self += row.self_ns;
        }
        CHECK(self == table.total_ns);
        if (i % 4 == 3) p.stop(), p.start();
    }
    end = true;
}

TEST_CASE("scopes beyond the most that a profile keeps are counted as lost, and their time stays in what is around") {
    profile p({.clock = fake_clock, .most_events = 3});
    {
        const scope a("a"), b("b"), c("c"), d("d");
        const scope e("e");
        record_value("value", 1);
        fake_time += 9;
    }
    p.stop();
    const profile_table table = p.table();
    CHECK(table.rows.size() == 3);
    CHECK(table.lost == 3);
    CHECK(p.recordings().at(0).threads.at(0).values.empty());
    CHECK(table["c"].self_ns == 9);
    CHECK(table.total_ns == 9);
}

TEST_CASE("logs grow past their first pieces and keep their order") {
    constexpr int count = 100'001;  // more than a first piece and a huge page
    static_assert(count * sizeof(detail::event) > detail::first_piece + detail::huge_page);
    profile p({.clock = fake_clock});
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < count; ++i) {
            const scope s("s", {.flops = static_cast<double>(i + 1)}, i % 2 == 0 ? "even" : nullptr);
            fake_time += 1;
        }
        p.stop();
        if (round == 0) p.start();
    }
    const profile_table table = p.table({.grouping = profile_grouping::name_and_shape});
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].shape == "even");
    CHECK(table.rows[0].calls == count / 2 * 2 + 2);
    const auto all = p.recordings();
    REQUIRE(all.size() == 2);
    for (const recording& recorded : all) {
        const thread_recording& thread = recorded.threads.at(0);
        REQUIRE(thread.runs.size() == count);
        for (std::size_t i = 0; i < thread.runs.size(); ++i) {
            REQUIRE(thread.runs[i].duration() == 1);
            REQUIRE((thread.runs[i].shape != nullptr) == (i % 2 == 0));
            REQUIRE(thread.details[thread.runs[i].extra].done.flops == static_cast<double>(i + 1));
            if (i > 0) REQUIRE(thread.runs[i].begin == thread.runs[i - 1].end);
        }
    }
}

TEST_CASE("interned text is one copy, and stays") {
    const char* first = nullptr;
    {
        std::string text = "shape (";
        text += std::to_string(12) + ")";
        first = interned(text);
        text.assign(100, 'x');
    }
    CHECK(std::strcmp(first, "shape (12)") == 0);
    for (int i = 0; i < 100; ++i) (void)interned("text " + std::to_string(i * 7919 % 100));
    CHECK(interned("shape (12)") == first);
    CHECK(interned("") == interned(std::string_view()));
    CHECK(interned("text 5") != interned("text 55"));
}

TEST_CASE("threads carry their names, from before a recording and from within one") {
    profile p;
    std::jthread([] {
        name_thread("worker");
        const scope s("s");
    }).join();
    std::jthread([] {
        const scope s("s");
        name_thread("late");
    }).join();
    p.stop();
    const auto threads = p.recordings().at(0).threads;
    REQUIRE(threads.size() == 2);
    CHECK(threads[0].name == "worker");
    CHECK(threads[1].name == "late");
    CHECK(threads[0].number < threads[1].number);
}

TEST_CASE("a scope's cost is measured beside its floor") {
    const scope_cost cost = measure_scope_cost();
    CHECK(cost.scope_ns > 0);
    CHECK(cost.two_readings_ns > 0);
    MESSAGE("a recorded scope " << cost.scope_ns << " ns, two readings of the clock " << cost.two_readings_ns
                                << " ns: " << cost.ratio());
}
