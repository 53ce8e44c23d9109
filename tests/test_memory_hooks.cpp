// Memory inside scopes: every form of operator new and delete is counted, for the thread that calls it.
#define HEADWISE_COUNT_ALLOCATIONS
#include <headwise/harness/memory_hooks.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <headwise/harness/keep.hpp>
#include <headwise/harness/profiler.hpp>

using namespace headwise;

/// With the address sanitizer malloc ends the program for want of memory, unless it is asked not to.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace {

template <class Body>
memory_count counted(const Body& body) {
    const memory_count before = memory_so_far();
    body();
    memory_count after = memory_so_far();
    after -= before;
    return after;
}

struct alignas(256) aligned {
    char bytes[512];
};

}  // namespace

TEST_CASE("the program's memory is counted") {
    CHECK(memory_is_counted());
    const memory_count one = counted([] {
        auto value = std::make_unique<int>(1);
        keep(value);
    });
    CHECK(one.allocations == 1);
    CHECK(one.releases == 1);
    CHECK(one.allocated_bytes >= 4);
    CHECK(one.allocated_bytes == one.released_bytes);
}

TEST_CASE("every form is counted once, none through another") {
    const std::align_val_t line{64};
    void* p = nullptr;
    const auto check = [&](const auto& allocate, const auto& release) {
        const memory_count made = counted([&] { p = allocate(); });
        CHECK(p != nullptr);
        CHECK(made.allocations == 1);
        CHECK(made.releases == 0);
        CHECK(made.allocated_bytes >= 100);
        CHECK(made.allocated_bytes < 300);
        const memory_count gone = counted([&] { release(); });
        CHECK(gone.allocations == 0);
        CHECK(gone.releases == 1);
        CHECK(gone.released_bytes == made.allocated_bytes);
    };
    check([&] { return ::operator new(100); }, [&] { ::operator delete(p); });
    check([&] { return ::operator new(100); }, [&] { ::operator delete (p, std::size_t{100}); });
    check([&] { return ::operator new[](100); }, [&] { ::operator delete[](p); });
    check([&] { return ::operator new[](100); }, [&] { ::operator delete[](p, std::size_t{100}); });
    check([&] { return ::operator new(100, std::nothrow); }, [&] { ::operator delete(p, std::nothrow); });
    check([&] { return ::operator new[](100, std::nothrow); }, [&] { ::operator delete[](p, std::nothrow); });
    const auto aligned_check = [&](const auto& allocate, const auto& release) {
        check(
            [&] {
                void* const block = allocate();
                CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
                return block;
            },
            release);
    };
    aligned_check([&] { return ::operator new(100, line); }, [&] { ::operator delete(p, line); });
    aligned_check([&] { return ::operator new(100, line); }, [&] { ::operator delete (p, std::size_t{100}, line); });
    aligned_check([&] { return ::operator new[](100, line); }, [&] { ::operator delete[](p, line); });
    aligned_check([&] { return ::operator new[](100, line); }, [&] { ::operator delete[](p, std::size_t{100}, line); });
    aligned_check([&] { return ::operator new(100, line, std::nothrow); },
                  [&] { ::operator delete(p, line, std::nothrow); });
    aligned_check([&] { return ::operator new[](100, line, std::nothrow); },
                  [&] { ::operator delete[](p, line, std::nothrow); });
}

TEST_CASE("nothing is still something, releasing null is nothing, malloc is not counted") {
    const memory_count empty = counted([] {
        void* volatile p = ::operator new(0);
        CHECK(p != nullptr);
        ::operator delete(p);
        ::operator delete(static_cast<void*>(nullptr));
    });
    CHECK(empty.allocations == 1);
    CHECK(empty.releases == 1);
    CHECK(counted([] {
              void* volatile p = std::malloc(1000);
              std::free(p);
          }) == memory_count{});
    CHECK(counted([] { const auto p = std::make_unique<aligned>(); }).allocations <= 1);
}

TEST_CASE("without memory: bad_alloc or null, and the new-handler is asked first") {
    static int asked = 0;
    const std::size_t too_much = SIZE_MAX / 2;
    std::size_t volatile bytes = too_much;
    CHECK(::operator new(bytes, std::nothrow) == nullptr);
    CHECK_THROWS_AS((void)::operator new(bytes), std::bad_alloc);
    CHECK_THROWS_AS((void)::operator new[](bytes, std::align_val_t{64}), std::bad_alloc);
    std::set_new_handler([] {
        if (++asked == 2) std::set_new_handler(nullptr);
    });
    CHECK(::operator new(bytes, std::nothrow) == nullptr);
    CHECK(asked == 2);
    std::set_new_handler([]() { throw std::bad_alloc(); });
    CHECK(::operator new (bytes, std::align_val_t{64}, std::nothrow) == nullptr);
    std::set_new_handler(nullptr);
}

TEST_CASE("a scope has the memory inside it, its self memory is its own, and the profiler's is nobody's") {
    profile p;
    {
        std::vector<char> released_later;
        HEADWISE_SCOPE("outer");
        released_later.resize(1000);
        keep(released_later);
        for (int i = 0; i < 3; ++i) {
            HEADWISE_SCOPE("inner");
            auto block = std::make_unique<char[]>(5000);
            keep(block);
        }
        for (int i = 0; i < 10'000; ++i) HEADWISE_SCOPE("nothing");
        (void)interned("a text that nobody has had so far");
    }
    p.stop();
    const profile_table table = p.table();
    CHECK(*table["nothing"].memory == memory_count{});
    CHECK(table["inner"].memory->allocations == 3);
    CHECK(table["inner"].memory->allocated_bytes >= 15'000);
    CHECK(table["inner"].memory->allocated_bytes <= 15'300);
    CHECK(table["inner"].memory->releases == 3);
    CHECK(table["outer"].memory->allocations == 4);
    CHECK(table["outer"].memory->releases == 3);
    CHECK(table["outer"].self_memory->allocations == 1);
    CHECK(table["outer"].self_memory->releases == 0);
}

TEST_CASE("a release counts where it happens, and no count goes below zero") {
    profile p;
    std::unique_ptr<char[]> block;
    {
        HEADWISE_SCOPE("makes");
        block = std::make_unique<char[]>(1000);
    }
    std::jthread([&] {
        HEADWISE_SCOPE("releases");
        block.reset();
    }).join();
    p.stop();
    const profile_table table = p.table();
    CHECK(table["makes"].memory->allocations == 1);
    CHECK(table["makes"].memory->releases == 0);
    CHECK(table["releases"].memory->allocations == 0);
    CHECK(table["releases"].memory->releases == 1);
    CHECK(table["releases"].memory->released_bytes == table["makes"].memory->allocated_bytes);
}
