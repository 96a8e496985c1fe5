#pragma once

/// @file
/// LP (4) from its definition, solved by trying every vertex. Shares no code with the solver.

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace apo::direction::test {

struct Instance {
  std::vector<double> loss;
  std::vector<double> preference;
  std::vector<double> gram;
};

inline std::vector<double> gram_of(const std::vector<std::vector<double>>& gradients) {
  std::vector<double> gram;
  for (const auto& g : gradients) {
    for (const auto& h : gradients) {
      double sum = 0.0;
      for (std::size_t p = 0; p < g.size(); ++p) {
        sum += g[p] * h[p];
      }
      gram.push_back(sum);
    }
  }
  return gram;
}

enum class Ensemble { kGeneric, kCorrelated, kNearStationary, kDuplicates };

/// Random gradients of the named kind; losses in [0.1, 2), or with lambda_j l_j all equal.
inline Instance draw(CounterRng& rng, int m, Ensemble ensemble, bool balanced) {
  const auto size = static_cast<std::size_t>(m);
  const std::size_t dimension = 6;
  std::vector<std::vector<double>> gradients(size, std::vector<double>(dimension));
  std::vector<double> common(dimension);
  for (double& c : common) {
    c = 2.0 * rng.normal();
  }
  for (auto& g : gradients) {
    for (std::size_t p = 0; p < dimension; ++p) {
      g[p] = rng.normal() + (ensemble == Ensemble::kCorrelated ? common[p] : 0.0);
    }
  }
  if (ensemble == Ensemble::kNearStationary) {
    const auto weights = rng.dirichlet(std::vector<double>(size, 1.0));
    for (std::size_t p = 0; p < dimension; ++p) {
      double sum = 0.0;
      for (std::size_t j = 0; j + 1 < size; ++j) {
        sum += (weights[j] + 0.05) * gradients[j][p];
      }
      gradients.back()[p] = -sum / (weights.back() + 0.05) + 1e-3 * rng.normal();
    }
  }
  if (ensemble == Ensemble::kDuplicates) {
    gradients[1] = gradients[0];
  }
  Instance instance;
  instance.gram = gram_of(gradients);
  instance.preference =
      normalised_preference(rng.dirichlet(std::vector<double>(size, 1.0)), "test", 1e-2);
  for (const double lambda : instance.preference) {
    instance.loss.push_back(balanced ? 0.1 / lambda : 0.1 + 1.9 * rng.uniform());
  }
  return instance;
}

/// The LP in the paper's numbers, unscaled: max c'mu, C mu >= r on the constrained rows.
struct PaperLp {
  std::vector<double> objective;
  std::vector<double> bound;  // -infinity: no constraint
  double scale = 0.0;         // max_j C_jj
};

inline PaperLp paper_lp(const Instance& x, double beta_tolerance, double ascent_tolerance) {
  const std::size_t m = x.loss.size();
  double z = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    z += x.preference[j] * x.loss[j];
  }
  std::vector<double> a(m);
  double beta = 0.0;
  double bottleneck = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    const double share = x.preference[j] * x.loss[j] / z;
    beta += share * std::log(static_cast<double>(m) * share);
    bottleneck = std::max(bottleneck, x.preference[j] * x.loss[j]);
  }
  for (std::size_t j = 0; j < m; ++j) {
    const double share = x.preference[j] * x.loss[j] / z;
    a[j] = x.preference[j] * (std::log(static_cast<double>(m) * share) - beta);
  }
  PaperLp lp;
  std::vector<double> ca(m, 0.0);
  std::vector<double> c1(m, 0.0);
  double squared = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    for (std::size_t i = 0; i < m; ++i) {
      ca[j] += x.gram[j * m + i] * a[i];
      c1[j] += x.gram[j * m + i];
    }
    squared += a[j] * ca[j];
    lp.scale = std::max(lp.scale, x.gram[j * m + j]);
  }
  const bool balancing = beta > beta_tolerance;
  std::vector<bool> in_j(m);
  bool any = false;
  for (std::size_t j = 0; j < m; ++j) {
    in_j[j] =
        ca[j] > ascent_tolerance * std::sqrt(x.gram[j * m + j]) * std::sqrt(std::max(0.0, squared));
    any = any || in_j[j];
  }
  lp.objective = balancing ? ca : c1;
  for (std::size_t j = 0; j < m; ++j) {
    const bool star = x.preference[j] * x.loss[j] >= (1.0 - 1e-9) * bottleneck;
    if (!balancing || star) {
      lp.bound.push_back(0.0);
    } else if (in_j[j]) {
      lp.bound.push_back(-std::numeric_limits<double>::infinity());
    } else {
      lp.bound.push_back(any ? std::min(0.0, ca[j]) : 0.0);
    }
  }
  return lp;
}

inline double dot(const double* x, const double* y, std::size_t m) {
  double sum = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    sum += x[j] * y[j];
  }
  return sum;
}

/// Largest violation of the LP's rows and of the simplex.
inline double violation(const Instance& x, const PaperLp& lp, const std::vector<double>& mu) {
  const std::size_t m = mu.size();
  double sum = 0.0;
  double worst = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    sum += mu[j];
    worst = std::max(worst, -mu[j]);
    if (std::isfinite(lp.bound[j])) {
      worst = std::max(worst, (lp.bound[j] - dot(&x.gram[j * m], mu.data(), m)) / lp.scale);
    }
  }
  return std::max(worst, std::abs(sum - 1.0));
}

/// Largest objective over all vertices: every choice of m - 1 among mu_j >= 0 and the rows made
/// tight, together with the simplex. -infinity when none is feasible.
inline double best_vertex_value(const Instance& x, const PaperLp& lp, double tolerance = 1e-11) {
  const std::size_t m = x.loss.size();
  std::vector<std::vector<double>> rows;  // [m] coefficients, then the right-hand side
  for (std::size_t j = 0; j < m; ++j) {
    std::vector<double> row(m + 1, 0.0);
    row[j] = 1.0;
    rows.push_back(row);
    if (std::isfinite(lp.bound[j])) {
      for (std::size_t i = 0; i < m; ++i) {
        row[i] = x.gram[j * m + i] / lp.scale;
      }
      row[m] = lp.bound[j] / lp.scale;
      rows.push_back(row);
    }
  }
  double best = -std::numeric_limits<double>::infinity();
  std::array<std::array<double, 9>, 8> system{};
  for (unsigned mask = 0; mask < (1U << rows.size()); ++mask) {
    if (static_cast<std::size_t>(__builtin_popcount(mask)) != m - 1) {
      continue;
    }
    std::size_t filled = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if ((mask >> k & 1U) != 0) {
        std::copy(rows[k].begin(), rows[k].end(), system[filled++].begin());
      }
    }
    for (std::size_t j = 0; j <= m; ++j) {
      system[m - 1][j] = 1.0;
    }
    bool regular = true;
    for (std::size_t k = 0; k < m && regular; ++k) {
      std::size_t pivot = k;
      for (std::size_t i = k + 1; i < m; ++i) {
        pivot = std::abs(system[i][k]) > std::abs(system[pivot][k]) ? i : pivot;
      }
      std::swap(system[k], system[pivot]);
      regular = std::abs(system[k][k]) > 1e-12;
      for (std::size_t i = k + 1; i < m && regular; ++i) {
        const double factor = system[i][k] / system[k][k];
        for (std::size_t j = k; j <= m; ++j) {
          system[i][j] -= factor * system[k][j];
        }
      }
    }
    if (!regular) {
      continue;
    }
    std::vector<double> mu(m);
    for (std::size_t k = m; k-- > 0;) {
      double rest = system[k][m];
      for (std::size_t j = k + 1; j < m; ++j) {
        rest -= system[k][j] * mu[j];
      }
      mu[k] = rest / system[k][k];
    }
    if (violation(x, lp, mu) <= tolerance) {
      best = std::max(best, dot(lp.objective.data(), mu.data(), m));
    }
  }
  return best;
}

}  // namespace apo::direction::test
