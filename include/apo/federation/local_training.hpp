#pragma once

/// @file
/// The steps of one client: losses and gradients, direction, optimiser step
/// (spec algorithms.md, sections 1.7 to 1.10).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/core/rng.hpp"
#include "apo/data/partition.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/records.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::federation {

struct LocalOptions {
  int steps = 1;
  int batch_pairs = 8;  ///< pairs per optimiser step, all micro-batches together
  double learning_rate = 5e-5;
  std::string optimizer = "adamw";  ///< adamw (state new in every call) | sgd
  double clip = 0.0;                ///< norm of d; 0: none. Ignored with sgd
  bool force_balancing = false;     ///< LP (5) instead of (4)
  /// Pairs of the pool that each step draws anew, without replacement, instead of batches of the
  /// whole pool (adapt.samples = fresh); 0: off.
  int fresh_shots = 0;
  bool was_uniform = false;  ///< mode of the client's last step (direction.beta_hysteresis)
  bool keep_first = false;   ///< keep what the theory monitor needs of the first step
};

/// The first step at the common start: what the theory monitor reads.
struct FirstStep {
  std::vector<float> gradients;  ///< [m, P]
  direction::Direction direction;
};

struct LocalResult {
  std::vector<float> parameters;  ///< [P] after the last step
  std::vector<StepRecord> steps;
  bool finite = true;  ///< false: a loss or gradient was not finite; parameters are the start's
  FirstStep first;     ///< empty unless options.keep_first and all objectives were present
};

/// Trains `client` from `start` on `pool`.
///
/// @param start       [P]
/// @param text_of_pair  see BatchSampler
/// @param batches     key of the batch draws
/// @param step_key    dropout of step k is named by (batches.seed, client, step_key + k)
/// @param record      phase, start_round, cluster and round of the step records
[[nodiscard]] LocalResult train_client(objective::ObjectiveSet& objectives,
                                       direction::DirectionSolver& solver,
                                       const data::Client& client, const data::Pool& pool,
                                       std::span<const int> text_of_pair,
                                       std::span<const float> start, const LocalOptions& options,
                                       const StreamKey& batches, std::uint64_t step_key,
                                       const StepRecord& record);

/// Gram matrix of m gradients, float64 accumulation, symmetric. @param gradients  [m, P] row-major
[[nodiscard]] std::vector<double> gram_matrix(std::span<const float> gradients, int m);

/// d = sum_j weight_j g_j. @param[out] direction  [P]
void combine(std::span<const float> gradients, std::span<const double> weight,
             std::span<float> direction);

/// What a solver is told beside losses, Gram matrix and preference.
struct SolveOptions {
  bool force_balancing = false;
  bool was_uniform = false;
  std::uint64_t random_key = 0;
};

/// Solves for mu over the objectives that are present (preference renormalised on them) and fills
/// the record's fields; absent objectives get mu = 0.
/// @return the solution over the present objectives
direction::Direction solve_direction(direction::DirectionSolver& solver,
                                     const objective::Evaluation& evaluation,
                                     std::span<const double> gram,
                                     std::span<const double> preference,
                                     const SolveOptions& options, StepRecord& record);

}  // namespace apo::federation
