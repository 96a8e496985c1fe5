#include <algorithm>
#include <cmath>
#include <span>

#include "aggregator_algebra.hpp"
#include "aggregator_qp.hpp"
#include "aggregator_rules.hpp"
#include "solvers.hpp"

#include "apo/core/rng.hpp"

namespace apo::direction {

namespace {

/// v - u for v = argmin_{v >= u} v'Rv, that is s in min 1/2 s'Rs + (Ru)'s over s >= 0. R has unit
/// diagonal, so nothing depends on the lengths of the gradients; u should be O(1).
std::vector<double> added_for_dual_cone(const UnitGram& unit, std::span<const double> u) {
  const std::vector<double> linear = times(unit.cosine, u);
  return solve({unit.cosine, linear, false});
}

}  // namespace

UnitGram unit_gram(std::span<const double> gram, std::size_t m) {
  UnitGram result;
  for (std::size_t j = 0; j < m; ++j) {
    if (gram[j * m + j] > kVanishedGram) {
      result.kept.push_back(j);
      result.norm.push_back(std::sqrt(gram[j * m + j]));
    }
  }
  const std::size_t k = result.kept.size();
  result.cosine.assign(k * k, 1.0);
  for (std::size_t a = 0; a < k; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const std::size_t i = result.kept[a];
      const std::size_t j = result.kept[b];
      const double product = 0.5 * (gram[i * m + j] + gram[j * m + i]);
      result.cosine[a * k + b] = result.cosine[b * k + a] =
          std::clamp(product / result.norm[a] / result.norm[b], -1.0, 1.0);
    }
  }
  make_semidefinite(result.cosine, k);
  return result;
}

std::vector<double> upgrad_weights(std::span<const double> gram, std::span<const double> p) {
  const UnitGram unit = unit_gram(gram, p.size());
  const std::size_t k = unit.kept.size();
  std::vector<double> weight(p.begin(), p.end());
  std::vector<double> u(k, 0.0);
  for (std::size_t a = 0; a < k; ++a) {
    u[a] = 1.0;
    const std::vector<double> added = added_for_dual_cone(unit, u);
    u[a] = 0.0;
    for (std::size_t b = 0; b < k; ++b) {
      weight[unit.kept[b]] += p[unit.kept[a]] * (unit.norm[a] / unit.norm[b]) * added[b];
    }
  }
  return weight;
}

std::vector<double> dual_projection_weights(std::span<const double> gram,
                                            std::span<const double> p) {
  const UnitGram unit = unit_gram(gram, p.size());
  const std::size_t k = unit.kept.size();
  std::vector<double> weight(p.begin(), p.end());
  std::vector<double> u(k);
  double largest = 0.0;
  for (std::size_t a = 0; a < k; ++a) {
    u[a] = p[unit.kept[a]] * unit.norm[a];
    largest = std::max(largest, u[a]);
  }
  if (largest == 0.0) {
    return weight;
  }
  for (double& entry : u) {
    entry /= largest;
  }
  const std::vector<double> added = added_for_dual_cone(unit, u);
  for (std::size_t a = 0; a < k; ++a) {
    weight[unit.kept[a]] += largest * (added[a] / unit.norm[a]);
  }
  return weight;
}

std::vector<double> pcgrad_weights(std::span<const double> gram, std::span<const double> p,
                                   std::uint64_t random_key) {
  const std::size_t m = p.size();
  CounterRng rng({.seed = random_key, .purpose = Purpose::kDirection});
  std::vector<double> weight(m, 0.0);
  std::vector<double> coefficients(m);  // of the projected gradient in terms of all
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < m; ++i) {
    others.clear();
    for (std::size_t j = 0; j < m; ++j) {
      if (j != i) {
        others.push_back(j);
      }
    }
    rng.shuffle(std::span(others));
    std::fill(coefficients.begin(), coefficients.end(), 0.0);
    coefficients[i] = 1.0;
    for (const std::size_t j : others) {
      const double product = dot(gram.subspan(j * m, m), coefficients);
      if (product < 0.0 && gram[j * m + j] > kVanishedGram) {
        coefficients[j] -= product / gram[j * m + j];
      }
    }
    for (std::size_t j = 0; j < m; ++j) {
      weight[j] += p[i] * coefficients[j];
    }
  }
  return weight;
}

}  // namespace apo::direction
