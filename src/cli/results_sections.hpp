#pragma once

/// @file
/// The tables of a report, by subject.

#include <string>
#include <vector>

#include "results_rows.hpp"
#include "results_table.hpp"
#include "results_text.hpp"

namespace apo::cli {

/// Means over test clients per cluster and method.
[[nodiscard]] TextTable cluster_table(const std::vector<Row>& rows,
                                      const std::vector<std::string>& objectives);

/// Paired differences between methods, and between before and after adaptation: of the Chebyshev
/// gap on analytic tasks, of the score where there are scores, else of the held-out loss.
///
/// Runs of one method that differ in settings are compared with their neighbours only.
[[nodiscard]] std::vector<TextTable> comparison_tables(const std::vector<Row>& rows);

/// Per method and stage: preference-weighted held-out loss, largest weighted loss (psi), uniformity
/// (beta) and preference-weighted accuracy. Scores reward a high sum of lambda_j s_j, balancing
/// equal lambda_j l_j: neither tells the other (algorithms.md 4.1). No rows without these columns.
[[nodiscard]] TextTable loss_table(const std::vector<Row>& rows);

/// Chebyshev gap psi - psi* of analytic tasks per method and cluster budget; no rows otherwise.
/// @param labels  of the runs
[[nodiscard]] TextTable gap_table(const std::vector<RunResults>& runs,
                                  const std::vector<std::string>& labels,
                                  const std::vector<Row>& rows);

/// Normalised scores, hypervolume, IGD and IGD+ over all runs, and the range behind them.
struct FrontSection {
  std::vector<TextTable> tables;
  std::vector<std::string> warnings;
};
/// @param frozen  range to use; null: that of the runs
/// @throws Error(kData)  the frozen range is about other objectives or another kind of scores
[[nodiscard]] FrontSection front_section(const std::vector<RunResults>& runs,
                                         const std::vector<std::string>& labels,
                                         const FrozenRange* frozen);

}  // namespace apo::cli
