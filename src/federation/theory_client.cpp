#include "theory_client.hpp"

#include <algorithm>
#include <cmath>

#include "theory_algebra.hpp"

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::federation {

bool is_uniform_block(direction::Mode mode) {
  return mode == direction::Mode::kUniform || mode == direction::Mode::kStationary;
}

Deviation deviation_from_products(double aggregate_norm, std::span<const double> product,
                                  std::span<const double> weight, std::span<const double> gram) {
  const double own = theory::quadratic_form(gram, weight);
  const double aggregate = aggregate_norm * aggregate_norm;
  const double squared = aggregate - 2.0 * theory::dot(weight, product) + own;
  return {std::sqrt(std::max(0.0, squared)), squared < 1e-6 * (aggregate + own)};
}

namespace theory {
namespace {

double min_of(std::span<const double> values) {
  return *std::min_element(values.begin(), values.end());
}

double max_of(std::span<const double> values) {
  return *std::max_element(values.begin(), values.end());
}

double chebyshev(std::span<const double> loss, std::span<const double> preference) {
  double psi = 0.0;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    psi = std::max(psi, preference[j] * loss[j]);
  }
  return psi;
}

/// Objectives with lambda_j l_j >= psi - width.
std::vector<std::size_t> near_active_set(const ClientTerms& terms, double psi, double width) {
  std::vector<std::size_t> set;
  for (std::size_t j = 0; j < terms.loss.size(); ++j) {
    if (terms.preference[j] * terms.loss[j] >= psi - width) {
      set.push_back(j);
    }
  }
  return set;
}

/// min over v in conv{lambda_j g_j : j in set} of ||v||; NaN beyond the solver's size.
double hull_norm(const ClientTerms& terms, const std::vector<std::size_t>& set) {
  const std::size_t k = set.size();
  const std::size_t m = terms.loss.size();
  if (k > static_cast<std::size_t>(direction::kMaxMinNormObjectives)) {
    return kUndefined;
  }
  std::vector<double> gram(k * k);
  for (std::size_t a = 0; a < k; ++a) {
    for (std::size_t b = 0; b < k; ++b) {
      gram[a * k + b] =
          terms.preference[set[a]] * terms.preference[set[b]] * terms.gram[set[a] * m + set[b]];
    }
  }
  const std::vector<double> alpha = direction::min_norm_point(gram, static_cast<int>(k));
  return std::sqrt(quadratic_form(gram, alpha));
}

void judge_near_active(const ClientTerms& terms, const SharedTerms& shared, double bound,
                       std::span<const double> own_product, ClientConditions& row) {
  const double width = 2.0 * shared.learning_rate * max_of(terms.preference) * bound * bound;
  const std::vector<std::size_t> set = near_active_set(terms, row.chebyshev, width);
  row.near_active = static_cast<int>(set.size());
  row.descent_margin = std::numeric_limits<double>::infinity();
  row.shared_descent = std::numeric_limits<double>::infinity();
  for (const std::size_t j : set) {
    row.descent_margin = std::min(row.descent_margin, terms.preference[j] * own_product[j]);
    row.shared_descent = std::min(row.shared_descent, terms.preference[j] * terms.product[j]);
  }
  row.near_active_norm = hull_norm(terms, set);
  const double squared = row.near_active_norm * row.near_active_norm;
  row.comparability = squared > 0.0 ? row.descent_margin / squared : kUndefined;
  row.near_active_pl = row.gap > 0.0 ? squared / (2.0 * row.gap) : kUndefined;
}

/// Premise of (48): d'g_j >= -||d_bal|| B for every j, and where it fails.
void judge_sacrifice(const ClientTerms& terms, double bound, std::span<const double> own_product,
                     ClientConditions& row) {
  const std::vector<double> aligned = times(terms.gram, row.adjustment);
  row.sacrifice_slack = min_of(own_product) + row.balancing_norm * bound;
  for (std::size_t j = 0; j < terms.loss.size(); ++j) {
    const double scale = row.balancing_norm * bound;
    if (own_product[j] + scale >= -1e-9 * scale) {
      continue;
    }
    const bool bottleneck = terms.preference[j] * terms.loss[j] >= (1.0 - 1e-9) * row.chebyshev;
    (aligned[j] > 0.0 && !bottleneck ? row.sacrifice_free : row.sacrifice_bound) += 1;
  }
}

void judge_after_step(const ClientTerms& terms, const SharedTerms& shared,
                      const RoundConstants& constants, ClientConditions& row) {
  if (terms.loss_after.empty()) {
    return;
  }
  const double eta = shared.learning_rate;
  const double bound = std::max(constants.gradient_bound, shared.norm_taken);
  const double lambda_max = max_of(terms.preference);
  const double curvature = 0.5 * constants.smoothness * bound * bound * eta * eta;
  const double rounding = shared.loss_tolerance * (max_of(terms.loss) + max_of(terms.loss_after));
  row.t6_loss_slack = std::numeric_limits<double>::infinity();
  double taken_descent = std::numeric_limits<double>::infinity();
  double step_rounding = 0.0;  // (62) is about dbar itself, not about the step as taken
  const double width = 2.0 * eta * lambda_max * bound * bound;
  for (std::size_t j = 0; j < terms.loss.size(); ++j) {
    row.t6_loss_slack = std::min(row.t6_loss_slack, terms.loss[j] - eta * terms.product_taken[j] +
                                                        curvature - terms.loss_after[j]);
    step_rounding =
        std::max(step_rounding,
                 eta * terms.preference[j] * std::abs(terms.product_taken[j] - terms.product[j]));
    if (terms.preference[j] * terms.loss[j] >= row.chebyshev - width) {
      taken_descent = std::min(taken_descent, terms.preference[j] * terms.product_taken[j]);
    }
  }
  row.t6_chebyshev_slack =
      row.chebyshev - eta * taken_descent + lambda_max * curvature - row.chebyshev_after;
  row.t7_slack = row.chebyshev - eta * row.descent_margin +
                 eta * lambda_max * constants.gradient_bound * row.deviation +
                 lambda_max * curvature - row.chebyshev_after;
  if (std::isnan(constants.smoothness)) {
    row.t6_loss_slack = row.t6_chebyshev_slack = row.t7_slack = kUndefined;
  }
  row.t6 = flag_of_slack(std::min(row.t6_loss_slack, row.t6_chebyshev_slack), rounding);
  row.t7 = flag_of_slack(row.t7_slack, rounding + step_rounding);
}

/// T1, T2 and T4: what (23) says of a client whose losses are to be balanced.
void judge_balancing(const ClientTerms& terms, const SharedTerms& shared,
                     const RoundConstants& constants, ClientConditions& row) {
  const double bound = constants.gradient_bound;
  const double reach = shared.local_steps * shared.learning_rate;  // tau eta
  const double drift = bound * bound * reach;
  row.deviation_split = 0.0;
  if (constants.uniform_mass > 0.0) {
    row.deviation_split += constants.uniform_mass * terms.deviation_uniform;
  }
  if (constants.balancing_mass > 0.0) {
    row.deviation_split += constants.balancing_mass * terms.deviation_balancing;
  }
  const double rest = row.margin - row.deviation * row.balancing_norm;
  row.t2_slack = rest - constants.smoothness * drift;
  row.t4_slack =
      row.margin - row.deviation_split * row.balancing_norm - constants.smoothness * drift;
  if (!std::isnan(constants.smoothness)) {
    row.balancing_smoothness = balancing_smoothness(terms.loss, terms.preference,
                                                    constants.smoothness, bound, reach * bound);
    row.t2_sound_slack = rest - row.balancing_smoothness * drift;
  }
  if (is_uniform_block(terms.direction.mode)) {
    return;  // beta = 0 up to the tolerance: there is nothing to balance
  }
  row.t1_first_order = flag(row.balancing_product > 0.0);
  if (!terms.loss_after.empty()) {
    row.t1_observed = flag(row.uniformity_after <= row.uniformity + shared.loss_tolerance);
  }
  const auto strictly = [](double slack) {
    return std::isnan(slack) ? kNotApplicable : flag(slack > 0.0);
  };
  row.t2 = strictly(row.t2_slack);
  row.t2_sound = strictly(row.t2_sound_slack);
  row.t4 = strictly(row.t4_slack);
}

}  // namespace

int flag_of_slack(double slack, double tolerance) {
  return std::isnan(slack) ? kNotApplicable : flag(slack >= -tolerance);
}

ClientConditions local_quantities(const ClientTerms& terms, const SharedTerms& shared) {
  const std::size_t m = terms.loss.size();
  const auto is = [m](std::span<const double> values) { return values.size() == m; };
  expects(m > 0 && is(terms.preference) && is(terms.direction.weight) && is(terms.direction.mu) &&
              is(terms.direction.adjustment) && is(terms.product) && terms.gram.size() == m * m &&
              (terms.loss_after.empty() || (is(terms.loss_after) && is(terms.product_taken))),
          "theory conditions: the sizes of client " + std::to_string(terms.client) + " disagree");
  ClientConditions row;
  row.client = terms.client;
  row.rho = terms.rho;
  row.mode = static_cast<int>(terms.direction.mode);
  row.loss = terms.loss;
  row.mu = terms.direction.mu;
  row.adjustment = terms.direction.adjustment;
  row.product = terms.product;
  row.uniformity = terms.direction.uniformity;
  row.chebyshev = chebyshev(terms.loss, terms.preference);
  row.chebyshev_optimum = terms.chebyshev_optimum;
  row.gap = row.chebyshev - terms.chebyshev_optimum;
  row.direction_norm = std::sqrt(quadratic_form(terms.gram, terms.direction.weight));
  row.balancing_norm = std::sqrt(quadratic_form(terms.gram, row.adjustment));
  row.margin = dot(row.adjustment, times(terms.gram, terms.direction.weight));
  row.deviation = terms.deviation;
  row.recomputed = terms.recomputed;
  row.balancing_product = dot(row.adjustment, terms.product);
  row.loss_after.assign(m, kUndefined);
  if (!terms.loss_after.empty()) {
    row.loss_after = terms.loss_after;
    row.chebyshev_after = chebyshev(terms.loss_after, terms.preference);
    row.uniformity_after = balance(terms.loss_after, terms.preference).uniformity;
    const double step = shared.learning_rate * shared.norm_taken;
    for (std::size_t j = 0; j < m && step > 0.0; ++j) {
      const double bend =
          terms.loss_after[j] - terms.loss[j] + shared.learning_rate * terms.product_taken[j];
      row.smoothness_observed =
          larger(row.smoothness_observed, std::max(0.0, 2.0 * bend / (step * step)));
    }
  }
  if (!terms.gradient_residual.empty()) {
    row.gradient_residual = max_of(terms.gradient_residual);
  }
  row.kappa_lp = terms.direction.kappa_lp;
  row.basis_id = terms.direction.basis_id;
  return row;
}

void judge_client(const ClientTerms& terms, const SharedTerms& shared,
                  const RoundConstants& constants, ClientConditions& row) {
  const std::vector<double> own_product = times(terms.gram, terms.direction.weight);
  judge_balancing(terms, shared, constants, row);
  judge_sacrifice(terms, constants.gradient_bound, own_product, row);
  judge_near_active(terms, shared, constants.gradient_bound, own_product, row);
  const double ascent = constants.gradient_bound * constants.dissimilarity_high;
  row.t5_uniform_slack = min_of(terms.product) + ascent;
  row.t5_mixed_slack = row.t5_uniform_slack + constants.balancing_mass * constants.gradient_bound *
                                                  constants.mean_balancing_norm;
  judge_after_step(terms, shared, constants, row);
}

}  // namespace theory
}  // namespace apo::federation
