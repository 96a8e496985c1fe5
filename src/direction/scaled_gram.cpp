#include "scaled_gram.hpp"

#include <algorithm>
#include <cmath>

#include "solvers.hpp"

namespace apo::direction {

ScaledGram scale_gram(std::span<const double> gram, std::span<const double> adjustment,
                      double ascent_tolerance) {
  const std::size_t m = adjustment.size();
  ScaledGram result;
  for (std::size_t j = 0; j < m; ++j) {
    result.scale = std::max(result.scale, gram[j * m + j]);
  }
  result.gram.assign(m * m, 0.0);
  result.balancing.assign(m, 0.0);
  result.aligned.assign(m, false);
  if (result.scale <= kVanishedGram) {
    result.scale = 0.0;
    return result;
  }
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      result.gram[i * m + j] =
          0.5 * (gram[i * m + j] / result.scale + gram[j * m + i] / result.scale);
    }
    result.gram[i * m + i] = std::max(0.0, result.gram[i * m + i]);
  }
  result.balancing = times(result.gram, adjustment);
  const double balancing_norm = std::sqrt(std::max(0.0, dot(adjustment, result.balancing)));
  for (std::size_t j = 0; j < m; ++j) {
    result.aligned[j] =
        result.balancing[j] > ascent_tolerance * std::sqrt(result.gram[j * m + j]) * balancing_norm;
  }
  return result;
}

void describe_weight(const ScaledGram& gram, Direction& result) {
  std::vector<double> gram_weight = times(gram.gram, result.weight);
  result.gamma = gram.scale * dot(result.adjustment, gram_weight);
  // Two roots: scale times the quadratic form may underflow where their product does not.
  result.direction_norm =
      std::sqrt(gram.scale) * std::sqrt(std::max(0.0, dot(result.weight, gram_weight)));

  // Rounding is relative to the size of the weights, which some solvers take off the simplex.
  double size = 0.0;
  for (const double w : result.weight) {
    size += std::abs(w);
  }
  for (double& x : gram_weight) {
    x = size > 0.0 ? x / size : 0.0;
  }
  const std::vector<bool> rises = ascending(gram.gram, gram_weight);
  result.num_ascending = 0;
  result.num_aligned = 0;
  result.num_aligned_ascending = 0;
  for (std::size_t j = 0; j < rises.size(); ++j) {
    result.num_ascending += rises[j] ? 1 : 0;
    result.num_aligned += gram.aligned[j] ? 1 : 0;
    result.num_aligned_ascending += rises[j] && gram.aligned[j] ? 1 : 0;
  }
}

}  // namespace apo::direction
