#pragma once

/// @file
/// One round of one cluster under one method: who computes what, what is summed, how the server
/// steps. The Trainer drives schemes; what differs between federated methods lives in them.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/exact_sum.hpp"
#include "apo/data/partition.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/options.hpp"
#include "apo/federation/records.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::federation {

/// What is known of a round before anything is computed; equal on all ranks of the team.
struct RoundPlan {
  Phase phase = Phase::kOne;
  int start_round = 0;
  int round = 0;  ///< 0-based
  int cluster = 0;
  std::uint64_t cluster_key = 0;  ///< names the cluster by its members: a in StreamKey
  std::uint64_t round_key = 0;    ///< unique per (phase, start_round, round): b in StreamKey
  double learning_rate = 0.0;
  std::vector<int> participants;  ///< client ids, ascending
  std::vector<int> members;       ///< all clients of the cluster, ascending
  /// Whether each participant's last step was uniform; parallel to participants, or empty.
  std::vector<std::int8_t> was_uniform;
};

/// What a scheme works with; references outlive it.
struct RoundResources {
  const data::Partition& partition;
  objective::ObjectiveSet& objectives;
  direction::DirectionSolver& solver;
  comm::ClusterCommunicator& team;
  Phase1Options phase1;
  BaselineOptions baseline;
  direction::DirectionOptions direction;
  MonitorOptions monitor;
  std::uint64_t seed = 0;
  bool reproducible = true;
};

class RoundScheme {
 public:
  virtual ~RoundScheme() = default;

  /// Numbers that a cluster trains: P, or several models one after the other.
  [[nodiscard]] virtual std::int64_t num_parameters() const = 0;
  /// @param cluster_key  as in RoundPlan
  [[nodiscard]] virtual std::vector<float> initial_parameters(std::uint64_t cluster_key) const = 0;

  /// One round. Collective over the team; every rank ends with equal parameters and memory. A
  /// client whose numbers are not finite is left out and counted (algorithms.md 1.6).
  ///
  /// @param[in,out] parameters  [num_parameters()]
  /// @param[in,out] memory      what the scheme keeps between rounds; empty in the first one. Part
  ///                            of the checkpoint
  /// @return complete on every rank of the team
  [[nodiscard]] virtual RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                        std::vector<double>& memory) = 0;

  /// The adapter, [P], that a client of the cluster is given, adaptation aside.
  [[nodiscard]] virtual std::vector<float> personal(const data::Client& client,
                                                    std::span<const float> parameters);
};

/// Phase I of APO, FedAvg and FIRM: every participant takes local steps along its own direction,
/// the deltas are averaged (algorithms.md 1.8, 3.1).
[[nodiscard]] std::unique_ptr<RoundScheme> make_local_steps_scheme(RoundResources resources);

/// Comparison methods by name: server_mgda | fedcmoo | fedcmoo_pref | fsmgda | fedmgda_plus | ifca
/// | rewarded_soup (algorithms.md 2.7, 3.6 and 6).
/// @throws Error(kInternal)  an unknown name
[[nodiscard]] std::unique_ptr<RoundScheme> make_baseline_scheme(const std::string& name,
                                                                RoundResources resources);

/// Sum over the clients of a team. Each term is one client's contribution, so that nothing depends
/// on which rank holds it. Reproducible: exact_sum(), bit-identical for any number of ranks and any
/// placement. Otherwise every rank adds its terms up and the ranks' sums, in float32, are reduced
/// in floating point. One all-reduce of the sum's numbers either way. Collective; see exact_sum()
/// for the parameters.
///
/// @param[out] sum   overwritten
/// @param num_terms  of this rank
/// @param max_terms  bound on the terms of all ranks together, equal on all ranks
/// @param add        adds one of this rank's terms to sum[begin, begin + slice.size())
/// @param cuts       ascending positions between numbers of very different size
/// @throws Error  on all ranks what `add` threw on one
void sum_over_team(comm::ClusterCommunicator& team, bool reproducible, std::span<double> sum,
                   std::size_t num_terms, std::size_t max_terms, const comm::AddTerm& add,
                   std::span<const std::size_t> cuts = {});

/// What sum_over_team() sends for a sum of `size` numbers, small messages aside.
[[nodiscard]] std::int64_t bytes_of_sum(std::size_t size, bool reproducible);

/// Fills seconds_clients and imbalance from every rank's time for its clients. Collective.
void share_seconds(comm::ClusterCommunicator& team, double seconds, RoundReport& report);

/// Records of all ranks, in rank order, on every rank.
[[nodiscard]] std::vector<StepRecord> gather_steps(comm::ClusterCommunicator& team,
                                                   const std::vector<StepRecord>& steps);

/// Mean loss per objective over the first step of every client, weighted by the number of pairs;
/// NaN where no client has the objective.
[[nodiscard]] std::vector<double> weighted_mean_loss(const std::vector<StepRecord>& steps,
                                                     const data::Partition& partition);

/// A report with the plan's names filled in.
[[nodiscard]] RoundReport begin_report(const RoundPlan& plan);

inline constexpr std::uint64_t kStepsPerRound = 1U << 20;  ///< room for local steps in a step key

}  // namespace apo::federation
