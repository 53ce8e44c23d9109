// A small reader of XML, for what headwise writes: refuses what is not well formed, and finds elements again.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct xml_element {
    std::string name;
    std::map<std::string, std::string> attributes;
    std::string text = {};                  ///< its own, without that of its children
    std::vector<std::string> parents = {};  ///< names, outermost first

    [[nodiscard]] double number(const std::string& key) const {
        const auto found = attributes.find(key);
        if (found == attributes.end()) throw std::runtime_error(name + " has no " + key);
        char* end = nullptr;
        const double value = std::strtod(found->second.c_str(), &end);
        if (found->second.empty() || *end != '\0')
            throw std::runtime_error(key + "=\"" + found->second + "\" is no number");
        return value;
    }
};

/// All elements in the order they begin. Throws `std::runtime_error` that says what is wrong, and after what.
class xml_reader {
public:
    explicit xml_reader(std::string_view text) : rest_(text) {}

    std::vector<xml_element> read() {
        if (rest_.starts_with("<!DOCTYPE html>")) rest_.remove_prefix(15);
        while (!rest_.empty()) {
            if (rest_.front() != '<') characters();
            else if (rest_.starts_with("</")) close();
            else open();
        }
        if (!open_.empty()) wrong(elements_[open_.back()].name + " is not closed");
        return std::move(elements_);
    }

private:
    [[noreturn]] void wrong(const std::string& what) const {
        throw std::runtime_error(what + ", before: " + std::string(rest_.substr(0, 60)));
    }
    char take() {
        if (rest_.empty()) wrong("ends too early");
        const char ch = rest_.front();
        rest_.remove_prefix(1);
        return ch;
    }
    void skip_space() {
        while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
    }
    std::string name() {
        std::string found;
        while (!rest_.empty() && (std::isalnum(static_cast<unsigned char>(rest_.front())) || rest_.front() == '-'))
            found += take();
        if (found.empty()) wrong("a name is missing");
        return found;
    }
    /// One character of text, with its reference resolved.
    std::string character() {
        const char ch = take();
        const auto byte = static_cast<unsigned char>(ch);
        if (byte < 0x20 && ch != '\n' && ch != '\t') wrong("a control character");
        if (ch != '&') return {ch};
        for (const auto& [entity, meaning] :
             {std::pair{"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", "\""}, {"#39;", "'"}}) {
            if (!rest_.starts_with(entity)) continue;
            rest_.remove_prefix(std::string_view(entity).size());
            return meaning;
        }
        wrong("an ampersand that begins no reference");
    }
    void characters() {
        std::string text;
        while (!rest_.empty() && rest_.front() != '<') text += character();
        if (!open_.empty()) elements_[open_.back()].text += text;
        else if (text.find_first_not_of(" \n\t") != std::string::npos) wrong("text outside of everything");
    }
    void open() {
        take();
        xml_element element{name(), {}};
        for (const std::size_t i : open_) element.parents.push_back(elements_[i].name);
        for (;;) {
            skip_space();
            if (rest_.starts_with("/>") || rest_.starts_with(">")) break;
            const std::string key = name();
            if (take() != '=' || take() != '"') wrong("attribute " + key + " has no quoted value");
            std::string value;
            while (!rest_.empty() && rest_.front() != '"') {
                if (rest_.front() == '<') wrong("< in attribute " + key);
                value += character();
            }
            take();
            if (!element.attributes.emplace(key, value).second) wrong("attribute " + key + " twice");
        }
        const bool empty = rest_.front() == '/';
        rest_.remove_prefix(empty ? 2 : 1);
        if (open_.empty() && !elements_.empty()) wrong("a second root");
        elements_.push_back(std::move(element));
        if (!empty) open_.push_back(elements_.size() - 1);
    }
    void close() {
        rest_.remove_prefix(2);
        const std::string found = name();
        skip_space();
        if (take() != '>') wrong("/" + found + " has attributes");
        if (open_.empty() || elements_[open_.back()].name != found) wrong("/" + found + " closes nothing");
        open_.pop_back();
    }

    std::string_view rest_;
    std::vector<xml_element> elements_;
    std::vector<std::size_t> open_;
};

inline std::vector<xml_element> xml_elements(std::string_view text) { return xml_reader(text).read(); }
