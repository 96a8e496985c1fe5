#pragma once

/// @file
/// What is known about analytic problems without their formulas: values, finite differences,
/// stationarity, and minima found by search. Only evaluate() of the code under test is used.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apo/core/rng.hpp"
#include "apo/objective/analytic_problem.hpp"

namespace apo::objective::test {

/// Options of a problem with the number of objectives and parameters given.
inline AnalyticOptions options_for(const std::string& problem, int m, int dimension,
                                   double offset = 0.1) {
  AnalyticOptions options;
  options.problem = problem;
  options.num_objectives = m;
  options.dimension = dimension;
  options.offset = offset;
  return options;
}

/// For test properties: 1.2e-15.
inline std::string scientific(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

/// One setting of each problem; where m or P may vary, two.
inline std::vector<AnalyticOptions> all_settings() {
  std::vector<AnalyticOptions> all{
      options_for("epo2", 2, 20),         options_for("epo2", 2, 1),
      options_for("epo3", 3, 2),          options_for("epo3", 3, 10),
      options_for("quadratic", 2, 5),     options_for("simplex", 3, 8),
      options_for("simplex", 5, 5),       options_for("anisotropic", 2, 6),
      options_for("linear_front", 3, 5),  options_for("concave_front", 4, 6),
      options_for("convex_front", 3, 4),  options_for("flat_stationary", 2, 1),
      options_for("v_shape", 2, 1),       options_for("dpo_linear", 3, 6),
      options_for("dpo_linear", 2, 4),    options_for("consensus", 1, 7),
      options_for("concave_front", 2, 3), options_for("simplex", 1, 2)};
  all[4].curvature = {0.5, 3.0};
  all[4].offsets = {0.2, 0.05};
  return all;
}

inline double psi(const AnalyticProblem& problem, std::span<const double> preference,
                  std::span<const double> x) {
  std::vector<double> loss(preference.size());
  problem.evaluate(x, loss, {});
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < loss.size(); ++j) {
    largest = std::max(largest, preference[j] * loss[j]);
  }
  return largest;
}

inline std::vector<double> gradients_at(const AnalyticProblem& problem, std::span<const double> x) {
  std::vector<double> loss(static_cast<std::size_t>(problem.num_objectives()));
  std::vector<double> gradients(loss.size() * x.size());
  problem.evaluate(x, loss, gradients);
  return gradients;
}

/// Derivative of loss j by coordinate p: five-point stencil, error O(h^4).
inline double finite_difference(const AnalyticProblem& problem, std::vector<double> x,
                                std::size_t j, std::size_t p, double h = 1e-3) {
  const auto at = [&](double step) {
    std::vector<double> moved = x;
    moved[p] += step;
    return problem.objective(static_cast<int>(j), moved, {});
  };
  return (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
}

/// Norm of a point in the convex hull of `vectors`, [m][P], whose weights solve (C + 1 1') w ~ 1
/// with their Gram matrix C: the null vector of C where 0 is in the hull. Infinite without such
/// weights.
inline double norm_of_null_combination(const std::vector<std::vector<double>>& vectors) {
  const std::size_t m = vectors.size();
  std::vector<std::vector<double>> rows(m, std::vector<double>(m + 1, 1.0));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t p = 0; p < vectors[i].size(); ++p) {
        rows[i][j] += vectors[i][p] * vectors[j][p];
      }
    }
  }
  for (std::size_t k = 0; k < m; ++k) {  // positive definite, so pivots are on the diagonal
    for (std::size_t i = 0; i < m; ++i) {
      const double factor = i == k ? 0.0 : rows[i][k] / rows[k][k];
      for (std::size_t j = k; j <= m && i != k; ++j) {
        rows[i][j] -= factor * rows[k][j];
      }
    }
  }
  double sum = 0.0;
  std::vector<double> weight(m);
  for (std::size_t k = 0; k < m; ++k) {
    weight[k] = rows[k][m] / rows[k][k];
    if (!(weight[k] >= 0.0)) {
      return std::numeric_limits<double>::infinity();
    }
    sum += weight[k];
  }
  double squared = 0.0;
  for (std::size_t p = 0; p < vectors.front().size(); ++p) {
    double entry = 0.0;
    for (std::size_t k = 0; k < m; ++k) {
      entry += weight[k] / sum * vectors[k][p];
    }
    squared += entry * entry;
  }
  return std::sqrt(squared);
}

/// Smallest norm in the convex hull of `vectors`: weight moves from the vertex of largest inner
/// product to that of least, with exact line search (pairwise Frank-Wolfe).
inline double min_norm_of_hull(const std::vector<std::vector<double>>& vectors) {
  const std::size_t m = vectors.size();
  std::vector<double> weight(m, 1.0 / static_cast<double>(m));
  const std::size_t size = vectors.front().size();
  std::vector<double> v(size);
  for (int step = 0; step < 20000; ++step) {
    std::fill(v.begin(), v.end(), 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t p = 0; p < size; ++p) {
        v[p] += weight[j] * vectors[j][p];
      }
    }
    std::vector<double> inner(m, 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t p = 0; p < size; ++p) {
        inner[j] += vectors[j][p] * v[p];
      }
    }
    std::size_t best = 0;
    std::size_t worst = m;
    for (std::size_t j = 0; j < m; ++j) {
      best = inner[j] < inner[best] ? j : best;
      if (weight[j] > 0.0 && (worst == m || inner[j] > inner[worst])) {
        worst = j;
      }
    }
    double squared = 0.0;
    for (const double entry : v) {
      squared += entry * entry;
    }
    if (inner[worst] - inner[best] <= std::max(1e-30, 1e-14 * squared)) {
      break;
    }
    double slope = 0.0;
    double curvature = 0.0;
    for (std::size_t p = 0; p < size; ++p) {
      const double difference = vectors[best][p] - vectors[worst][p];
      slope -= difference * v[p];
      curvature += difference * difference;
    }
    const double length = std::min(weight[worst], slope / curvature);
    weight[best] += length;
    weight[worst] = length == weight[worst] ? 0.0 : weight[worst] - length;
  }
  double squared = 0.0;
  for (const double entry : v) {
    squared += entry * entry;
  }
  return std::sqrt(squared);
}

/// Norm of the shortest subgradient of psi at x: hull of lambda_j grad l_j over the active
/// objectives. 0 at a minimiser, and where psi is (pseudo-)convex only there.
inline double stationarity(const AnalyticProblem& problem, std::span<const double> preference,
                           std::span<const double> x, double band = 1e-10) {
  std::vector<double> loss(preference.size());
  std::vector<double> gradients(loss.size() * x.size());
  problem.evaluate(x, loss, gradients);
  const double top = psi(problem, preference, x);
  std::vector<std::vector<double>> active;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    if (preference[j] * loss[j] >= (1.0 - band) * top) {
      std::vector<double> row(gradients.begin() + static_cast<std::ptrdiff_t>(j * x.size()),
                              gradients.begin() + static_cast<std::ptrdiff_t>((j + 1) * x.size()));
      for (double& entry : row) {
        entry *= preference[j];
      }
      active.push_back(row);
    }
  }
  const double norm = norm_of_null_combination(active);
  return norm <= 1e-12 ? norm : min_norm_of_hull(active);
}

/// What every Pareto point must hold: losses and psi are those of x, and on the ray all
/// lambda_j l_j are equal.
inline void expect_consistent(const AnalyticProblem& problem, const std::vector<double>& lambda,
                              const ParetoPoint& point) {
  ASSERT_EQ(point.x.size(), static_cast<std::size_t>(problem.dimension()));
  std::vector<double> loss(lambda.size());
  problem.evaluate(point.x, loss, {});
  double smallest = point.chebyshev;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    EXPECT_NEAR(loss[j], point.loss[j], 1e-14);
    smallest = std::min(smallest, lambda[j] * loss[j]);
  }
  EXPECT_NEAR(psi(problem, lambda, point.x), point.chebyshev, 1e-15);
  if (point.on_ray) {
    EXPECT_NEAR(smallest, point.chebyshev, 1e-14 * (1.0 + point.chebyshev));
  } else {
    EXPECT_LT(smallest, point.chebyshev);
  }
}

/// first + t (second - first)
inline std::vector<double> between(const std::vector<double>& first,
                                   const std::vector<double>& second, double t) {
  std::vector<double> x(first.size());
  for (std::size_t p = 0; p < x.size(); ++p) {
    x[p] = first[p] + t * (second[p] - first[p]);
  }
  return x;
}

/// Argument of the minimum of a quasi-convex function on [low, high].
inline double golden_section(const std::function<double(double)>& f, double low, double high,
                             int steps = 100) {
  const double ratio = 0.5 * (std::sqrt(5.0) - 1.0);
  double left = high - ratio * (high - low);
  double right = low + ratio * (high - low);
  double at_left = f(left);
  double at_right = f(right);
  for (int step = 0; step < steps; ++step) {
    if (at_left <= at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - ratio * (high - low);
      at_left = f(left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + ratio * (high - low);
      at_right = f(right);
    }
  }
  return at_left <= at_right ? left : right;
}

/// Random preference, each entry at least `floor`.
inline std::vector<double> random_preference(CounterRng& rng, std::size_t m, double floor) {
  std::vector<double> lambda = rng.dirichlet(std::vector<double>(m, 1.0));
  for (double& entry : lambda) {
    entry = floor + (1.0 - static_cast<double>(m) * floor) * entry;
  }
  return lambda;
}

}  // namespace apo::objective::test
