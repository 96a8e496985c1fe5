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
#include "apo/methods/personaliser.hpp"
#include "apo/methods/population.hpp"
#include "apo/objective/objective_set.hpp"

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

/// What a method is made of, beside the clustering and the options of the phases.
struct MethodTraits {
  std::string scheme = "local_steps";  ///< of Phase I (federation::RoundScheme)
  bool trains = true;                  ///< false: Phase I has no rounds
  bool per_cluster = false;            ///< one adapter per cluster; false: one for all clients
  bool meta = false;                   ///< Phase II follows
  bool adapts = true;                  ///< new clients adapt what they are given
};

/// @throws Error(kConfig)  an unknown method.name
[[nodiscard]] MethodTraits method_traits(const MethodOptions& options);

/// The options as the method means them: firm solves its regularised min-norm problem and averages
/// uniformly; methods without Phase I or II have no rounds of it.
[[nodiscard]] ExperimentOptions resolved(ExperimentOptions options);

/// Label of the method in tables: its name; "lambda" for apo with direction.solver = fixed (fedavg
/// keeps its name under it); "apo+SOLVER", "fedavg+SOLVER" with another solver than apo_lp.
[[nodiscard]] std::string method_label(const ExperimentOptions& options);

/// What the steps of an experiment work on; references outlive it.
struct ExperimentInputs {
  const data::Partition& partition;
  objective::ObjectiveSet& objectives;
  Evaluator& evaluator;
  Personaliser* personaliser = nullptr;  ///< null: few-shot adaptation along the solver's direction
};

/// Steps of one run; every member is collective over the world.
///
/// The order is: population(), then either restore() or not, train(), evaluate().
class Experiment {
 public:
  /// @param options  resolved()
  Experiment(comm::World& world, const ExperimentInputs& inputs, ExperimentOptions options);

  /// Losses at w_ref, clusters, and the trainer over the method's groups. w_ref is the reference
  /// policy, or with clustering.reference = warm:R one adapter for all clients after R rounds of
  /// Phase I at its first learning rate; training starts from the initial adapter either way.
  const Population& population();

  [[nodiscard]] federation::Trainer& trainer() { return *trainer_; }
  void train(federation::RoundObserver& observer);

  /// Few-shot adaptation and evaluation of the test clients, spread over all ranks.
  [[nodiscard]] ExperimentResult evaluate();

  /// Training group (adapter) of a cluster: the cluster itself, or 0 when there is one for all.
  [[nodiscard]] int group_of_cluster(int cluster) const;
  /// Test clients in use: at most adapt.test_clients_per_cluster per cluster, by id.
  [[nodiscard]] std::vector<ClientId> test_clients() const;

 private:
  [[nodiscard]] std::vector<float> reference_parameters();
  void evaluate_client(const data::Client& client, int variant, ExperimentResult& result);

  comm::World& world_;
  ExperimentInputs inputs_;
  ExperimentOptions options_;
  MethodTraits traits_;
  Population population_;
  std::unique_ptr<direction::DirectionSolver> solver_;
  std::unique_ptr<Personaliser> few_shot_;
  std::unique_ptr<federation::Trainer> trainer_;
};

}  // namespace apo::methods
