// Text that stays: for the names and shapes of scopes that are put together when the program runs.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/harness/memory_count.hpp>

namespace headwise {

/// The one copy of `text`, null-terminated, until the program ends: the same pointer for the same text. Takes a lock
/// and, at the first call with a text, memory, which no profile counts. Safe from any thread.
[[nodiscard]] inline const char* interned(std::string_view text) {
    const memory_count before = detail::thread_memory;
    static std::mutex mutex;
    static auto& texts = *new std::vector<std::unique_ptr<const std::string>>;  // sorted; outlives static destructors
    const std::lock_guard lock(mutex);
    auto place = std::lower_bound(texts.begin(), texts.end(), text,
                                  [](const auto& have, std::string_view wanted) { return *have < wanted; });
    if (place == texts.end() || **place != text) place = texts.insert(place, std::make_unique<const std::string>(text));
    detail::thread_memory = before;
    return (*place)->c_str();
}

}  // namespace headwise
