#pragma once

/// @file
/// One method from the first loss to the last reward, as a composition of the other rooms.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apo/clustering/options.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/table.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/methods/evaluation.hpp"
#include "apo/methods/options.hpp"
#include "apo/methods/population.hpp"

namespace apo::methods {

struct ExperimentOptions {
  MethodOptions method;
  EvaluateOptions evaluate;
  clustering::ClusteringOptions clustering;
  federation::TrainingOptions training;
  federation::AdaptOptions adapt;
};

/// Results that come at the end, complete on rank 0; other ranks hold empty tables.
struct ExperimentResult {
  Table evaluation;                                ///< summary_table()
  Table responses;                                 ///< response_table()
  std::vector<federation::StepRecord> adaptation;  ///< by (start_round, client, step)
};

/// Label of the method in tables: "base", "fedavg", "apo", or "lambda" for apo's clusters with
/// direction.solver = fixed (fedavg keeps its name under either solver).
[[nodiscard]] std::string method_label(const ExperimentOptions& options);

/// Steps of one run; every member is collective over the world.
///
/// The order is: population(), then either restore() or not, train(), evaluate().
class Experiment {
 public:
  Experiment(comm::World& world, const data::Partition& partition, EvaluationInputs inputs,
             ExperimentOptions options);

  /// Losses of the reference policy, clusters, and the trainer over the method's groups: apo trains
  /// one adapter per cluster, fedavg one for all, base none.
  const Population& population();

  [[nodiscard]] federation::Trainer& trainer() { return *trainer_; }
  void train(federation::RoundObserver& observer);

  /// Few-shot adaptation and evaluation of the test clients, spread over all ranks.
  [[nodiscard]] ExperimentResult evaluate();

  /// Training group (adapter) of a cluster: the cluster itself with apo, 0 otherwise.
  [[nodiscard]] int group_of_cluster(int cluster) const;
  /// Test clients in use: at most adapt.test_clients_per_cluster per cluster, by id.
  [[nodiscard]] std::vector<ClientId> test_clients() const;

 private:
  void evaluate_client(const data::Client& client, int variant, Evaluator& evaluator,
                       ExperimentResult& result);

  comm::World& world_;
  const data::Partition& partition_;
  EvaluationInputs inputs_;
  ExperimentOptions options_;
  Population population_;
  std::unique_ptr<federation::Trainer> trainer_;
  std::unique_ptr<direction::DirectionSolver> solver_;
};

}  // namespace apo::methods
