#pragma once

/// @file
/// Pairs as token ids, cut to length.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apo/data/preference_data.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::data {

/// The prompt is tokenised once and shared by both responses. Empty `chosen` marks a dropped pair.
struct TokenPair {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> chosen;    ///< with closing tokens
  std::vector<std::int32_t> rejected;  ///< with closing tokens

  [[nodiscard]] bool usable() const { return !chosen.empty() && !rejected.empty(); }
};

struct TokenData {
  std::vector<TokenPair> pairs;                ///< parallel to PreferenceData::pairs
  std::map<std::string, std::int64_t> counts;  ///< "prompt cut", "response cut", "no room left"...
};

/// @param vocabulary_limit  rows of the embedding matrix; every id in use must be below
/// @throws Error(kData)  an id beyond the embedding: names the id and the token
[[nodiscard]] TokenData tokenize_pairs(const PreferenceData& data, const text::Tokenizer& tokenizer,
                                       const text::ChatTemplate& chat, const DataOptions& options,
                                       std::int64_t vocabulary_limit);

}  // namespace apo::data
