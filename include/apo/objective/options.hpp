#pragma once

/// @file
/// [dpo] and [task] analytic.* of the configuration.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::objective {

struct DpoOptions {
  std::string loss = "dpo";  ///< dpo | ipo | sft, see preference_objectives.hpp
  double beta = 0.1;
  bool average_log_probs = false;
  double nll_weight = 0.0;
};

/// An analytic task (spec algorithms.md, section 7).
struct AnalyticOptions {
  /// epo2 | epo3 | quadratic | simplex | anisotropic | linear_front | concave_front | convex_front
  /// | flat_stationary | v_shape | dpo_linear | consensus
  std::string problem = "simplex";
  int num_objectives = 3;
  int dimension = 8;
  double offset = 0.1;  ///< b: losses stay above it, away from the trap of section 1.5
  double radius = 1.0;  ///< distance of the centres from the origin; length of T-H's mean z
  std::vector<double> curvature;  ///< s_j of T-C and T-K, [m]; empty: all 1
  std::vector<double> offsets;    ///< b_j of T-C and T-E, [m]; empty: all `offset`
  double condition = 10.0;        ///< largest over smallest eigenvalue of T-E's matrices
  double dpo_beta = 1.0;          ///< beta_D of T-H
  double ridge = 0.01;            ///< eps of T-H: 1/2 eps ||w||^2 is added to each loss
  int clients = 100;              ///< training clients
  int test_clients = 20;
  int pairs_per_objective = 10;
  double shift = 0.0;        ///< standard deviation of delta_i per coordinate (T-I)
  double pair_jitter = 0.0;  ///< standard deviation of one pair's own shift per coordinate
};

void declare(FieldTable& table, DpoOptions& options);
void declare(FieldTable& table, AnalyticOptions& options);

}  // namespace apo::objective
