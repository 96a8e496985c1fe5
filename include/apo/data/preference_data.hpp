#pragma once

/// @file
/// Preference pairs as they come out of the files (spec data-formats.md).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apo/data/options.hpp"
#include "apo/text/chat_template.hpp"

namespace apo::data {

/// Where a pair may be used; from the row's optional "split" field.
enum class RowSplit { kUnset, kTrain, kAdapt, kEvaluate };

/// One (prompt, chosen, rejected) under one objective. The pair, not the text, carries the
/// objective: the same two responses may stand under several, the other way round in some.
struct PreferencePair {
  std::vector<text::Turn> prompt;
  std::string chosen;
  std::string rejected;
  int objective = 0;   ///< index into DataOptions::objectives
  std::string client;  ///< owner named by the file; empty when it names none
  RowSplit split = RowSplit::kUnset;
  int file = 0;          ///< index into DataOptions::files
  std::int64_t row = 0;  ///< 1-based line or array position
};

struct PreferenceData {
  std::vector<std::string> objectives;  ///< [m]
  std::vector<PreferencePair> pairs;
  std::map<std::string, std::int64_t> dropped;  ///< reason -> rows
  std::int64_t num_duplicates = 0;  ///< exact repeats, kept or dropped by data.duplicates
  std::string sha256;               ///< of all files' bytes, in order
};

/// Reads all files of the options.
///
/// @throws Error(kData)  unreadable file, unknown shape, malformed row (with on_bad_row = error),
///         an objective that no row has; every message names file, row and field, and what was
///         expected and found
[[nodiscard]] PreferenceData load_preference_data(const DataOptions& options);

}  // namespace apo::data
