#pragma once

/// @file
/// What a new client does with its own pairs: from the adapter it is given to one of its own.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apo/data/partition.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/options.hpp"
#include "apo/federation/records.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::methods {

class Personaliser {
 public:
  virtual ~Personaliser() = default;

  /// A pure function of (seed, client, initialiser): the draws depend neither on the other clients
  /// nor on the rank, and are the same for every start round.
  ///
  /// @param client       a test client; it learns from client.adapt
  /// @param start_round  of the step records, as cluster
  /// @param initialiser  [P]
  /// @param[out] steps   one record per step taken is appended, phase kAdaptation
  /// @return [P]; the initialiser when a loss or gradient was not finite
  [[nodiscard]] virtual std::vector<float> personalise(
      const data::Client& client, int start_round, int cluster, std::span<const float> initialiser,
      std::vector<federation::StepRecord>& steps) = 0;
};

/// APO's few-shot adaptation (algorithms.md 1.10): adapt.steps steps of LP (5), or of another
/// solver, on adapt.shots pairs of the client; batch size, clipping and optimiser are those of
/// Phase II's episodes. adapt.samples = reuse: batches of one support set. fresh: adapt.shots pairs
/// of the whole pool at every step, without replacement.
///
/// @param objectives, solver, partition  must outlive the result
[[nodiscard]] std::unique_ptr<Personaliser> make_few_shot_personaliser(
    objective::ObjectiveSet& objectives, direction::DirectionSolver& solver,
    const data::Partition& partition, const federation::AdaptOptions& adapt,
    const federation::Phase2Options& inner, std::uint64_t seed);

/// The support set: `shots` pairs of client.adapt, stratified over the objectives. Every method
/// draws the same one, so that they learn from the same pairs.
[[nodiscard]] data::Pool support_pairs(const data::Client& client, int shots, std::uint64_t seed);

}  // namespace apo::methods
