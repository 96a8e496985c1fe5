#pragma once

/// @file
/// Inside the room: what the comparison methods share, and their factories.

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "baseline_client.hpp"

#include "apo/federation/round_scheme.hpp"

namespace apo::federation {

/// A sum over the participants of a round that is put together from this rank's clients. Each of
/// them is one term of sum_over_team(), so that the sum does not depend on the ranks.
class TeamSum {
 public:
  /// @param parts  numbers of the sum in parts of like size, equal on all ranks: all numbers of a
  ///               part may be rounded to the precision of its largest
  explicit TeamSum(const std::vector<std::size_t>& parts);

  /// Starts the term of the next client.
  void begin_client() { terms_.emplace_back(); }
  /// Adds weight * values to [offset, offset + values.size()) of the client's term. The values are
  /// read by reduce(), so they have to stay.
  void add(std::size_t offset, double weight, std::span<const float> values);
  void add(std::size_t offset, std::vector<double> values);

  /// Collective. Adds seconds and bytes to the report, whose participants are known.
  [[nodiscard]] std::vector<double> reduce(const RoundResources& resources, RoundReport& report);

 private:
  struct Piece {
    std::size_t offset = 0;
    double weight = 1.0;
    std::span<const float> values;
    std::vector<double> numbers;  ///< instead of values, weight 1
  };
  void add_piece(Piece piece);
  void add_slice(std::size_t term, std::size_t begin, std::span<double> slice) const;

  std::size_t size_ = 0;
  std::vector<std::size_t> cuts_;
  std::vector<std::vector<Piece>> terms_;
};

/// What one rank's participants leave behind in a round.
struct LocalWork {
  std::vector<int> clients;                ///< ids whose numbers are finite, ascending
  std::vector<std::vector<float>> deltas;  ///< one per client, or several in a row
  std::vector<StepRecord> records;         ///< also of the failed ones
  double seconds = 0.0;

  /// Takes the records of a run that is over, and its delta where it is finite.
  /// @return whether it is
  bool take(LocalRun& run);
};

/// Runs `work` on this rank, adds the time it takes, and agrees with the team that nobody threw.
void run_timed(comm::ClusterCommunicator& team, double& seconds, const std::function<void()>& work);

/// Inner products of the m rows of an [m, P] matrix, [m, m].
[[nodiscard]] std::vector<double> gram_of(std::span<const double> rows, std::size_t m);

/// Base of the comparison methods: one model of P numbers, FedAvg-like rounds.
class BaselineScheme : public RoundScheme {
 public:
  explicit BaselineScheme(RoundResources resources) : resources_(std::move(resources)) {}

  [[nodiscard]] std::int64_t num_parameters() const override { return model_size(); }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t cluster_key) const override;

 protected:
  [[nodiscard]] const RoundResources& resources() const { return resources_; }
  [[nodiscard]] int num_objectives() const { return resources_.objectives.num_objectives(); }
  [[nodiscard]] std::int64_t model_size() const { return resources_.objectives.num_parameters(); }
  [[nodiscard]] int local_steps() const { return resources_.phase1.local_steps; }

  /// This rank's participants, ascending.
  [[nodiscard]] std::vector<const data::Client*> my_clients(const RoundPlan& plan) const;

  /// Collective: gathers the records, counts the failed and fills what the report says of clients.
  /// mean_loss is over the first step of each of a client's runs.
  /// @return ids of the failed participants, on every rank
  std::set<int> close_clients(const LocalWork& work, RoundReport& report) const;

  /// N_i, or 1 with phase1.aggregation = uniform.
  [[nodiscard]] double mass_of(double num_pairs) const;

  /// parameters += server_learning_rate * sum / mass; nothing where the mass is 0.
  void server_step(std::span<const double> sum, double mass, std::span<float> parameters) const;

 private:
  RoundResources resources_;
};

/// Every client trains m times, once on each of its objectives alone: fsmgda and rewarded_soup.
/// deltas holds m per client, empty where it lacks the objective.
/// @param start_of  where all clients start for an objective, [P]
void train_per_objective(
    const LocalSetting& setting, const std::vector<const data::Client*>& clients,
    const std::function<std::span<const float>(std::size_t objective)>& start_of, LocalWork& work);

[[nodiscard]] std::unique_ptr<RoundScheme> make_fedcmoo(const std::string& name,
                                                        RoundResources resources);
[[nodiscard]] std::unique_ptr<RoundScheme> make_fsmgda(RoundResources resources);
[[nodiscard]] std::unique_ptr<RoundScheme> make_fedmgda_plus(RoundResources resources);
[[nodiscard]] std::unique_ptr<RoundScheme> make_ifca(RoundResources resources);
[[nodiscard]] std::unique_ptr<RoundScheme> make_rewarded_soup(RoundResources resources);

}  // namespace apo::federation
