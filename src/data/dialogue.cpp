#include "dialogue.hpp"

#include <algorithm>
#include <string>

namespace apo::data {
namespace {

constexpr std::string_view kHuman = "\n\nHuman:";
constexpr std::string_view kAssistant = "\n\nAssistant:";

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_dialogue(std::string_view text) {
  return text.starts_with(kHuman) ||
         (text.starts_with(kHuman.substr(2)) && text.find(kAssistant) != std::string_view::npos);
}

std::vector<text::Turn> read_dialogue(std::string_view text) {
  std::string all = "\n\n";  // the first marker may lack its newlines
  all += text.substr(std::min(text.find_first_not_of('\n'), text.size()));
  std::vector<text::Turn> turns;
  std::size_t at = 0;
  while (at < all.size()) {
    const bool human = all.compare(at, kHuman.size(), kHuman) == 0;
    const std::size_t begin = at + (human ? kHuman.size() : kAssistant.size());
    const std::size_t next =
        std::min({all.find(kHuman, begin), all.find(kAssistant, begin), all.size()});
    const std::string_view content = std::string_view(all).substr(begin, next - begin);
    turns.push_back({human ? "user" : "assistant", std::string(trimmed(content))});
    at = next;
  }
  return turns;
}

}  // namespace apo::data
