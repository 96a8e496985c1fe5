// T-F of algorithms.md section 7 against the definition of psi*: the smallest level that some point
// of the front stays below.

#include <cmath>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

/// Whether some point of the closed front has lambda_j (b + f_j) <= level for all j.
bool level_is_reached(const AnalyticOptions& options, const Vector& lambda, double level) {
  double sum = 0.0;
  for (const double l : lambda) {
    const double room = level / l - options.offset;  // f_j may be as large
    if (options.problem == "convex_front") {
      const double share = std::max(0.0, 1.0 - room);  // of the sphere, at least
      sum += share * share;
      continue;
    }
    if (room < 0.0) {
      return false;
    }
    sum += options.problem == "linear_front" ? room : room * room;
  }
  return options.problem == "convex_front" ? sum <= 1.0 : sum >= 1.0;
}

class PrescribedFront : public testing::TestWithParam<std::string> {};

TEST_P(PrescribedFront, OptimumIsTheLowestReachableLevel) {
  CounterRng rng({.seed = 12, .purpose = Purpose::kTest});
  int met = 0;
  int missed = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 400; ++draw) {
    const std::size_t m = 2 + static_cast<std::size_t>(draw % 7);
    const AnalyticOptions options =
        options_for(GetParam(), static_cast<int>(m), static_cast<int>(m) + 1 + draw % 2,
                    draw % 4 == 0 ? 0.0 : 1.5 * rng.uniform());
    const Vector lambda = random_preference(rng, m, 0.005);
    double low = 0.0;
    double high = 1.0 + options.offset;  // every loss is below that
    ASSERT_TRUE(level_is_reached(options, lambda, high));
    for (int step = 0; step < 100; ++step) {
      const double middle = 0.5 * (low + high);
      (level_is_reached(options, lambda, middle) ? high : low) = middle;
    }
    const auto problem = make_analytic_problem(options);
    const ParetoPoint point = problem->pareto_point(lambda);
    (point.on_ray ? met : missed) += 1;
    worst = std::max(worst, std::abs(point.chebyshev - high));
    EXPECT_NEAR(point.chebyshev, high, 1e-14);
    double smallest = point.chebyshev;
    double largest = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      smallest = std::min(smallest, lambda[j] * point.loss[j]);
      largest = std::max(largest, lambda[j] * point.loss[j]);
    }
    EXPECT_NEAR(largest, point.chebyshev, 1e-15);
    if (point.on_ray) {
      EXPECT_NEAR(smallest, point.chebyshev, 1e-15);
    } else {
      EXPECT_LT(smallest, point.chebyshev);
    }
    if (!point.x.empty()) {
      EXPECT_NEAR(psi(*problem, lambda, point.x), point.chebyshev, 1e-14);
    }
  }
  EXPECT_GT(met, 40);
  EXPECT_GT(GetParam() == "concave_front" || GetParam() == "linear_front" ? missed : met, 40);
  RecordProperty("worst_psi_error", scientific(worst));
}

TEST_P(PrescribedFront, NoParametersAreBetterThanTheOptimum) {
  CounterRng rng({.seed = 13, .purpose = Purpose::kTest});
  for (int draw = 0; draw < 20; ++draw) {
    const std::size_t m = 2 + static_cast<std::size_t>(draw % 3);
    const auto problem = make_analytic_problem(
        options_for(GetParam(), static_cast<int>(m), static_cast<int>(m) + 2));
    const Vector lambda = random_preference(rng, m, 0.8 / static_cast<double>(m));
    const ParetoPoint point = problem->pareto_point(lambda);
    ASSERT_FALSE(point.x.empty());
    for (int trial = 0; trial < 2000; ++trial) {
      Vector x = point.x;
      const double distance = std::pow(10.0, 1.0 - 7.0 * rng.uniform());
      for (double& entry : x) {
        entry += distance * rng.normal();
      }
      ASSERT_GE(psi(*problem, lambda, x), point.chebyshev - 1e-15);
    }
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-12);
  }
}

TEST_P(PrescribedFront, APointAtInfinityIsApproached) {
  const AnalyticOptions options = options_for(GetParam(), 3, 4, 1.0);
  const bool convex = GetParam() == "convex_front";
  const Vector lambda = convex ? Vector{0.5, 0.49, 0.01} : Vector{0.9, 0.05, 0.05};
  const auto problem = make_analytic_problem(options);
  const ParetoPoint point = problem->pareto_point(lambda);
  EXPECT_FALSE(point.on_ray);
  EXPECT_TRUE(point.x.empty());
  Vector x(4, 0.0);
  for (std::size_t j = 0; j < 3; ++j) {
    const double f = point.loss[j] - options.offset;
    const double share = convex ? 1.0 - f : f;
    x[j] = share > 0.0 ? std::log(share) : -40.0;
  }
  EXPECT_NEAR(psi(*problem, lambda, x), point.chebyshev, 1e-14);
  EXPECT_GE(psi(*problem, lambda, x), point.chebyshev - 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PrescribedFront,
                         testing::Values("linear_front", "concave_front", "convex_front"),
                         [](const auto& shape) { return shape.param; });

}  // namespace
}  // namespace apo::objective::test
