// Two implementations of your own, compared: here, two ways to look a thousand words up. Only the harness is needed.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headwise/harness/compare.hpp>
#include <headwise/harness/report.hpp>

using namespace std::chrono_literals;

int main() {
    std::map<std::string, int> tree;
    for (int i = 0; i < 10'000; ++i) tree["word " + std::to_string(i * 7919 % 10'007)] = i;
    const std::vector<std::pair<std::string, int>> sorted(tree.begin(), tree.end());
    std::vector<std::string> questions;
    for (int i = 0; i < 1'000; ++i)
        questions.push_back("word " + std::to_string(i * 104'729 % 11'000));  // some have no answer

    const auto ask_tree = [&] {
        std::vector<int> answers;
        for (const std::string& word : questions) {
            const auto found = tree.find(word);
            answers.push_back(found == tree.end() ? -1 : found->second);
        }
        return answers;
    };
    const auto ask_sorted = [&] {
        std::vector<int> answers;
        for (const std::string& word : questions) {
            const auto found = std::ranges::lower_bound(sorted, word, {}, &std::pair<std::string, int>::first);
            answers.push_back(found == sorted.end() || found->first != word ? -1 : found->second);
        }
        return answers;
    };

    // What the arms return is compared; what you would not call a difference is the margin; the budget is wall-clock
    // time.
    const headwise::comparison result = headwise::compare(
        {.budget = 500ms, .margin = 0.02}, headwise::arm{"tree", ask_tree}, headwise::arm{"sorted vector", ask_sorted});
    std::cout << result;

    // For a program: result.arms[1].verdict, .speedup->low, .verified; all samples with headwise::write_json(file,
    // result).
    return result["sorted vector"].verdict == headwise::verdict::mismatch ? 1 : 0;
}
