#pragma once

/// @file
/// The round loop of both phases over all clusters (spec algorithms.md, sections 1.8 and 1.9;
/// design.md, section 2).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/data/partition.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/direction/options.hpp"
#include "apo/federation/finite_guard.hpp"
#include "apo/federation/optimizer.hpp"
#include "apo/federation/options.hpp"
#include "apo/federation/placement.hpp"
#include "apo/federation/records.hpp"
#include "apo/federation/round_scheme.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::federation {

/// Clients that train one adapter together.
struct TrainingGroup {
  std::vector<ClientId> members;  ///< ascending
};

struct TrainingOptions {
  Phase1Options phase1;
  Phase2Options phase2;  ///< rounds = 0: no Phase II
  BaselineOptions baseline;
  MonitorOptions monitor;
  std::string scheme = "local_steps";  ///< of Phase I: local_steps, or a baseline's name
  direction::DirectionOptions direction;
  std::uint64_t seed = 0;
  bool reproducible = true;
  comm::Backend backend = comm::Backend::kMpi;
  int checkpoint_every = 10;  ///< rounds
};

/// Everything that the rest of a run depends on; complete on every rank after synchronisation.
struct TrainingState {
  int phase1_rounds = 0;                       ///< rounds done
  std::vector<std::vector<float>> parameters;  ///< [b][P] Phase I; P of the scheme
  std::vector<std::vector<double>> memory;     ///< [b] what the scheme keeps between rounds
  std::vector<std::int8_t> was_uniform;        ///< [N] mode of each client's last Phase I step
  /// [variants][b][P]: Phase I adapters at the start rounds reached so far, in start_rounds order.
  std::vector<std::vector<std::vector<float>>> starts;
  int variant = 0;                       ///< Phase II variant under way
  int phase2_rounds = 0;                 ///< rounds of it done
  std::vector<std::vector<float>> meta;  ///< [b][P] Phase II parameters of that variant
  std::vector<AdamWState> server;        ///< [b] server optimiser of that variant
  std::vector<std::vector<std::vector<float>>> finished;  ///< [variants done][b][P]
};

/// What a rank asks for at the end of a round: one rank that asks is enough.
struct RoundRequest {
  bool stop = false;        ///< checkpoint and leave run()
  bool checkpoint = false;  ///< checkpoint now, whatever the round
};

enum class Outcome {
  kComplete,  ///< nothing is left to do up to the phase asked for
  kStopped,   ///< somebody asked; the state is in a checkpoint
};

/// Receives what happens; implemented by whoever stores or prints it.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;
  /// After each round, on every rank: signals, time limits. Agreed on in the round's own exchange.
  virtual RoundRequest request() { return {}; }
  /// After each round of each cluster, in cluster order. Rank 0 only.
  virtual void on_round(const RoundReport& report) = 0;
  /// Progress: `done` of `total` rounds over both phases. Rank 0 only.
  virtual void on_progress(int done, int total) = 0;
  /// Every checkpoint_every rounds and at each phase's end, with the state complete. All ranks.
  virtual void on_checkpoint(const TrainingState& state) = 0;
};

/// Rounds of both phases in the order they are run. Replicated control flow: every rank computes
/// the same plan from (seed, cluster, round); only tensors travel.
class Trainer {
 public:
  /// Collective: splits the world into teams.
  /// @param groups  one per cluster; none empty
  Trainer(comm::World& world, const data::Partition& partition, objective::ObjectiveSet& objectives,
          TrainingOptions options, std::vector<TrainingGroup> groups);

  /// Continues from `state` (equal on all ranks) instead of the initial adapter.
  void restore(TrainingState state);

  /// Runs what is left of both phases, or of Phase I alone. Collective over the world.
  ///
  /// At checkpoints the teams are formed anew from the measured seconds per cluster where that
  /// shortens the slowest team's round by a tenth; results do not depend on it.
  Outcome run(RoundObserver& observer, Phase last = Phase::kTwo);

  [[nodiscard]] const TrainingState& state() const { return state_; }
  /// Phase I rounds that Phase II (or the evaluation) starts from.
  [[nodiscard]] const std::vector<int>& start_rounds() const { return start_rounds_; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  /// Final parameters of one variant, [b][P of the scheme].
  [[nodiscard]] const std::vector<std::vector<float>>& final_parameters(int variant) const;
  /// The adapter, [P], that a client is given by cluster `cluster`, adaptation aside.
  [[nodiscard]] std::vector<float> personal(const data::Client& client, int variant,
                                            int cluster) const;
  [[nodiscard]] int total_rounds() const;

 private:
  struct Round {  // what is done in one round of all clusters
    Phase phase;
    int start_round;
    int round;
    int clients_per_round;
    double learning_rate;
  };

  [[nodiscard]] RoundPlan plan_of(const Round& round, int cluster) const;
  [[nodiscard]] RoundResources resources();
  [[nodiscard]] RoundReport run_meta_round(const RoundPlan& plan, std::vector<float>& parameters);
  void remember_modes(const RoundReport& report);
  [[nodiscard]] RoundRequest run_all_clusters(const Round& round,
                                              std::vector<std::vector<float>>& parameters,
                                              RoundObserver& observer);
  /// Checkpoint where one is due or asked for; true: leave run().
  [[nodiscard]] bool end_round(const RoundRequest& request, int round, bool last_of_phase,
                               std::vector<std::vector<float>>& parameters,
                               RoundObserver& observer);
  void rebalance();
  void synchronise(std::vector<std::vector<float>>& parameters);
  void synchronise_memory();
  void begin_variant();

  comm::World& world_;
  const data::Partition& partition_;
  objective::ObjectiveSet& objectives_;
  TrainingOptions options_;
  std::vector<TrainingGroup> groups_;
  std::vector<std::uint64_t> group_keys_;
  std::vector<int> start_rounds_;
  Placement placement_;
  comm::ClusterCommunicator team_;
  std::unique_ptr<direction::DirectionSolver> solver_;
  std::unique_ptr<RoundScheme> scheme_;
  FiniteGuard guard_;
  std::vector<double> cost_;  ///< [b] rank-seconds of the clients since the last checkpoint
  TrainingState state_;
};

/// Names a cluster by its members, so that its random draws do not depend on its number or on the
/// other clusters.
[[nodiscard]] std::uint64_t group_key(const TrainingGroup& group);

}  // namespace apo::federation
