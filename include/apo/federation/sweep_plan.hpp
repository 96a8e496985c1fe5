#pragma once

/// @file
/// Several cluster budgets at once: which clusters there are, each of them once, and how what was
/// measured and kept for one cluster goes in and out of a Trainer over many.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apo/federation/records.hpp"
#include "apo/federation/trainer.hpp"

namespace apo::federation {

/// Budgets as a user writes them: numbers and ranges, "1-16" or "1,2,4-8".
/// @return ascending, each once
/// @throws Error(kConfig)  anything else, or a number outside [1, 1000000]
[[nodiscard]] std::vector<int> parse_budgets(std::string_view text);

struct SweepPlan {
  std::vector<TrainingGroup> clusters;       ///< distinct by their members; first met, first
  std::vector<std::vector<int>> cluster_of;  ///< [budget][its cluster's number] -> `clusters`
  [[nodiscard]] int num_clusters() const { return static_cast<int>(clusters.size()); }
};

/// Cuts of one dendrogram are nested: budgets 1..B have 2B - 1 distinct clusters.
/// @param budgets  the clusters of every budget, in the order of their numbers
[[nodiscard]] SweepPlan plan_sweep(std::span<const std::vector<TrainingGroup>> budgets);

/// Parts `wanted` (positions in `groups`) so that no client is in two clusters of a part. A Trainer
/// keeps one mode per client (TrainingState::was_uniform), so with direction.beta_hysteresis
/// overlapping clusters must not share one.
[[nodiscard]] std::vector<std::vector<int>> disjoint_parts(std::span<const TrainingGroup> groups,
                                                           std::span<const int> wanted);

/// What `state` holds of its cluster `cluster`, as the state of a Trainer over that cluster alone.
/// @param group  its clients
[[nodiscard]] TrainingState state_of_cluster(const TrainingState& state, int cluster,
                                             const TrainingGroup& group);

/// How far a state is: states of equal progress can go on together.
struct Progress {
  int phase1_rounds = 0;
  int variant = 0;
  int phase2_rounds = 0;
  friend auto operator<=>(const Progress&, const Progress&) = default;
};
[[nodiscard]] Progress progress_of(const TrainingState& state);

/// The opposite of state_of_cluster(): states of single clusters, of equal progress, as that of one
/// Trainer over all of them.
[[nodiscard]] TrainingState joined(std::span<const TrainingState> states);

/// Gives the report, its steps and its theory tables another cluster number.
void renumber(RoundReport& report, int cluster);
/// The same for every row of a table with a column "cluster".
void renumber(Table& table, int cluster);

/// Whether the round of `a` is run before that of `b`, whatever their clusters.
[[nodiscard]] bool runs_before(const RoundReport& a, const RoundReport& b);

}  // namespace apo::federation
