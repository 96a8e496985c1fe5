#pragma once

/// @file
/// The configuration of a run, as kept beside it. Private to store.

#include <string>
#include <string_view>

namespace apo::store {

/// "# sha256 <64 digits>\n" before the text, so that a change by hand is seen.
[[nodiscard]] std::string with_hash_line(const std::string& configuration);

struct StoredConfiguration {
  std::string text;
  bool is_intact = false;  ///< the hash line is there and matches
};
[[nodiscard]] StoredConfiguration parse_stored(std::string_view file);

struct ConfigurationDifference {
  /// One line per key that differs: "phase1.rounds: 200 in the folder, 300 now".
  std::string text;
  /// All of them are keys on which no result depends, so that a run may go on with other values:
  /// [checkpoint], runtime.timeout.
  bool is_harmless = false;
};
[[nodiscard]] ConfigurationDifference configuration_difference(std::string_view stored,
                                                               std::string_view now);

}  // namespace apo::store
