#pragma once

/// @file
/// What the families of chat templates have in common and where they differ
/// (spec llm.md, section 6.1).

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apo/text/chat_template.hpp"

namespace apo::text {

inline constexpr std::array kAllFamilies{TemplateFamily::kLlama3, TemplateFamily::kLlama3_1,
                                         TemplateFamily::kQwen2, TemplateFamily::kSmolLm2,
                                         TemplateFamily::kPlain};

/// "llama3", "llama3_1", "qwen2", "smollm2", "plain".
[[nodiscard]] std::string_view name_of(TemplateFamily family);

/// "llama3, llama3_1, qwen2, smollm2 or plain", for messages.
[[nodiscard]] std::string family_names();

[[nodiscard]] std::optional<TemplateFamily> family_of_name(std::string_view name);

/// The family of a checkpoint's template, by the SHA-256 of its text.
[[nodiscard]] std::optional<TemplateFamily> family_of_sha256(std::string_view sha256);

/// The control token that ends a turn; empty for kPlain.
[[nodiscard]] std::string_view end_of_turn(TemplateFamily family);

/// What follows a turn's content: the control token, and a newline in ChatML.
[[nodiscard]] std::string_view turn_closing(TemplateFamily family);

/// A stretch of a rendered conversation: the template's own text (kParse) or somebody's (kAsText).
struct RenderedPart {
  std::string text;
  ControlTokens control;
};

/// @throws Error(kData)  no turns, or a role that is none of system, user, assistant
[[nodiscard]] std::vector<RenderedPart> render(TemplateFamily family,
                                               const std::vector<Turn>& turns,
                                               const std::string& date);

/// The content as the family shows it: the Llama families trim white space on both sides.
[[nodiscard]] std::string_view shown_content(TemplateFamily family, std::string_view content);

}  // namespace apo::text
