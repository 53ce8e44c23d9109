// What a call says when it refuses its arguments.
#pragma once

#include <stdexcept>
#include <string>

namespace headwise::test {

template <class Body>
[[nodiscard]] std::string refusal(const Body& body) {
    try {
        body();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was refused";
}

}  // namespace headwise::test
