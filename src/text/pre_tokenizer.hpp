#pragma once

/// @file
/// Cuts a segment of text into the pieces that byte pairs are merged in
/// (spec llm.md, section 5.2, step 3, and 5.3).

#include <memory>
#include <string_view>
#include <vector>

namespace apo::text {

enum class SplitKind {
  kLlama3,      ///< Split with R3, then ByteLevel without regex
  kQwen2,       ///< Split with RQ, then ByteLevel without regex
  kGpt2Digits,  ///< Digits (each alone), then ByteLevel with RG
  kGpt2,        ///< ByteLevel with RG
};

/// The three regular expressions, as the JSON file spells them.
[[nodiscard]] std::string_view split_pattern(SplitKind kind);

/// "llama3", "qwen2", "gpt2-digits", "gpt2".
[[nodiscard]] std::string_view name_of(SplitKind kind);

/// Immutable; safe to use from several threads.
class PreTokenizer {
 public:
  explicit PreTokenizer(SplitKind kind);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  [[nodiscard]] SplitKind kind() const { return kind_; }

  /// Appends the pieces of well-formed UTF-8; together they are the segment.
  /// @throws Error(kData)  Oniguruma gave up (its own limit of retries)
  void split(std::string_view segment, std::vector<std::string_view>& pieces) const;

 private:
  void split_by_pattern(std::string_view segment, std::vector<std::string_view>& pieces) const;

  struct Pattern;
  SplitKind kind_;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace apo::text
