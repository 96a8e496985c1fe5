#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "solvers.hpp"

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

/// Solves the square system in place by Gauss-Jordan elimination with partial pivoting; empty when
/// it is singular to working precision.
std::optional<std::vector<double>> solve_system(std::vector<std::vector<double>> rows) {
  const std::size_t n = rows.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      pivot = std::abs(rows[i][k]) > std::abs(rows[pivot][k]) ? i : pivot;
    }
    if (std::abs(rows[pivot][k]) <= 1e-13) {
      return std::nullopt;
    }
    std::swap(rows[k], rows[pivot]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i != k) {
        const double factor = rows[i][k] / rows[k][k];
        for (std::size_t j = k; j <= n; ++j) {
          rows[i][j] -= factor * rows[k][j];
        }
      }
    }
  }
  std::vector<double> solution(n);
  for (std::size_t k = 0; k < n; ++k) {
    solution[k] = rows[k][n] / rows[k][k];
  }
  return solution;
}

}  // namespace

std::vector<double> min_norm_point(std::span<const double> gram, int m) {
  expects(m >= 1 && m <= kMaxMinNormObjectives, "min_norm_point: expected 1 to " +
                                                    std::to_string(kMaxMinNormObjectives) +
                                                    " objectives, found " + std::to_string(m));
  const auto size = static_cast<std::size_t>(m);
  expects(gram.size() == size * size, "min_norm_point: the Gram matrix has the wrong size");
  double scale = 0.0;
  for (std::size_t i = 0; i < gram.size(); ++i) {
    expects(std::isfinite(gram[i]), "min_norm_point: the Gram matrix is not finite");
    scale = i % (size + 1) == 0 ? std::max(scale, gram[i]) : scale;
  }
  if (scale <= 0.0) {
    return std::vector<double>(size, 1.0 / m);
  }
  std::vector<double> scaled(gram.begin(), gram.end());
  for (double& entry : scaled) {
    entry /= scale;
  }

  std::vector<unsigned> supports;
  for (unsigned mask = 1; mask < (1U << m); ++mask) {
    supports.push_back(mask);
  }
  std::stable_sort(supports.begin(), supports.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });

  // An optimal support with affinely independent gradients exists (Caratheodory), and its system is
  // regular; singular ones can be skipped. The candidates are compared by their KKT gap and not by
  // their value, which is flat near the minimum and would lose half of the digits.
  std::vector<double> best;
  double best_gap = -std::numeric_limits<double>::infinity();
  for (const unsigned mask : supports) {
    std::vector<std::size_t> support;
    for (std::size_t j = 0; j < size; ++j) {
      if ((mask >> j & 1U) != 0) {
        support.push_back(j);
      }
    }
    const std::size_t k = support.size();
    std::vector<std::vector<double>> system(k + 1, std::vector<double>(k + 2, 0.0));
    for (std::size_t a = 0; a < k; ++a) {
      for (std::size_t b = 0; b < k; ++b) {
        system[a][b] = scaled[support[a] * size + support[b]];
      }
      system[a][k] = system[k][a] = 1.0;  // multiplier and simplex row
    }
    system[k][k + 1] = 1.0;
    const auto solution = solve_system(std::move(system));
    if (!solution || std::any_of(solution->begin(), solution->begin() + static_cast<long>(k),
                                 [](double x) { return !(x >= -1e-12); })) {
      continue;
    }
    std::vector<double> mu(size, 0.0);
    double sum = 0.0;
    for (std::size_t a = 0; a < k; ++a) {
      mu[support[a]] = std::max(0.0, (*solution)[a]);
      sum += mu[support[a]];
    }
    for (double& entry : mu) {
      entry /= sum;
    }
    const std::vector<double> gram_mu = times(scaled, mu);
    const double gap = *std::min_element(gram_mu.begin(), gram_mu.end()) - dot(mu, gram_mu);
    if (gap > best_gap + 1e-13) {
      best_gap = gap;
      best = std::move(mu);
    }
  }
  return best;  // never empty: single objectives are always regular
}

}  // namespace apo::direction
