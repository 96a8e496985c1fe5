#pragma once

/// @file
/// The words of the demo domain. Positions in these tables are the numbers in demo::Prompt and
/// demo::Answer; the shipped model and pairs depend on every word and on their order.

#include <array>
#include <span>
#include <string_view>

#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

struct ActionWords {
  std::string_view name;
  std::array<std::string_view, kVerbsPerAction> verbs;
};
struct ObjectWords {
  std::string_view name;
  std::array<std::string_view, kPartsPerObject> parts;
  int risk = 0;
};
struct ModifierWords {
  std::string_view text;
  int risk = 0;
};
/// before ACTION between OBJECT " " MODIFIER after
struct TemplateWords {
  std::string_view before;
  std::string_view between;
  std::string_view after;
};

extern const std::array<ActionWords, kNumActions> kActions;
extern const std::array<ObjectWords, kNumObjects> kObjects;
extern const std::array<ModifierWords, kNumModifiers> kModifiers;
extern const std::array<TemplateWords, kNumTemplates> kTemplates;
extern const std::array<std::string_view, kMaxSteps> kStepMarkers;
inline constexpr std::string_view kArticle = " the ";

[[nodiscard]] std::span<const std::string_view> greetings();
[[nodiscard]] std::span<const std::string_view> hedges();
[[nodiscard]] std::span<const std::string_view> warnings();
[[nodiscard]] std::span<const std::string_view> refusals();
[[nodiscard]] std::span<const std::string_view> alternatives();
[[nodiscard]] std::span<const std::string_view> closings();

[[nodiscard]] inline std::string_view verb_word(int verb) {
  return kActions[static_cast<std::size_t>(verb / kVerbsPerAction)]
      .verbs[static_cast<std::size_t>(verb % kVerbsPerAction)];
}
[[nodiscard]] inline std::string_view part_word(int part) {
  return kObjects[static_cast<std::size_t>(part / kPartsPerObject)]
      .parts[static_cast<std::size_t>(part % kPartsPerObject)];
}

/// Words and punctuation marks of a sentence.
[[nodiscard]] int count_tokens(std::string_view sentence);

}  // namespace apo::data::demo
