#pragma once

/// @file
/// The theory quantities of one round (spec algorithms.md, section 5): one sum of the direction and
/// O(m^2) scalars per client. The formulas themselves, free of any communicator, are in
/// theory_conditions.hpp.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/table.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/options.hpp"
#include "apo/federation/round_scheme.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::federation {

/// Empty tables with all their columns and units.
[[nodiscard]] Table theory_round_table(int num_objectives);
[[nodiscard]] Table theory_client_table(int num_objectives);
[[nodiscard]] Table theory_pair_table(int num_objectives);

/// One client at the common point w.
struct TheoryClient {
  int client = 0;
  double num_pairs = 0.0;          ///< N_i, or 1 with uniform aggregation; rho_i is its share
  std::vector<double> loss;        ///< l, [m]; all objectives present
  std::vector<double> preference;  ///< lambda, [m]
  std::vector<double> gram;        ///< [m, m]
  direction::Direction direction;
  std::vector<float> gradients;  ///< G, [m, P] row-major
  /// psi*, as ObjectiveSet::chebyshev_optimum(); NaN: not known
  double chebyshev_optimum = std::numeric_limits<double>::quiet_NaN();
  /// ||theta - w|| after the client's local steps, for the client drift; NaN: not known
  double update_norm = std::numeric_limits<double>::quiet_NaN();
};

/// What a round's quantities rest on beside the clients.
struct TheorySetting {
  int cluster = 0;
  int start_round = 0;
  int round = 0;
  bool audit = false;          ///< all members at w on all their pairs, not the participants only
  double learning_rate = 0.0;  ///< eta
  int local_steps = 1;         ///< tau
  double smoothness = 0.0;     ///< L_0 as in MonitorOptions, after the task's own; NaN: observe
  double firm_beta = 0.0;      ///< > 0: the solver is firm, lemma 8 (T13) is evaluated
  std::string firm_preference = "none";
  std::string gram_normalisation = "none";  ///< of the solver, as in DirectionOptions
};

/// Quantities of the participants of a normal round, whose sums travel in the round's own
/// reduction: the caller reduces [update, terms of this] in one go.
class TheoryMonitor {
 public:
  /// @param num_parameters  P
  TheoryMonitor(TheorySetting setting, int num_objectives, std::int64_t num_parameters);

  /// This rank's clients, ascending. Clients with missing objectives are left out (counted).
  /// @return the client's number among those of this rank, from 0, for add_client_terms()
  std::size_t add(TheoryClient client);
  /// Sum of N_i over the team's monitored clients; before terms are added.
  void set_total_pairs(double total);
  [[nodiscard]] double local_pairs() const;
  /// ||sum_i rho_i (theta_i - w)|| of the round's own sum, for the client drift; before finish().
  void set_update_norm(double norm) { update_norm_ = norm; }

  /// Numbers that are appended to the round's sum.
  [[nodiscard]] std::size_t num_terms() const;
  /// Where numbers of another size begin among the num_terms(): cuts of the sum.
  [[nodiscard]] std::vector<std::size_t> cuts() const;
  /// Adds one client's terms [begin, begin + slice.size()) of num_terms().
  /// @param index  as add() returned it
  void add_client_terms(std::size_t index, std::size_t begin, std::span<double> slice) const;

  /// Collective over the team. @param sum  the reduced terms, [num_terms()]
  /// Fills theory_round, theory_clients and theory_pairs of the report, on every rank.
  void finish(comm::ClusterCommunicator& team, std::span<const double> sum, RoundReport& report);

 private:
  TheorySetting setting_;
  int m_;
  std::int64_t p_;
  double total_pairs_ = 0.0;
  double update_norm_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<TheoryClient> clients_;
  std::vector<std::optional<std::size_t>> places_;  ///< in clients_, of all added; none: left out
};

/// An audit: all members of the cluster at w, on all their pairs, without dropout; also the losses
/// after the step w - eta d_bar (T1, T6, T7, T11), delta_g by its sandwich (section 5.4), and the
/// observed smoothness. Collective over the team; fills the report's theory tables.
void audit(const RoundPlan& plan, const RoundResources& resources, const TheorySetting& setting,
           std::span<const float> parameters, RoundReport& report);

}  // namespace apo::federation
