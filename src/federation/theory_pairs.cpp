/// @file
/// What compares two clients of a round: T8, T9 and T13 (algorithms.md 5.3 and 3.4).

#include <algorithm>
#include <cmath>

#include "theory_algebra.hpp"

#include "apo/core/balance.hpp"
#include "apo/core/rng.hpp"
#include "apo/direction/lemma8.hpp"
#include "apo/federation/theory_conditions.hpp"

namespace apo::federation {
namespace {

double largest_difference(std::span<const double> a, std::span<const double> b) {
  double largest = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    largest = std::max(largest, std::abs(a[j] - b[j]));
  }
  return largest;
}

double largest_of(std::span<const double> values) {
  return *std::max_element(values.begin(), values.end());
}

/// x / bound, where 0 / 0 says that the bound holds.
double ratio(double x, double bound, double rounding) {
  if (std::isnan(bound)) {
    return kUndefined;
  }
  return x <= rounding ? 0.0 : x / bound;
}

double gradient_bound(const ClientTerms& terms) {
  const std::size_t m = terms.loss.size();
  double largest = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    largest = std::max(largest, terms.gram[j * m + j]);
  }
  return std::sqrt(largest);
}

std::vector<double> over_mean_diagonal(const ClientTerms& terms) {
  const std::size_t m = terms.loss.size();
  double mean = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    mean += terms.gram[j * m + j] / static_cast<double>(m);
  }
  std::vector<double> result = terms.gram;
  for (double& x : result) {
    x = mean > 0.0 ? x / mean : x;
  }
  return result;
}

void judge_bases(const ClientTerms& a, const ClientTerms& b, PairConditions& pair) {
  const std::uint64_t id = a.direction.basis_id;
  if (id == 0 || b.direction.basis_id == 0) {
    return;
  }
  pair.equal_basis = id == b.direction.basis_id ? 1 : 0;
  const double scale = largest_of(a.gram);
  if (pair.equal_basis == 1 && largest_difference(a.gram, b.gram) <= 1e-6 * scale) {
    const double kappa = std::max(a.direction.kappa_lp, b.direction.kappa_lp);
    pair.t8_ratio = ratio(pair.multiplier_distance, kappa * pair.adjustment_distance, 1e-9);
  }
}

void judge_losses(const ClientTerms& a, const ClientTerms& b, PairConditions& pair) {
  const double largest = std::max(largest_of(a.loss), largest_of(b.loss));
  if (pair.loss_distance > 1e-9 * largest) {
    return;
  }
  const auto m = static_cast<int>(a.loss.size());
  const Balance x = balance(a.loss, a.preference);
  const Balance y = balance(b.loss, b.preference);
  double smallest_share = 1.0;
  for (std::size_t j = 0; j < x.share.size(); ++j) {
    smallest_share = std::min({smallest_share, x.share[j], y.share[j]});
  }
  pair.adjustment_constant =
      adjustment_constant(m, m * smallest_share, largest, std::min(x.z, y.z));
  pair.t9_ratio =
      ratio(pair.adjustment_distance, pair.adjustment_constant * pair.preference_distance, 1e-12);
}

void judge_lemma8(const ClientTerms& a, const ClientTerms& b, const SharedTerms& shared,
                  PairConditions& pair) {
  if (!(shared.firm_beta > 0.0)) {
    return;
  }
  const std::vector<double> r_a =
      direction::firm_regulariser(shared.firm_preference, shared.firm_beta, a.preference);
  const std::vector<double> r_b =
      direction::firm_regulariser(shared.firm_preference, shared.firm_beta, b.preference);
  if (largest_difference(r_a, r_b) > 1e-9 * largest_of(r_a)) {
    return;  // two regularisers: the lemma compares minimisers of one family
  }
  // The lemma is about the matrices that the solver saw. Normalised ones say nothing about the
  // gradients' distance, which leaves the form by Gram matrices.
  const bool normalised = shared.gram_normalisation == "mean_diagonal";
  const direction::Lemma8Ratios ratios = direction::lemma8_ratios(
      normalised ? over_mean_diagonal(a) : a.gram, normalised ? over_mean_diagonal(b) : b.gram,
      a.direction.mu, b.direction.mu, normalised ? kUndefined : pair.gradient_distance_bound,
      std::max(gradient_bound(a), gradient_bound(b)), direction::firm_modulus(r_a));
  pair.lemma8_paper = ratios.paper;
  pair.lemma8_root = ratios.root;
  pair.lemma8_gram = ratios.gram;
}

/// The k-th of the pairs (0, 1), (0, 2), ..., (n - 2, n - 1).
std::pair<std::size_t, std::size_t> unrank(std::uint64_t k, std::size_t n) {
  std::size_t a = 0;
  for (std::uint64_t row = n - 1; k >= row; --row) {
    k -= row;
    ++a;
  }
  return {a, a + 1 + static_cast<std::size_t>(k)};
}

}  // namespace

PairConditions evaluate_pair(const ClientTerms& a, const ClientTerms& b,
                             const SharedTerms& shared) {
  PairConditions pair;
  pair.client_a = a.client;
  pair.client_b = b.client;
  pair.preference_distance = theory::distance(a.preference, b.preference);
  pair.adjustment_distance = theory::distance(a.direction.adjustment, b.direction.adjustment);
  pair.multiplier_distance = theory::distance(a.direction.mu, b.direction.mu);
  pair.gram_distance = theory::distance(a.gram, b.gram);
  pair.loss_distance = largest_difference(a.loss, b.loss);
  if (!a.gradient_residual.empty() && !b.gradient_residual.empty()) {
    pair.gradient_distance_bound = 0.0;
    for (std::size_t j = 0; j < a.gradient_residual.size(); ++j) {
      pair.gradient_distance_bound =
          std::max(pair.gradient_distance_bound, a.gradient_residual[j] + b.gradient_residual[j]);
    }
  }
  judge_bases(a, b, pair);
  judge_losses(a, b, pair);
  judge_lemma8(a, b, shared, pair);
  return pair;
}

std::vector<PairConditions> evaluate_pairs(std::span<const ClientTerms> clients,
                                           const SharedTerms& shared, int max_pairs,
                                           const StreamKey& key) {
  const std::size_t n = clients.size();
  const std::uint64_t total = n < 2 ? 0 : std::uint64_t{n} * (n - 1) / 2;
  std::vector<std::uint64_t> chosen;
  if (total <= static_cast<std::uint64_t>(max_pairs)) {
    for (std::uint64_t k = 0; k < total; ++k) {
      chosen.push_back(k);
    }
  } else {
    CounterRng rng(key);
    while (chosen.size() < static_cast<std::size_t>(max_pairs)) {
      while (chosen.size() < static_cast<std::size_t>(max_pairs)) {
        chosen.push_back(rng.below(total));
      }
      std::sort(chosen.begin(), chosen.end());
      chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    }
  }
  std::vector<PairConditions> pairs;
  pairs.reserve(chosen.size());
  for (const std::uint64_t k : chosen) {
    const auto [a, b] = unrank(k, n);
    pairs.push_back(evaluate_pair(clients[a], clients[b], shared));
  }
  return pairs;
}

}  // namespace apo::federation
