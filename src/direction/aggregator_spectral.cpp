#include <algorithm>
#include <cmath>

#include "aggregator_algebra.hpp"
#include "aggregator_rules.hpp"
#include "solvers.hpp"

namespace apo::direction {

std::vector<double> aligned_weights(std::span<const double> gram, std::span<const double> p) {
  const std::size_t m = p.size();
  double scale = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    scale = std::max(scale, gram[j * m + j]);
  }
  const SymmetricEigen eigen = symmetric_eigen(symmetrised(gram, m, scale), m);
  const double tolerance = rank_tolerance(eigen);
  const auto smallest = std::find_if(eigen.values.begin(), eigen.values.end(),
                                     [&](double value) { return value > tolerance; });
  // The largest eigenvalue is at least that of the largest diagonal entry, 1, so one is found.
  std::vector<double> weight(m, 0.0);
  for (auto value = smallest; value != eigen.values.end(); ++value) {
    const auto k = static_cast<std::size_t>(value - eigen.values.begin());
    const std::span<const double> vector = std::span(eigen.vectors).subspan(k * m, m);
    const double amount = std::sqrt(*smallest / *value) * dot(vector, p);
    for (std::size_t j = 0; j < m; ++j) {
      weight[j] += amount * vector[j];
    }
  }
  return weight;
}

std::vector<double> equal_projection_weights(std::span<const double> gram) {
  auto m = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(gram.size()))));
  const UnitGram unit = unit_gram(gram, m);
  const std::size_t k = unit.kept.size();
  // The published v = C^+ sqrt(diag C), in unit gradients: R y = 1, v_j = y_j / ||g_j||.
  const std::vector<double> ones(k, 1.0);
  std::vector<double> y = pseudo_solve(unit.cosine, ones);
  const std::vector<double> projection = times(unit.cosine, y);
  const bool solved = std::all_of(projection.begin(), projection.end(),
                                  [](double x) { return std::abs(x - 1.0) <= 1e-6; });
  if (!solved) {
    // 1 is not in the range of R: only d = 0 has equal projections, and what is left of 1 gives it.
    for (std::size_t a = 0; a < k; ++a) {
      y[a] = 1.0 - projection[a];
    }
  }
  double sum = 0.0;
  double size = 0.0;
  for (std::size_t a = 0; a < k; ++a) {
    y[a] /= unit.norm[a];
    sum += y[a];
    size += std::abs(y[a]);
  }
  const double divisor = std::abs(sum) > 1e-12 * size ? sum : size;
  std::vector<double> weight(m, 0.0);
  for (std::size_t a = 0; a < k; ++a) {
    weight[unit.kept[a]] = y[a] / divisor;
  }
  return weight;
}

}  // namespace apo::direction
