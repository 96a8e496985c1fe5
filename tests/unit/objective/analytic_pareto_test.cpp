// Pareto points of algorithms.md section 7 against searches and optimality conditions.

#include <cmath>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

/// psi restricted to the Pareto set x(t), t in [0, 1], is quasi-convex for m = 2: its minimum.
double minimum_on_curve(const AnalyticProblem& problem, const Vector& lambda,
                        const std::function<Vector(double)>& curve) {
  const auto f = [&](double t) { return psi(problem, lambda, curve(t)); };
  const double inner = f(golden_section(f, 0.0, 1.0));
  return std::min({inner, f(0.0), f(1.0)});
}

Vector diagonal(int dimension, double norm) {
  return Vector(static_cast<std::size_t>(dimension),
                norm / std::sqrt(static_cast<double>(dimension)));
}

TEST(ParetoPoint, EpoToyAgreesWithASearchAlongItsSegment) {
  CounterRng rng({.seed = 6, .purpose = Purpose::kTest});
  int missed = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 200; ++draw) {
    const double offset = draw % 3 == 0 ? 0.0 : 0.3 * rng.uniform();
    const int dimension = 1 + draw % 5;
    const auto problem = make_analytic_problem(options_for("epo2", 2, dimension, offset));
    const Vector lambda = random_preference(rng, 2, 0.01);
    const ParetoPoint point = problem->pareto_point(lambda);
    expect_consistent(*problem, lambda, point);
    missed += point.on_ray ? 0 : 1;
    const double expected = minimum_on_curve(*problem, lambda, [&](double t) {
      return between(diagonal(dimension, 1.0), diagonal(dimension, -1.0), t);
    });
    worst = std::max(worst, std::abs(point.chebyshev - expected));
    EXPECT_NEAR(point.chebyshev, expected, 1e-14);
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-12);
  }
  EXPECT_GT(missed, 0);
  RecordProperty("worst_psi_error", scientific(worst));
}

TEST(ParetoPoint, QuadraticsAgreeWithASearchAlongTheirSegment) {
  CounterRng rng({.seed = 7, .purpose = Purpose::kTest});
  int missed = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const int dimension = 1 + draw % 4;
    AnalyticOptions options = options_for("quadratic", 2, dimension, draw % 2 == 0 ? 0.0 : 0.1);
    options.radius = 0.2 + 2.0 * rng.uniform();
    options.curvature = {0.1 + 3.0 * rng.uniform(), 0.1 + 3.0 * rng.uniform()};
    if (draw % 3 == 0) {
      options.offsets = {rng.uniform(), rng.uniform()};
    }
    const auto problem = make_analytic_problem(options);
    const Vector lambda = random_preference(rng, 2, 0.01);
    const ParetoPoint point = problem->pareto_point(lambda);
    expect_consistent(*problem, lambda, point);
    missed += point.on_ray ? 0 : 1;
    const double expected = minimum_on_curve(*problem, lambda, [&](double t) {
      return between(diagonal(dimension, options.radius), diagonal(dimension, -options.radius), t);
    });
    EXPECT_NEAR(point.chebyshev, expected, 1e-14 * (1.0 + expected));
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-12);
  }
  EXPECT_GT(missed, 5);
}

TEST(ParetoPoint, EqualQuadraticsHaveTheSpecialForm) {
  // s = 1, b = 0: t = sqrt(l2) / (sqrt(l1) + sqrt(l2)), psi* = 1/2 D^2 l1 l2 / (sum of roots)^2
  AnalyticOptions options = options_for("quadratic", 2, 3, 0.0);
  options.radius = 1.5;
  const auto problem = make_analytic_problem(options);
  for (const double l1 : {0.01, 0.3, 0.5, 0.77}) {
    const double roots = std::sqrt(l1) + std::sqrt(1.0 - l1);
    const ParetoPoint point = problem->pareto_point(Vector{l1, 1.0 - l1});
    EXPECT_NEAR(point.chebyshev, 0.5 * 9.0 * l1 * (1.0 - l1) / (roots * roots), 1e-15);
    const Vector x = between(diagonal(3, 1.5), diagonal(3, -1.5), std::sqrt(1.0 - l1) / roots);
    EXPECT_NEAR(point.x[0], x[0], 1e-15);
  }
}

TEST(ParetoPoint, AnisotropicQuadraticsAgreeWithASearchAlongTheirCurve) {
  CounterRng rng({.seed = 8, .purpose = Purpose::kTest});
  int missed = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 60; ++draw) {
    const int dimension = 1 + draw % 6;
    const auto n = static_cast<std::size_t>(dimension);
    AnalyticOptions options = options_for("anisotropic", 2, dimension);
    options.condition = 1.0 + 50.0 * rng.uniform();
    options.radius = 0.5 + rng.uniform();
    if (draw % 3 == 0) {
      options.offsets = {3.0 * rng.uniform(), 3.0 * rng.uniform()};
    }
    const auto problem = make_analytic_problem(options);
    const Vector c1 = diagonal(dimension, options.radius);
    const Vector c2 = diagonal(dimension, -options.radius);
    // The matrices, column by column, from the gradients of the quadratics.
    std::vector<Vector> h(2, Vector(n * n));
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t j = 0; j < 2; ++j) {
        Vector x = j == 0 ? c1 : c2;
        x[p] += 1.0;
        const Vector gradients = gradients_at(*problem, x);
        for (std::size_t q = 0; q < n; ++q) {
          h[j][q * n + p] = gradients[j * n + q];
        }
      }
    }
    // x(alpha) by Gauss-Seidel on the positive definite system, to convergence.
    const auto curve = [&](double alpha) {
      Vector x(n, 0.0);
      for (int sweep = 0; sweep < 3000; ++sweep) {
        double change = 0.0;
        for (std::size_t p = 0; p < n; ++p) {
          double rest = 0.0;
          double diagonal_entry = 0.0;
          for (std::size_t q = 0; q < n; ++q) {
            const double first = alpha * h[0][p * n + q];
            const double second = (1.0 - alpha) * h[1][p * n + q];
            rest += first * c1[q] + second * c2[q];
            if (q == p) {
              diagonal_entry = first + second;
            } else {
              rest -= (first + second) * x[q];
            }
          }
          change = std::max(change, std::abs(rest / diagonal_entry - x[p]));
          x[p] = rest / diagonal_entry;
        }
        if (change == 0.0) {
          break;
        }
      }
      return x;
    };
    const Vector lambda = random_preference(rng, 2, 0.02);
    const ParetoPoint point = problem->pareto_point(lambda);
    expect_consistent(*problem, lambda, point);
    missed += point.on_ray ? 0 : 1;
    const double expected = minimum_on_curve(*problem, lambda, curve);
    worst = std::max(worst, std::abs(point.chebyshev - expected));
    EXPECT_NEAR(point.chebyshev, expected, 1e-13 * (1.0 + expected));
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-11);
  }
  EXPECT_GT(missed, 0);
  RecordProperty("worst_psi_error", scientific(worst));
}

TEST(ParetoPoint, SimplexCentresHoldTheOptimalityConditions) {
  // psi is convex: a point whose active gradients have 0 in their hull is the minimiser.
  CounterRng rng({.seed = 9, .purpose = Purpose::kTest});
  int full = 0;
  int partial = 0;
  int single = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 600; ++draw) {
    const std::size_t m = 2 + static_cast<std::size_t>(draw % 6);
    AnalyticOptions options =
        options_for("simplex", static_cast<int>(m), static_cast<int>(m) + draw % 3,
                    draw % 4 == 0 ? 0.0 : 0.5 * rng.uniform());
    options.radius = 0.3 + 2.0 * rng.uniform();
    const auto problem = make_analytic_problem(options);
    const Vector lambda = random_preference(rng, m, 0.003);
    const ParetoPoint point = problem->pareto_point(lambda);
    expect_consistent(*problem, lambda, point);
    const double residual = stationarity(*problem, lambda, point.x);
    worst = std::max(worst, residual);
    EXPECT_LE(residual, 1e-11) << "m = " << m;
    std::size_t active = 0;
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_GE(point.x[j], 0.0);
      active += lambda[j] * point.loss[j] >= (1.0 - 1e-10) * point.chebyshev ? 1 : 0;
    }
    EXPECT_EQ(point.on_ray, active == m);
    (active == m ? full : active == 1 ? single : partial) += 1;
  }
  EXPECT_GT(full, 20);
  EXPECT_GT(partial, 20);
  EXPECT_GT(single, 5);
  RecordProperty("worst_stationarity", scientific(worst));
}

TEST(ParetoPoint, SimplexCentresAreContinuousAcrossTheBorderOfAnActiveSet) {
  const auto problem = make_analytic_problem(options_for("simplex", 3, 3));
  const auto at = [&](double t) {
    return problem->pareto_point(Vector{0.6 - 0.5 * t, 0.4 - 0.4 * t, 0.9 * t});
  };
  double low = 0.01;  // l3 hardly matters: not active
  double high = 0.3;
  ASSERT_FALSE(at(low).on_ray);
  ASSERT_TRUE(at(high).on_ray);
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (at(middle).on_ray ? high : low) = middle;
  }
  EXPECT_NEAR(at(low).chebyshev, at(high).chebyshev, 1e-14);
  EXPECT_NEAR(at(high).x[2], 0.0, 1e-7);
}

TEST(ParetoPoint, CounterExamplesOnTheLine) {
  const auto flat = make_analytic_problem(options_for("flat_stationary", 2, 1));
  const Vector half{0.5, 0.5};
  EXPECT_EQ(flat->start(7), Vector{0.0});
  EXPECT_EQ(psi(*flat, half, Vector{0.0}), 1.0);
  EXPECT_EQ(flat->pareto_point(half).chebyshev, 0.5);
  EXPECT_TRUE(flat->pareto_point(half).on_ray);
  EXPECT_FALSE(flat->pareto_point(Vector{0.7, 0.3}).on_ray);
  EXPECT_EQ(flat->pareto_point(Vector{0.7, 0.3}).chebyshev, 0.7);
  const auto v = make_analytic_problem(options_for("v_shape", 2, 1));
  for (const double w : {-0.7, 0.0, 0.2}) {
    EXPECT_NEAR(psi(*v, half, Vector{w}), 0.5 + 0.5 * std::abs(w), 1e-16);
  }
  for (const double l1 : {0.1, 0.5, 0.8}) {
    const Vector lambda{l1, 1.0 - l1};
    const ParetoPoint point = v->pareto_point(lambda);
    expect_consistent(*v, lambda, point);
    const auto f = [&](double w) { return psi(*v, lambda, Vector{w}); };
    EXPECT_NEAR(point.chebyshev, f(golden_section(f, -1.0, 1.0)), 1e-15);
  }
}

TEST(ParetoPoint, ConsensusIsTheCentre) {
  AnalyticOptions options = options_for("consensus", 1, 4);
  options.curvature = {2.5};
  const auto problem = make_analytic_problem(options);
  const ParetoPoint point = problem->pareto_point(Vector{1.0});
  EXPECT_NEAR(point.chebyshev, 0.1, 1e-16);
  for (const double entry : gradients_at(*problem, point.x)) {
    EXPECT_EQ(entry, 0.0);
  }
}

}  // namespace
}  // namespace apo::objective::test
