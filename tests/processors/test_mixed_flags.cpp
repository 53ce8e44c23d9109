#include <string>

#include <doctest/doctest.h>

std::string plain_unit();
std::string native_unit();

TEST_CASE("units built for the plain processor and for this one give right answers in one program") {
    CHECK(plain_unit() == "");
    CHECK(native_unit() == "");
}
