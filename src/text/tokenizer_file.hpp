#pragma once

/// @file
/// Reads and checks tokenizer.json (spec llm.md, sections 5.1 and 5.2, "Load-time checks").

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.hpp"
#include "byte_pair_model.hpp"
#include "pre_tokenizer.hpp"

namespace apo::text {

/// What a supported tokenizer.json says.
struct TokenizerFile {
  SplitKind split = SplitKind::kGpt2;
  bool normalize_nfc = false;
  bool ignore_merges = false;
  StringMap<std::int32_t> entries;
  std::vector<MergeRule> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<std::int32_t> prefix;  ///< ids that the post-processor puts in front
};

/// @param name  the file's name, for messages
/// @throws Error(kData)  not JSON, or not of a supported kind; lists everything that is wrong
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view json_text,
                                                 const std::string& name);

}  // namespace apo::text
