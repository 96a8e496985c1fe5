/// @file
/// The conditions of all clients of one round together (algorithms.md 5.2, 5.3 and 3.5).

#include <algorithm>
#include <cmath>
#include <map>

#include "theory_algebra.hpp"
#include "theory_client.hpp"

#include "apo/core/error.hpp"
#include "apo/federation/theory_conditions.hpp"

namespace apo::federation {
namespace {

using theory::flag;
using theory::larger;
using theory::smaller;

constexpr double kCommonGradients = 1e-6;  // float32 gradients of the same pairs
constexpr double kCommonLosses = 1e-9;

void add_scaled(std::vector<double>& sum, double factor, std::span<const double> x) {
  sum.resize(x.size(), 0.0);
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum[j] += factor * x[j];
  }
}

/// Sums over the clients that need no constants.
void summarise(std::span<const ClientTerms> clients, const SharedTerms& shared,
               RoundConditions& round) {
  round.num_clients = static_cast<int>(clients.size());
  round.aggregate_norm = shared.norm;
  round.dispersion = 0.0;
  round.mean_uniformity = 0.0;
  round.mean_chebyshev = 0.0;
  round.mean_balancing_norm = 0.0;
  double squared_norms = 0.0;
  std::vector<double> mean_weight;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const ClientTerms& terms = clients[i];
    const ClientConditions& row = round.clients[i];
    const bool uniform = is_uniform_block(terms.direction.mode);
    round.num_stationary += terms.direction.mode == direction::Mode::kStationary ? 1 : 0;
    round.num_uniform += terms.direction.mode == direction::Mode::kUniform ? 1 : 0;
    round.num_balancing += uniform ? 0 : 1;
    round.balancing_mass += uniform ? 0.0 : terms.rho;
    round.mean_balancing_norm += uniform ? 0.0 : terms.rho * row.balancing_norm;
    round.dispersion += terms.rho * row.deviation * row.deviation;
    squared_norms += terms.rho * row.direction_norm * row.direction_norm;
    round.max_deviation = larger(round.max_deviation, row.deviation);
    round.num_recomputed += terms.recomputed;
    round.mean_uniformity += terms.rho * row.uniformity;
    round.mean_chebyshev += row.chebyshev / round.num_clients;
    add_scaled(round.mean_adjustment, terms.rho, row.adjustment);
    add_scaled(round.mean_mu, terms.rho, row.mu);
    add_scaled(mean_weight, terms.rho, terms.direction.weight);
    round.min_rho = smaller(round.min_rho, terms.rho);
    round.min_margin = smaller(round.min_margin, row.margin);
    round.max_balancing_norm = larger(round.max_balancing_norm, row.balancing_norm);
    round.smoothness_observed = larger(round.smoothness_observed, row.smoothness_observed);
    for (std::size_t j = 0; j < terms.loss.size(); ++j) {
      const double squared = std::max(0.0, terms.gram[j * terms.loss.size() + j]);
      round.gradient_bound = larger(round.gradient_bound, std::sqrt(squared));
    }
  }
  // rho+ is 0 or 1 exactly when the other block is empty, whatever the sum's last bits are.
  round.balancing_mass = round.num_balancing == round.num_clients ? 1.0 : round.balancing_mass;
  round.mean_balancing_norm =
      round.balancing_mass > 0.0 ? round.mean_balancing_norm / round.balancing_mass : 0.0;
  round.dispersion_from_norms = squared_norms - shared.norm * shared.norm;
  round.dispersion_mismatch =
      squared_norms > 0.0 ? std::abs(round.dispersion - round.dispersion_from_norms) / squared_norms
                          : 0.0;

  round.adjustment_variance = 0.0;
  round.multiplier_variance = 0.0;
  round.dispersion_common = 0.0;
  round.disagreement_spread = 0.0;
  double updates = 0.0;
  for (const ClientTerms& terms : clients) {
    const double a = theory::distance(terms.direction.adjustment, round.mean_adjustment);
    const double mu = theory::distance(terms.direction.mu, round.mean_mu);
    const double spread =
        theory::quadratic_form(terms.gram, theory::minus(terms.direction.weight, mean_weight));
    round.adjustment_variance += terms.rho * a * a;
    round.multiplier_variance += terms.rho * mu * mu;
    round.dispersion_common += terms.rho * spread;
    round.disagreement_spread += terms.rho * std::sqrt(spread);
    updates += terms.rho * terms.update_norm * terms.update_norm;
  }
  round.client_drift = updates - shared.update_norm * shared.update_norm;
  if (round.client_drift < 0.0) {
    round.client_drift = 0.0;  // rounding
  }
}

bool near(std::span<const double> a, std::span<const double> b, double relative) {
  double scale = 0.0;
  double difference = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    scale = std::max({scale, std::abs(a[j]), std::abs(b[j])});
    difference = std::max(difference, std::abs(a[j] - b[j]));
  }
  return difference <= relative * scale;
}

/// Whether the clients look as if they had the same gradients: Assumption H.5.
bool have_common_gradients(std::span<const ClientTerms> clients) {
  return std::all_of(clients.begin(), clients.end(), [&](const ClientTerms& terms) {
    return near(terms.gram, clients.front().gram, kCommonGradients) &&
           near(terms.product, clients.front().product, kCommonGradients);
  });
}

bool have_common_losses(std::span<const ClientTerms> clients) {
  return std::all_of(clients.begin(), clients.end(), [&](const ClientTerms& terms) {
    return near(terms.loss, clients.front().loss, kCommonLosses);
  });
}

/// T3, and the counts of T2 against T1.
void judge_balancing(const SharedTerms& shared, RoundConditions& round) {
  const double drift =
      round.gradient_bound * round.gradient_bound * shared.local_steps * shared.learning_rate;
  round.t3_slack = round.min_margin -
                   std::sqrt(round.dispersion / round.min_rho) * round.max_balancing_norm -
                   round.smoothness * drift;
  round.t3 = std::isnan(round.t3_slack) ? kNotApplicable : flag(round.t3_slack > 0.0);
  const auto count = [](Confusion& table, int condition, int outcome) {
    if (condition != kNotApplicable && outcome != kNotApplicable) {
      ++table[static_cast<std::size_t>(2 * condition + outcome)];
    }
  };
  for (const ClientConditions& row : round.clients) {
    count(round.t2_first_order, row.t2, row.t1_first_order);
    count(round.t2_observed, row.t2, row.t1_observed);
    count(round.t2_sound_observed, row.t2_sound, row.t1_observed);
  }
}

/// T5 to T7: the worst client.
void judge_descent(const theory::RoundConstants& constants, RoundConditions& round) {
  const auto together = [](int all, int one) {
    return one == kNotApplicable ? all : (all == kNotApplicable ? one : std::min(all, one));
  };
  for (const ClientConditions& row : round.clients) {
    round.t5_uniform_slack = smaller(round.t5_uniform_slack, row.t5_uniform_slack);
    round.t5_mixed_slack = smaller(round.t5_mixed_slack, row.t5_mixed_slack);
    const bool balancing = row.mode == static_cast<int>(direction::Mode::kBalancing);
    round.num_sacrifice_free += balancing && row.sacrifice_free > 0 ? 1 : 0;
    round.num_sacrifice_bound += balancing && row.sacrifice_bound > 0 ? 1 : 0;
    round.t6_loss_slack = smaller(round.t6_loss_slack, row.t6_loss_slack);
    round.t6_chebyshev_slack = smaller(round.t6_chebyshev_slack, row.t6_chebyshev_slack);
    round.t6 = together(round.t6, row.t6);
    round.t7_slack = smaller(round.t7_slack, row.t7_slack);
    round.t7 = together(round.t7, row.t7);
  }
  const double rounding = 1e-9 * round.gradient_bound * round.gradient_bound;
  if (constants.all_uniform) {
    round.t5_uniform = theory::flag_of_slack(round.t5_uniform_slack, rounding);
  }
  if (constants.lp_modes) {
    round.t5_mixed = theory::flag_of_slack(round.t5_mixed_slack, rounding);
  }
}

/// T8: (10), where all clients share basis and index sets. Also the share of pairs that do.
void judge_bases(std::span<const ClientTerms> clients, RoundConditions& round) {
  std::map<std::uint64_t, double> count;
  for (const ClientTerms& terms : clients) {
    if (terms.direction.basis_id != 0) {
      count[terms.direction.basis_id] += 1.0;
    }
  }
  const double n = round.num_clients;
  if (round.num_clients > 1) {
    double pairs = 0.0;
    for (const auto& [id, size] : count) {
      pairs += size * (size - 1.0);
    }
    round.equal_basis_share = pairs / (n * (n - 1.0));
  }
  if (count.size() != 1 || count.begin()->second != n || round.num_clients < 2 ||
      round.common_gradients == 0) {
    return;
  }
  double kappa = 0.0;
  double sigma = 0.0;
  for (const ClientTerms& terms : clients) {
    kappa = std::max(kappa, terms.direction.kappa_lp);
    sigma = std::max(sigma, theory::largest_eigenvalue(terms.gram, terms.loss.size()));
  }
  const double bound = kappa * kappa * sigma * round.adjustment_variance;
  const double rounding = 1e-12 * round.gradient_bound * round.gradient_bound;
  if (!std::isnan(kappa)) {
    round.t8_ratio = bound > 0.0 ? round.dispersion / bound : 0.0;
    round.t8 = flag(round.dispersion <= bound * (1.0 + 1e-9) + rounding);
  }
}

/// T10: (54) with the constants of (49) that this round shows.
void judge_floor(const SharedTerms& shared, RoundConditions& round) {
  const auto counts = [](const ClientConditions& row) {
    return !is_uniform_block(static_cast<direction::Mode>(row.mode)) && row.margin > 0.0 &&
           row.uniformity > 0.0;
  };
  for (const ClientConditions& row : round.clients) {
    if (counts(row)) {
      round.margin_rate = smaller(round.margin_rate, row.margin / row.uniformity);
      round.balancing_rate =
          larger(round.balancing_rate, row.balancing_norm / std::sqrt(row.uniformity));
    }
  }
  for (ClientConditions& row : round.clients) {
    if (!counts(row) || row.t2 != 0) {
      continue;
    }
    const double floor =
        residual_floor(round.balancing_rate, round.margin_rate, row.deviation, round.smoothness,
                       round.gradient_bound, shared.local_steps, shared.learning_rate);
    row.t10_slack = floor - row.uniformity;
    row.t10 = theory::flag_of_slack(row.t10_slack, 1e-12 * floor);
    round.t10_slack = smaller(round.t10_slack, row.t10_slack);
    round.t10 = round.t10 == 0 ? 0 : row.t10;
  }
}

/// T11: (78) and (79) with each member as the new client. L* is bounded by psi* / lambda_min.
void judge_transfer(std::span<const ClientTerms> clients, RoundConditions& round) {
  std::vector<std::vector<double>> preferences;
  double largest_loss = 0.0;
  double mean_optimum = 0.0;
  double optimum_loss = 0.0;
  for (const ClientTerms& terms : clients) {
    preferences.push_back(terms.preference);
    largest_loss = std::max(largest_loss, *std::max_element(terms.loss.begin(), terms.loss.end()));
    mean_optimum += terms.chebyshev_optimum / round.num_clients;
    optimum_loss =
        larger(optimum_loss, terms.chebyshev_optimum / *std::min_element(terms.preference.begin(),
                                                                         terms.preference.end()));
  }
  round.preference_diameter = diameter(preferences);
  round.training_gap = round.mean_chebyshev - mean_optimum;
  round.mean_gap = round.training_gap;
  for (ClientConditions& row : round.clients) {
    row.t11_transfer_slack =
        round.mean_chebyshev + round.preference_diameter * largest_loss - row.chebyshev;
    row.t11_optimum_slack =
        round.training_gap + round.preference_diameter * (largest_loss + optimum_loss) - row.gap;
    round.t11_transfer_slack = smaller(round.t11_transfer_slack, row.t11_transfer_slack);
    round.t11_optimum_slack = smaller(round.t11_optimum_slack, row.t11_optimum_slack);
    if (round.common_losses == 1) {
      const double slack = smaller(row.t11_transfer_slack, row.t11_optimum_slack);
      row.t11 = theory::flag_of_slack(slack, 1e-12 * largest_loss);
      round.t11 = round.t11 == 0 ? 0 : row.t11;
    }
  }
}

}  // namespace

RoundConditions evaluate_round(std::span<const ClientTerms> clients, const SharedTerms& shared) {
  expects(!clients.empty(), "theory conditions: a round without clients");
  RoundConditions round;
  std::vector<std::vector<double>> residuals;
  std::vector<std::vector<double>> multipliers;
  for (const ClientTerms& terms : clients) {
    round.clients.push_back(theory::local_quantities(terms, shared));
    multipliers.push_back(terms.direction.mu);
    if (!terms.gradient_residual.empty()) {
      residuals.push_back(terms.gradient_residual);
    }
  }
  summarise(clients, shared, round);
  round.smoothness = shared.smoothness;
  if (std::isnan(shared.smoothness) && !std::isnan(round.smoothness_observed)) {
    round.smoothness = round.smoothness_observed;
    round.smoothness_is_observed = 1;
  }
  if (residuals.size() == clients.size()) {
    const Sandwich delta = gradient_dissimilarity(residuals);
    round.dissimilarity_low = delta.low;
    round.dissimilarity_high = delta.high;
  }
  round.common_gradients = flag(have_common_gradients(clients));
  round.common_losses = flag(have_common_losses(clients));
  round.multiplier_diameter = diameter(multipliers);
  round.disagreement_drift = shared.disagreement;
  const std::size_t m = clients.front().loss.size();
  if (shared.mean_gram.size() == m * m &&
      m <= static_cast<std::size_t>(direction::kMaxMinNormObjectives)) {
    round.stationarity = theory::quadratic_form(
        shared.mean_gram, direction::min_norm_point(shared.mean_gram, static_cast<int>(m)));
  }

  theory::RoundConstants constants;
  constants.gradient_bound = round.gradient_bound;
  constants.smoothness = round.smoothness;
  constants.balancing_mass = round.balancing_mass;
  constants.uniform_mass = round.num_balancing == 0 ? 1.0 : 1.0 - round.balancing_mass;
  constants.mean_balancing_norm = round.mean_balancing_norm;
  constants.dissimilarity_high = round.dissimilarity_high;
  constants.all_uniform = round.num_balancing == 0;
  constants.lp_modes = std::all_of(clients.begin(), clients.end(), [](const ClientTerms& terms) {
    return terms.direction.mode != direction::Mode::kFixed;
  });
  for (std::size_t i = 0; i < clients.size(); ++i) {
    theory::judge_client(clients[i], shared, constants, round.clients[i]);
  }
  judge_balancing(shared, round);
  judge_descent(constants, round);
  judge_bases(clients, round);
  judge_floor(shared, round);
  judge_transfer(clients, round);
  return round;
}

}  // namespace apo::federation
