#pragma once

/// @file
/// The frozen score range: one (min, max) per objective, computed once over the raw mean scores of
/// all methods, clusters, preferences and checkpoints of an experiment and then used for score,
/// hypervolume and IGD alike (spec algorithms.md, section 4.1).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apo/metrics/scores.hpp"

namespace apo::cli {

struct FrozenRange {
  std::vector<std::string> objectives;     ///< [m]
  std::string score;                       ///< what the scores are: "mean reward", ...
  std::vector<metrics::ScoreRange> range;  ///< [m]
  std::int64_t num_solutions = 0;          ///< over which it was computed
};

/// Publishes the range as JSON, atomically; doubles survive the round trip bit by bit.
/// @throws BackendError  cannot be written
void write_score_range(const std::filesystem::path& file, const FrozenRange& range);

/// @throws Error(kData)  cannot be read, or is not what write_score_range() writes; says what is
///                       wrong
[[nodiscard]] FrozenRange read_score_range(const std::filesystem::path& file);

}  // namespace apo::cli
