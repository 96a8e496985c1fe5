#pragma once

/// @file
/// Tables of finished runs: one run alone, or several methods and seeds side by side.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apo/core/table.hpp"

namespace apo::cli {

/// What a table needs of one run.
struct RunResults {
  std::filesystem::path dir;
  std::string method;
  std::int64_t seed = 0;
  std::vector<std::string> objectives;
  std::vector<std::vector<double>> preference;  ///< [N][m] by client
  Table evaluation;                             ///< /evaluation/summary
};

/// @param dir  run directory, or a run.h5 itself
/// @throws Error(kData)  no run.h5, damaged, or a run that has no evaluation yet
[[nodiscard]] RunResults read_results(const std::filesystem::path& dir);

enum class TableFormat { kText, kCsv, kJson, kMarkdown };

/// Per cluster and method: rewards, parse rate and score before and after adaptation, and held-out
/// losses; with several methods, their paired differences with 95 % intervals. Runs of one method
/// with several seeds are averaged.
/// @throws Error(kData)  runs with different objectives
[[nodiscard]] std::string format_tables(const std::vector<RunResults>& runs, TableFormat format);

}  // namespace apo::cli
