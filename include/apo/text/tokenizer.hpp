#pragma once

/// @file
/// Byte-level BPE from a Hugging Face tokenizer.json (spec llm.md, section 5).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace apo::text {

/// What the tokenizer does with text that spells an added token such as "<|eot_id|>".
enum class ControlTokens {
  kParse,   ///< becomes the control token, as in Hugging Face; for a template's own strings
  kAsText,  ///< stays ordinary text; for what users and models wrote
};

/// A part of a text and who wrote it. Parts are encoded as one text: a word may cross a border.
struct Fragment {
  std::string_view text;
  ControlTokens control = ControlTokens::kAsText;
};

/// Immutable after loading; safe to use from several threads.
class Tokenizer {
 public:
  /// @param path  tokenizer.json, tokenizer.json.gz, or a folder that holds one of them
  /// @throws Error(kData)  not readable, or of a kind that is not supported; names what was found
  ///         and what is accepted, all findings at once
  static Tokenizer load(const std::filesystem::path& path);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  /// Ids of `text`. Invalid UTF-8 is replaced by U+FFFD first.
  /// @param add_special_tokens  apply the post-processor (Llama-3: BOS first)
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, ControlTokens control,
                                                 bool add_special_tokens = false) const;

  /// Ids of the fragments' texts joined. A special token is parsed only where all of its bytes lie
  /// in kParse fragments; otherwise the result is that of the joined text.
  [[nodiscard]] std::vector<std::int32_t> encode_fragments(std::span<const Fragment> fragments,
                                                           bool add_special_tokens = false) const;

  /// Text of ids; ill-formed bytes become U+FFFD (one per maximal ill-formed prefix). Unknown ids
  /// are skipped.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids,
                                   bool skip_special_tokens = true) const;

  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const;
  [[nodiscard]] std::int32_t max_id() const;  ///< largest id of vocabulary and added tokens
  [[nodiscard]] std::int64_t vocabulary_size() const;  ///< number of distinct ids
  [[nodiscard]] std::string kind() const;              ///< "llama3", "qwen2", "gpt2-digits", "gpt2"
  [[nodiscard]] std::int64_t dropped_symbols() const;  ///< byte symbols absent from the vocabulary,
                                                       ///< dropped by encode() so far
 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::text
