#pragma once

/// @file
/// One budget's folder from the clusters of a sweep, as if the budget had been run alone.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "run_task.hpp"
#include "sweep_folder.hpp"

#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/methods/population.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {

/// One budget of a sweep.
struct SweepBudget {
  int budget = 1;
  config::RunConfig config;  ///< with this budget
  methods::Population population;
  std::vector<ClientId> test_clients;
  std::vector<int> cluster_of;  ///< its clusters' numbers -> the sweep's clusters
  bool complete = false;        ///< its folder holds a complete run
};

/// What all budgets are assembled with; references outlive it.
struct SweepSetting {
  comm::World& world;
  const RunTask& task;
  const methods::ExperimentOptions& options;  ///< resolved()
  std::vector<std::string> hosts;             ///< of every rank
  comm::RankDevice device;                    ///< of this rank
};

/// The rounds of a budget's clusters in the order in which one run would tell of them: by round,
/// then by cluster, renumbered.
/// @param results  by the budget's cluster numbers; their rounds are renumbered in place
void replay(const std::vector<ClusterResult*>& results,
            const std::function<void(const federation::RoundReport&)>& on_round);

/// What Experiment::evaluate() would return under the budget's population.
/// @param num_variants  start rounds
[[nodiscard]] methods::ExperimentResult evaluation_of(const SweepBudget& budget,
                                                      const std::vector<ClusterResult*>& results,
                                                      int num_variants, int num_objectives);

/// Fills the folder of a budget whose clusters are all trained. Collective over the world; rank 0
/// does it.
/// @param results    rank 0: by the budget's cluster numbers
/// @param folders    rank 0: of all clusters of the sweep
/// @param directory  null on other ranks
/// @param seconds    for /performance
void assemble(const SweepSetting& setting, const SweepBudget& budget,
              const std::vector<ClusterResult*>& results, const std::vector<ClusterFolder>& folders,
              store::RunDirectory* directory,
              const std::vector<std::pair<std::string, double>>& seconds);

}  // namespace apo::cli
