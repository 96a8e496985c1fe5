#pragma once

/// @file
/// Test clients under the adapters of clusters of several budgets, each pair once.

#include <span>
#include <string>
#include <vector>

#include "apo/comm/world.hpp"
#include "apo/core/table.hpp"
#include "apo/federation/records.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/methods/population.hpp"

namespace apo::methods {

/// A test client that is given the adapter of a trainer's group.
struct EvaluationPair {
  int group = 0;
  ClientId client;
};

/// What one pair and one start round bring; cluster numbers in it are 0.
struct PairResult {
  int group = 0;
  ClientId client;
  int variant = 0;                                 ///< position in Trainer::start_rounds()
  Table evaluation;                                ///< rows of summary_table()
  Table responses;                                 ///< rows of response_table()
  std::vector<federation::StepRecord> adaptation;  ///< by step
};

/// Byte string of results; only read back by the same program.
[[nodiscard]] std::string pack(const std::vector<PairResult>& results);
[[nodiscard]] std::vector<PairResult> unpack_pair_results(const std::string& bytes);

/// What Experiment::evaluate() does for a client of a cluster, for every pair and start round.
/// Collective over the world, over whose ranks the pairs are spread.
/// @param trainer  done with both phases
/// @return complete on every rank, by (client, group, variant)
[[nodiscard]] std::vector<PairResult> evaluate_pairs(comm::World& world,
                                                     const ExperimentInputs& inputs,
                                                     const ExperimentOptions& options,
                                                     const federation::Trainer& trainer,
                                                     std::vector<EvaluationPair> pairs);

}  // namespace apo::methods
