#pragma once

/// @file
/// Clients of an analytic problem: T-I of algorithms.md section 7. Client i's losses are
/// l_i(w) = l(w - delta_i), so its Pareto points are the problem's, shifted by delta_i, and
/// gradient differences between clients are exactly known on T-D. No torch.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/data/partition.hpp"
#include "apo/objective/analytic_problem.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::objective {

/// Everything that is drawn once: a pure function of (options, preferences spec, seed).
///
/// Client i's numbers depend on (seed, i) alone. Train clients hold pairs_per_objective pairs of
/// each objective in `train`, test clients as many in `adapt` and again in `evaluate`.
struct AnalyticTask {
  std::shared_ptr<const AnalyticProblem> problem;
  AnalyticOptions options;
  data::Partition partition;               ///< train clients, then test clients; pairs are numbers
  std::vector<std::string> objectives;     ///< names, [m]: objective_1, ...
  std::vector<std::vector<double>> shift;  ///< delta_i, [N][P]
  std::uint64_t seed = 0;
  /// [N] where every client has data of its own (dpo_linear), else empty: all have `problem`.
  std::vector<std::shared_ptr<const AnalyticProblem>> own_problem;

  /// Whose losses the client has, before its shift.
  [[nodiscard]] const AnalyticProblem& problem_of(ClientId client) const;
  /// psi*, the point and its losses for one client, without pair_jitter. With data of its own: of
  /// its `train` pairs, or a test client's `evaluate` pairs. @param preference  [m]
  [[nodiscard]] ParetoPoint optimum(ClientId client, std::span<const double> preference) const;
  /// max over pairs of `members` of the distance of their shifts: delta_g exactly on T-D.
  [[nodiscard]] double shift_diameter(std::span<const ClientId> members) const;
};

/// @param preferences  as data.preferences (data::make_preferences)
/// @throws Error(kConfig)  as make_analytic_problem(), and for a preferences spec that cannot be
///                         read
[[nodiscard]] AnalyticTask make_analytic_task(const AnalyticOptions& options,
                                              const std::string& preferences, std::uint64_t seed);

/// The clients' losses as an ObjectiveSet over float32 parameters; computed in float64.
///
/// A "pair" is one observation of an objective: with pair_jitter > 0 each has its own small shift
/// and a batch's loss is the mean over its pairs; otherwise all are equal (dpo_linear: they are its
/// data). evaluate() with empty parameters takes the problem's start for the task's seed. accuracy
/// is NaN. chebyshev_optimum() is AnalyticTask::optimum()'s, so the jitter, which lifts the mean of
/// convex losses by about half the Hessian's trace times pair_jitter^2, is not in it.
/// @param task  must outlive the result
[[nodiscard]] std::unique_ptr<ObjectiveSet> make_analytic_objectives(const AnalyticTask& task);

}  // namespace apo::objective
