#pragma once

/// @file
/// One method from the first loss to the last reward, as a composition of the other rooms.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// Personal adapters of the test clients, by (start round, test client).
struct AdaptedClients {
  std::vector<std::vector<float>> parameters;      ///< [P] each
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
  ///
  /// @param known  losses at w_ref of an earlier start of this run (Population::measured_loss);
  ///               empty: they are computed
  const Population& population(std::vector<std::vector<double>> known = {});

  [[nodiscard]] federation::Trainer& trainer() { return *trainer_; }
  federation::Outcome train(federation::RoundObserver& observer,
                            federation::Phase last = federation::Phase::kTwo);

  /// Asked between two test clients, of this rank alone; adapt() and evaluate() end early on all
  /// ranks when it is true on any.
  using StopCheck = std::function<bool()>;

  /// What the test clients make of their adapters, spread over all ranks; complete on every rank.
  /// Methods that adapt nothing give no parameters.
  /// @returns none: a rank was asked to stop
  [[nodiscard]] std::optional<AdaptedClients> adapt(const StopCheck& stop = {});

  /// Evaluation of the test clients, spread over all ranks.
  /// @param adapted  of adapt(), complete on every rank; null: adapts on the way
  /// @returns none: a rank was asked to stop
  [[nodiscard]] std::optional<ExperimentResult> evaluate(const AdaptedClients* adapted = nullptr,
                                                         const StopCheck& stop = {});

  /// Training group (adapter) of a cluster: the cluster itself, or 0 when there is one for all.
  [[nodiscard]] int group_of_cluster(int cluster) const;
  /// Test clients in use: at most adapt.test_clients_per_cluster per cluster, by id.
  [[nodiscard]] std::vector<ClientId> test_clients() const;

 private:
  [[nodiscard]] std::vector<float> reference_parameters();
  [[nodiscard]] std::vector<float> initialiser(const data::Client& client, int variant) const;
  [[nodiscard]] std::vector<float> personalise(const data::Client& client, int variant,
                                               std::vector<federation::StepRecord>& steps);
  void evaluate_client(const data::Client& client, int variant, const std::vector<float>* adapted,
                       ExperimentResult& result);
  /// Calls work(k, variant, client) for this rank's block of the (variant, test client) list:
  /// gathering in rank order restores the serial order.
  /// @returns false: stopped early, on some rank
  bool for_each_client(const std::function<void(int k, int variant, const data::Client&)>& work,
                       const StopCheck& stop);

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
