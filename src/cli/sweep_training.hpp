#pragma once

/// @file
/// Trains and evaluates claimed clusters of a sweep, all of equal progress in one Trainer.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sweep_folder.hpp"
#include "time_limit.hpp"

#include "apo/comm/world.hpp"
#include "apo/federation/sweep_plan.hpp"
#include "apo/methods/experiment.hpp"

namespace apo::cli {

/// A distinct cluster as the sweep needs it.
struct SweepCluster {
  federation::TrainingGroup group;
  std::string name;                    ///< of its folder
  std::vector<ClientId> test_clients;  ///< that some budget gives its adapter to
};

/// A cluster that this job has locked.
struct Claim {
  int cluster = 0;
  std::optional<federation::TrainingState> state;  ///< none: training begins
  std::string reports;                             ///< rank 0: packed rounds so far
  std::optional<ClusterResult> known;              ///< rank 0: trained, but some clients are new
};

class SweepTraining {
 public:
  /// @param options  resolved()
  /// @param folders  rank 0: of every cluster; empty elsewhere. References outlive this
  SweepTraining(comm::World& world, const methods::ExperimentInputs& inputs,
                const methods::ExperimentOptions& options,
                const store::CheckpointOptions& checkpoint,
                const std::vector<SweepCluster>& clusters, std::vector<ClusterFolder>& folders);

  /// Trains, evaluates, publishes and unlocks every claim. Collective over the world.
  /// @return kStopped: what was trained and evaluated of the claims is kept in their folders
  federation::Outcome run(std::vector<Claim> claims);

  /// This rank was asked to stop, or (rank 0) the time limit is here.
  [[nodiscard]] bool should_stop() const;

  [[nodiscard]] int num_trained() const { return num_trained_; }
  [[nodiscard]] double seconds_training() const { return seconds_training_; }
  [[nodiscard]] double seconds_evaluation() const { return seconds_evaluation_; }

 private:
  federation::Outcome run_together(std::vector<Claim*> claims);
  [[nodiscard]] federation::Outcome evaluate_and_publish(const federation::Trainer& trainer,
                                                         const std::vector<Claim*>& claims);
  /// Pairs that no job has evaluated yet, by client.
  [[nodiscard]] std::vector<methods::EvaluationPair> missing_pairs(
      const std::vector<Claim*>& claims);
  void publish(const federation::Trainer& trainer, const std::vector<Claim*>& claims,
               std::vector<std::vector<methods::PairResult>> found);

  comm::World& world_;
  const methods::ExperimentInputs& inputs_;
  const methods::ExperimentOptions& options_;
  const store::CheckpointOptions& checkpoint_;
  const std::vector<SweepCluster>& clusters_;
  std::vector<ClusterFolder>& folders_;
  TimeLimit limit_;
  int num_trained_ = 0;
  double seconds_training_ = 0.0;
  double seconds_evaluation_ = 0.0;
};

}  // namespace apo::cli
