#pragma once

/// @file
/// Finds added tokens in text (spec llm.md, section 5.2, steps 1 and 2).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace apo::text {

/// One element of `added_tokens`.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
};

/// A part of a text: an added token, or what lies between two of them.
struct TextPart {
  std::optional<std::int32_t> token;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A set of added tokens, as a trie over bytes. Immutable.
class AddedTokenSet {
 public:
  /// Says how far a special token that would cover [begin, end) may be skipped: nothing when it
  /// may stand there, else the place where the search goes on (> begin).
  using Veto = std::function<std::optional<std::size_t>(std::size_t begin, std::size_t end)>;

  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  /// Cuts well-formed text at the leftmost, longest matches. Parts without a token may be empty
  /// only for an empty text.
  [[nodiscard]] std::vector<TextPart> cut(std::string_view text, const Veto& veto) const;

  [[nodiscard]] bool empty() const { return tokens_.empty(); }

 private:
  struct Match {
    std::size_t index;  ///< into tokens_
    std::size_t end;
  };
  [[nodiscard]] std::optional<Match> longest_at(std::string_view text, std::size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // (node, byte) -> node
  std::vector<std::int32_t> token_at_node_;                    // index into tokens_, or -1
};

}  // namespace apo::text
