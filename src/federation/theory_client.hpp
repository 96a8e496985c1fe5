#pragma once

/// @file
/// Inside the room: the conditions of one client, given the constants of the round.

#include "apo/federation/theory_conditions.hpp"

namespace apo::federation::theory {

/// Constants of a round that are known before any condition is evaluated.
struct RoundConstants {
  double gradient_bound = 0.0;             ///< B
  double smoothness = kUndefined;          ///< L_0; NaN: not known
  double uniform_mass = 0.0;               ///< rho0
  double balancing_mass = 0.0;             ///< rho+
  double mean_balancing_norm = 0.0;        ///< D+
  double dissimilarity_high = kUndefined;  ///< delta_g is at most this
  bool lp_modes = false;                   ///< every client's direction is an LP's
  bool all_uniform = false;
};

/// What the client's own numbers say: sections 5.1 and 5.2, losses after the step.
[[nodiscard]] ClientConditions local_quantities(const ClientTerms& terms,
                                                const SharedTerms& shared);

/// T1, T2, T4 to T7 of one client.
void judge_client(const ClientTerms& terms, const SharedTerms& shared,
                  const RoundConstants& constants, ClientConditions& row);

[[nodiscard]] inline int flag(bool holds) { return holds ? 1 : 0; }
/// 1 when the slack is at least -tolerance; -1 when it is not defined.
[[nodiscard]] int flag_of_slack(double slack, double tolerance);

}  // namespace apo::federation::theory
