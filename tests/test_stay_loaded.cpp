// A library whose code threads may run stays loaded; one that has used no thread goes.
#include <dlfcn.h>

#include <thread>

#include <doctest/doctest.h>

namespace {

constexpr const char* path = HEADWISE_TEST_LIBRARY;

/// Loads the library, has it compute on a thread that then ends (a thread's workspace keeps the library as well), and
/// unloads it. Is it still there?
bool stays_after(int threads) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library != nullptr, dlerror());
    const auto multiply = reinterpret_cast<float (*)(int)>(dlsym(library, "multiply"));
    REQUIRE(static_cast<bool>(multiply));
    float product = 1;
    std::thread([&] { product = multiply(threads); }).join();
    CHECK(product == 0);
    CHECK(dlclose(library) == 0);
    void* const again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (again != nullptr) dlclose(again);
    return again != nullptr;
}

}  // namespace

TEST_CASE("a library that has computed on one thread is unloaded, again and again") {
    for (int time = 0; time < 3; ++time) CHECK_FALSE(stays_after(1));
}

TEST_CASE("a library that has used others stays: they are asleep in its code") {
    if (std::thread::hardware_concurrency() < 2) return;  // no others are used
    CHECK(stays_after(2));
    CHECK(stays_after(1));
}
