#pragma once

/// @file
/// Chat templates as hand-written renderers, selected by the checkpoint's own template
/// (spec llm.md, section 6.1).

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apo/text/tokenizer.hpp"

namespace apo::text {

/// One message of a conversation.
struct Turn {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;

  friend bool operator==(const Turn&, const Turn&) = default;
};

enum class TemplateFamily {
  kLlama3,    ///< Llama-3.0 Instruct
  kLlama3_1,  ///< Llama-3.1 and 3.2 Instruct: system block with a date
  kQwen2,     ///< Qwen2.5 ChatML
  kSmolLm2,   ///< SmolLM2 ChatML
  kPlain,     ///< no template: prompt, newline, response, end-of-text token
};

class ChatTemplate {
 public:
  /// @param model_dir  folder with tokenizer_config.json (or chat_template.jinja)
  /// @param choice     "auto" or a family's name: llama3, llama3_1, qwen2, smollm2, plain
  /// @param date       "26 Jul 2024"; only the Llama 3.1 family shows it
  /// @throws Error(kData)  auto, and the checkpoint's template is not one that is known; the
  ///         message gives its SHA-256 and the families to choose from. A folder without any
  ///         template is kPlain.
  static ChatTemplate load(const std::filesystem::path& model_dir, std::string_view choice,
                           std::string_view date);

  [[nodiscard]] TemplateFamily family() const { return family_; }
  [[nodiscard]] std::string_view name() const;

  /// Text with the assistant's header at the end, as Hugging Face renders it with
  /// add_generation_prompt = true. kPlain: the contents, each with a newline after it.
  /// @throws Error(kData)  no turns, or a role that is none of system, user, assistant
  [[nodiscard]] std::string render_prompt(const std::vector<Turn>& turns) const;

  /// Ids of the rendered prompt: the template's own strings are parsed for control tokens, the
  /// contents are not. kPlain: with what the tokenizer itself puts in front (Llama: BOS).
  [[nodiscard]] std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer,
                                                        const std::vector<Turn>& turns) const;

  /// Ids of a response with its closing tokens ("<|eot_id|>", "<|im_end|>\n", or end-of-text).
  /// The Llama families trim it first, as their templates do. kPlain without an eos_token in
  /// tokenizer_config.json ends with the first of stop_ids().
  /// @throws Error(kData)  the closing token is not in the vocabulary
  [[nodiscard]] std::vector<std::int32_t> encode_response(const Tokenizer& tokenizer,
                                                          std::string_view response) const;

  /// Ids at which generation stops, from the family and generation_config.json / config.json.
  [[nodiscard]] const std::vector<std::int32_t>& stop_ids() const { return stop_ids_; }

 private:
  TemplateFamily family_ = TemplateFamily::kPlain;
  std::string date_;
  std::string end_token_;  ///< kPlain: the end-of-text token's text
  std::vector<std::int32_t> stop_ids_;
};

}  // namespace apo::text
