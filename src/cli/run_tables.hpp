#pragma once

/// @file
/// Records of a run as tables of the run file (design.md, section 5).

#include <string>
#include <vector>

#include "apo/core/table.hpp"
#include "apo/data/partition.hpp"
#include "apo/federation/records.hpp"
#include "apo/methods/population.hpp"

namespace apo::cli {

[[nodiscard]] Table step_table(int num_objectives);
void push(Table& table, const federation::StepRecord& step);

[[nodiscard]] Table round_table(int num_objectives);
void push(Table& table, const federation::RoundReport& report);

[[nodiscard]] Table client_table(const data::Partition& partition,
                                 const methods::Population& population);
[[nodiscard]] Table cluster_table(const methods::Population& population,
                                  const federation::Placement& placement, bool team_per_cluster);
[[nodiscard]] Table dendrogram_table(const methods::Population& population);

/// One line of metrics.jsonl.
[[nodiscard]] std::string metrics_line(const federation::RoundReport& report);

}  // namespace apo::cli
