#include "added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "utf8.hpp"
#include <unicode/uchar.h>

namespace apo::text {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return (static_cast<std::uint64_t>(node) << 8) | static_cast<unsigned char>(byte);
}

bool is_space(char32_t code_point) {
  return u_isUWhiteSpace(static_cast<UChar32>(code_point)) != 0;
}

/// \w of Unicode Technical Standard 18, annex C.
bool is_word(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0 ||
         (U_MASK(u_charType(c)) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word(code_point_before(text, begin))) &&
         (end == text.size() || !is_word(next_code_point(text, end).code_point));
}

std::size_t skip_spaces_left(std::string_view text, std::size_t begin) {
  while (begin > 0) {
    const char32_t code_point = code_point_before(text, begin);
    if (!is_space(code_point)) {
      break;
    }
    do {
      --begin;
    } while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  }
  return begin;
}

std::size_t skip_spaces_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const Utf8Step step = next_code_point(text, end);
    if (!is_space(step.code_point)) {
      break;
    }
    end += step.num_bytes;
  }
  return end;
}

}  // namespace

AddedTokenSet::AddedTokenSet(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  token_at_node_.push_back(-1);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t node = 0;
    for (const char byte : tokens_[i].content) {
      const auto [child, inserted] = children_.try_emplace(
          edge(node, byte), static_cast<std::uint32_t>(token_at_node_.size()));
      if (inserted) {
        token_at_node_.push_back(-1);
      }
      node = child->second;
    }
    if (node != 0) {
      token_at_node_[node] = static_cast<std::int32_t>(i);
    }
  }
}

std::optional<AddedTokenSet::Match> AddedTokenSet::longest_at(std::string_view text,
                                                              std::size_t begin) const {
  std::optional<Match> longest;
  std::uint32_t node = 0;
  for (std::size_t position = begin; position < text.size(); ++position) {
    const auto child = children_.find(edge(node, text[position]));
    if (child == children_.end()) {
      break;
    }
    node = child->second;
    if (token_at_node_[node] >= 0) {
      longest = Match{static_cast<std::size_t>(token_at_node_[node]), position + 1};
    }
  }
  return longest;
}

std::vector<TextPart> AddedTokenSet::cut(std::string_view text, const Veto& veto) const {
  std::vector<TextPart> parts;
  std::size_t done = 0;
  for (std::size_t position = 0; !tokens_.empty() && position < text.size();) {
    const std::optional<Match> match = longest_at(text, position);
    if (!match) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[match->index];
    std::size_t begin = position;
    std::size_t end = match->end;
    if (token.special) {
      if (const std::optional<std::size_t> next = veto(begin, end)) {
        position = *next;
        continue;
      }
    }
    position = end;
    if (token.single_word && !stands_alone(text, begin, end)) {
      continue;
    }
    if (token.lstrip) {
      begin = std::max(skip_spaces_left(text, begin), done);
    }
    if (token.rstrip) {
      end = skip_spaces_right(text, end);
    }
    if (done < begin) {
      parts.push_back({std::nullopt, done, begin});
    }
    parts.push_back({token.id, begin, end});
    done = end;
  }
  if (done < text.size()) {
    parts.push_back({std::nullopt, done, text.size()});
  }
  return parts;
}

}  // namespace apo::text
