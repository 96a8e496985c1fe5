// T-H of algorithms.md section 7 against its dual: max over the simplex of
// min_w sum_j nu_j lambda_j l_j(w).

#include <cmath>
#include <numbers>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

/// w(nu) by Newton's method with second differences of the gradients.
class WeightedMinimum {
 public:
  WeightedMinimum(const AnalyticProblem& problem, Vector lambda)
      : problem_(problem), lambda_(std::move(lambda)), w_(start()) {}

  /// Weighted losses lambda_j l_j at the minimiser of sum nu_j lambda_j l_j.
  Vector losses(const Vector& nu) {
    const std::size_t n = w_.size();
    for (int step = 0; step < 100; ++step) {
      const Vector g = gradient(nu, w_);
      std::vector<Vector> system(n, Vector(n + 1));
      double norm = 0.0;
      for (std::size_t q = 0; q < n; ++q) {
        const double h = 1e-5;
        Vector up = w_;
        Vector down = w_;
        up[q] += h;
        down[q] -= h;
        const Vector above = gradient(nu, up);
        const Vector below = gradient(nu, down);
        for (std::size_t p = 0; p < n; ++p) {
          system[p][q] = (above[p] - below[p]) / (2.0 * h);
        }
        system[q][n] = -g[q];
        norm = std::max(norm, std::abs(g[q]));
      }
      if (norm < 1e-15) {
        break;
      }
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t i = 0; i < n; ++i) {
          const double factor = i == k ? 0.0 : system[i][k] / system[k][k];
          for (std::size_t j = k; j <= n && i != k; ++j) {
            system[i][j] -= factor * system[k][j];
          }
        }
      }
      double length = 0.0;
      for (std::size_t k = 0; k < n; ++k) {
        length = std::max(length, std::abs(system[k][n] / system[k][k]));
      }
      for (std::size_t k = 0; k < n; ++k) {
        w_[k] += system[k][n] / system[k][k] * std::min(1.0, 1.0 / length);
      }
    }
    Vector loss(lambda_.size());
    problem_.evaluate(w_, loss, {});
    for (std::size_t j = 0; j < loss.size(); ++j) {
      loss[j] *= lambda_[j];
    }
    return loss;
  }

  double dual(const Vector& nu) {
    const Vector loss = losses(nu);
    double sum = 0.0;
    for (std::size_t j = 0; j < nu.size(); ++j) {
      sum += nu[j] * loss[j];
    }
    return sum;
  }

 private:
  Vector start() const { return Vector(static_cast<std::size_t>(problem_.dimension()), 0.0); }

  Vector gradient(const Vector& nu, const Vector& w) const {
    const Vector gradients = gradients_at(problem_, w);
    Vector sum(w.size(), 0.0);
    for (std::size_t j = 0; j < nu.size(); ++j) {
      for (std::size_t p = 0; p < w.size(); ++p) {
        sum[p] += nu[j] * lambda_[j] * gradients[j * w.size() + p];
      }
    }
    return sum;
  }

  const AnalyticProblem& problem_;
  Vector lambda_;
  Vector w_;  // the last minimiser: where the next search starts
};

TEST(DpoLinear, StartsAtLogTwoWithoutTheReferencePolicysPreference) {
  for (const int m : {1, 2, 5}) {
    const auto problem = make_analytic_problem(options_for("dpo_linear", m, 6), 4);
    Vector loss(static_cast<std::size_t>(m));
    problem->evaluate(problem->start(1), loss, {});
    for (const double entry : loss) {
      EXPECT_NEAR(entry, std::numbers::ln2, 1e-15);
    }
  }
}

TEST(DpoLinear, TheObjectiveIsTheMeanOfItsObservations) {
  AnalyticOptions options = options_for("dpo_linear", 3, 5);
  options.pairs_per_objective = 7;
  const auto problem = make_analytic_problem(options, 4);
  const Vector x{0.3, -1.0, 0.2, 0.7, 2.0};
  for (int j = 0; j < 3; ++j) {
    Vector gradient(5);
    Vector mean(5, 0.0);
    Vector row(5);
    double sum = 0.0;
    double spread = 0.0;
    const double loss = problem->objective(j, x, gradient);
    for (int k = 0; k < 7; ++k) {
      const double one = problem->observation(j, k, x, row);
      sum += one / 7.0;
      spread = std::max(spread, std::abs(one - loss));
      for (std::size_t p = 0; p < 5; ++p) {
        mean[p] += row[p] / 7.0;
      }
    }
    EXPECT_NEAR(sum, loss, 1e-14);
    EXPECT_GT(spread, 0.01);
    for (std::size_t p = 0; p < 5; ++p) {
      EXPECT_NEAR(mean[p], gradient[p], 1e-14);
    }
  }
}

TEST(DpoLinear, LargeMarginsNeitherOverflowNorReachZero) {
  const auto problem = make_analytic_problem(options_for("dpo_linear", 2, 2), 4);
  for (const double scale : {1e3, 1e6}) {
    Vector loss(2);
    Vector gradients(4);
    problem->evaluate(Vector{scale, -scale}, loss, gradients);
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_TRUE(std::isfinite(loss[j]));
      EXPECT_GT(loss[j], 0.0);
      EXPECT_TRUE(std::isfinite(gradients[2 * j]) && std::isfinite(gradients[2 * j + 1]));
    }
  }
}

TEST(DpoLinear, TwoObjectivesAgreeWithBisectionOnTheirWeight) {
  CounterRng rng({.seed = 14, .purpose = Purpose::kTest});
  int missed = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 60; ++draw) {
    AnalyticOptions options = options_for("dpo_linear", 2, 3);
    options.pairs_per_objective = 1 + draw % 12;
    options.dpo_beta = 0.2 + rng.uniform();
    options.ridge = std::pow(10.0, -3.0 * rng.uniform());
    const auto problem = make_analytic_problem(options, static_cast<std::uint64_t>(draw));
    const Vector lambda = random_preference(rng, 2, 0.03);
    const ParetoPoint point = problem->pareto_point(lambda);
    WeightedMinimum minimum(*problem, lambda);
    double low = 0.0;
    double high = 1.0;
    Vector loss;
    for (int step = 0; step < 55; ++step) {
      const double nu = 0.5 * (low + high);
      loss = minimum.losses({nu, 1.0 - nu});
      (loss[0] > loss[1] ? low : high) = nu;
    }
    const double expected = std::max(loss[0], loss[1]);
    worst = std::max(worst, std::abs(point.chebyshev - expected));
    EXPECT_NEAR(point.chebyshev, expected, 1e-12);
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-12);
    const bool missed_here = high < 1e-12 || low > 1.0 - 1e-12;
    EXPECT_EQ(point.on_ray, !missed_here);
    missed += missed_here ? 1 : 0;
  }
  EXPECT_GT(missed, 0);
  EXPECT_LT(missed, 40);
  RecordProperty("worst_psi_error", scientific(worst));
}

TEST(DpoLinear, ThreeObjectivesAgreeWithTheDualMaximum) {
  CounterRng rng({.seed = 15, .purpose = Purpose::kTest});
  int on_ray = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 12; ++draw) {
    AnalyticOptions options = options_for("dpo_linear", 3, 4);
    options.pairs_per_objective = 6;
    options.ridge = 0.05;
    const auto problem = make_analytic_problem(options, static_cast<std::uint64_t>(draw));
    const Vector lambda = random_preference(rng, 3, draw < 6 ? 0.25 : 0.02);
    const ParetoPoint point = problem->pareto_point(lambda);
    on_ray += point.on_ray ? 1 : 0;
    WeightedMinimum minimum(*problem, lambda);
    const auto best_rest = [&](double first) {
      return golden_section(
          [&](double second) {
            return -minimum.dual({first, second, 1.0 - first - second});
          },
          0.0, 1.0 - first, 50);
    };
    const auto dual = [&](double first) {
      const double second = best_rest(first);
      return minimum.dual({first, second, 1.0 - first - second});
    };
    const double first = golden_section([&](double x) { return -dual(x); }, 0.0, 1.0, 50);
    const double expected = dual(first);
    worst = std::max(worst, std::abs(point.chebyshev - expected));
    // Weak duality holds for every nu, strong duality at the best: flat there, so exact enough.
    EXPECT_NEAR(point.chebyshev, expected, 1e-10);
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-12);
    EXPECT_NEAR(psi(*problem, lambda, point.x), point.chebyshev, 1e-15);
  }
  EXPECT_GT(on_ray, 2);
  EXPECT_LT(on_ray, 12);
  RecordProperty("worst_duality_gap", scientific(worst));
}

TEST(DpoLinear, OptimalityConditionsHoldFarAndWideInTheOptions) {
  CounterRng rng({.seed = 16, .purpose = Purpose::kTest});
  double worst = 0.0;
  for (int draw = 0; draw < 1000; ++draw) {
    const int m = 1 + draw % 8;
    AnalyticOptions options = options_for("dpo_linear", m, m + draw % 4);
    options.ridge = std::pow(10.0, -5.0 * rng.uniform());
    options.dpo_beta = std::pow(10.0, -1.0 + 1.5 * rng.uniform());
    options.radius = std::pow(10.0, -1.0 + 1.5 * rng.uniform());
    options.pairs_per_objective = 1 + static_cast<int>(rng.below(15));
    const auto problem = make_analytic_problem(options, static_cast<std::uint64_t>(draw));
    const double floor = draw % 3 == 0 ? 0.7 / m : draw % 3 == 1 ? 0.01 / m : 1e-6;
    const Vector lambda = random_preference(rng, static_cast<std::size_t>(m), floor);
    const ParetoPoint point = problem->pareto_point(lambda);
    const double scale = options.dpo_beta * options.radius;  // of the gradients
    const double residual = stationarity(*problem, lambda, point.x) / scale;
    worst = std::max(worst, residual);
    ASSERT_LE(residual, 1e-10) << "draw " << draw << ", m = " << m;
    EXPECT_NEAR(psi(*problem, lambda, point.x), point.chebyshev, 1e-15);
  }
  RecordProperty("worst_stationarity", scientific(worst));
}

}  // namespace
}  // namespace apo::objective::test
