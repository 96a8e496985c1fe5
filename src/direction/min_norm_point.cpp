#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "aggregator_algebra.hpp"
#include "aggregator_qp.hpp"
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

std::vector<double> regularised_min_norm_point(std::span<const double> gram,
                                               std::span<const double> regulariser) {
  // Messages are made on failure only: this runs in every client step.
  const auto fail = [](const std::string& message) {
    expects(false, "regularised_min_norm_point: " + message);
  };
  const std::size_t m = regulariser.size();
  if (m == 0 || gram.size() != m * m) {
    fail("expected a Gram matrix of " + std::to_string(m * m) + " numbers for " +
         std::to_string(m) + " regularisers, found " + std::to_string(gram.size()));
  }
  for (const double entry : gram) {
    expects(std::isfinite(entry), "regularised_min_norm_point: the Gram matrix is not finite");
  }
  for (const double entry : regulariser) {
    if (!std::isfinite(entry) || entry < 0.0) {
      fail("expected regularisers of at least 0, found " + std::to_string(entry));
    }
  }
  if (m == 1) {
    return {1.0};
  }
  if (m == 2) {
    // The objective's slopes at mu = (0, 1) and (1, 0), inwards; where both rise, none is small and
    // their sum, the denominator, is positive. Where neither does, the gradients are equal.
    const double b = 0.5 * (gram[1] + gram[2]);
    const double from_second = (gram[3] - b) + regulariser[1];
    const double from_first = (gram[0] - b) + regulariser[0];
    if (from_second <= 0.0 && from_first <= 0.0) {
      return {0.5, 0.5};
    }
    if (from_second <= 0.0) {
      return {0.0, 1.0};
    }
    if (from_first <= 0.0) {
      return {1.0, 0.0};
    }
    const double sum = from_second + from_first;
    return {from_second / sum, from_first / sum};
  }
  double scale = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    scale = std::max(scale, gram[j * m + j] + regulariser[j]);
  }
  if (scale <= 0.0) {
    return std::vector<double>(m, 1.0 / static_cast<double>(m));
  }
  std::vector<double> scaled = symmetrised(gram, m, scale);
  make_semidefinite(scaled, m);
  for (std::size_t j = 0; j < m; ++j) {
    scaled[j * m + j] += regulariser[j] / scale;
  }
  return solve({scaled, std::vector<double>(m, 0.0), true});
}

std::vector<double> firm_regulariser(const std::string& form, double beta,
                                     std::span<const double> preference) {
  constexpr double kSmallestPreference = 1e-4;  // 1/p -> infinity would pin the weight to 0
  const std::size_t m = preference.size();
  expects(m > 0, "firm_regulariser: no objectives");
  const auto fail = [](const std::string& message) {
    expects(false, "firm_regulariser: " + message);
  };
  if (!std::isfinite(beta) || beta < 0.0) {
    fail("expected beta of at least 0, found " + std::to_string(beta));
  }
  if (form != "none" && form != "paper" && form != "scaled") {
    fail("unknown form '" + form + "', expected none, paper or scaled");
  }
  std::vector<double> result(m, 0.5 * beta);
  for (std::size_t j = 0; j < m && form != "none"; ++j) {
    if (!std::isfinite(preference[j]) || preference[j] < 0.0) {
      fail("preference " + std::to_string(j) + " is " + std::to_string(preference[j]) +
           ", expected a number of at least 0");
    }
    const double p = std::max(preference[j], kSmallestPreference);
    result[j] = form == "paper" ? 1.0 / p : 0.5 * beta / (static_cast<double>(m) * p);
  }
  return result;
}

}  // namespace apo::direction
