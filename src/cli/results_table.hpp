#pragma once

/// @file
/// Tables of finished runs: one run alone, or several methods and seeds side by side. Reads run
/// files only: no torch, no MPI.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "results_score_range.hpp"

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
  std::string configuration;                    ///< INI text; empty in files that do not keep it
  std::int64_t num_clusters = 0;  ///< rows of /clusters; 0 in files that do not keep them
};

/// @param dir  run directory, or a run.h5 itself
/// @throws Error(kData)  no run.h5, damaged, or a run that has no evaluation yet
[[nodiscard]] RunResults read_results(const std::filesystem::path& dir);

enum class TableFormat { kText, kCsv, kJson, kMarkdown };

struct ReportOptions {
  TableFormat format = TableFormat::kText;
  /// Frozen range of the scores; absent: that of the runs at hand.
  std::optional<FrozenRange> range;
};

struct Report {
  std::string text;                   ///< warnings included, so that they stay with the numbers
  std::vector<std::string> warnings;  ///< one line each
};

/// Per cluster and method: rewards, parse rate and score before and after adaptation, and held-out
/// losses; with several methods, their paired differences with 95 % intervals. With several runs,
/// or a frozen range: preference-weighted normalised scores, hypervolume, IGD and IGD+ of the
/// solution sets (spec algorithms.md, section 4). Per stage: loss, psi, beta and accuracy; on
/// analytic tasks Chebyshev gaps.
///
/// Runs of one method with several seeds are averaged, with intervals over the seeds. Runs of one
/// method that differ in other settings are told apart by these settings.
/// @throws Error(kData)  runs with different objectives, or a range of other objectives
[[nodiscard]] Report make_report(const std::vector<RunResults>& runs, const ReportOptions& options);

/// One range over all solutions of the runs (algorithms.md 4.1), to be frozen in a file.
/// @return nothing when the runs have no scores, or scores of different kinds
/// @throws Error(kData)  as make_report()
[[nodiscard]] std::optional<FrozenRange> score_range_of(const std::vector<RunResults>& runs);

/// The text of make_report() without a frozen range.
[[nodiscard]] std::string format_tables(const std::vector<RunResults>& runs, TableFormat format);

}  // namespace apo::cli
