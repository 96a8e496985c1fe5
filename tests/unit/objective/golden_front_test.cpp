// Numbers of algorithms.md section 8 and the front equations of section 7.

#include <cmath>
#include <numbers>
#include <numeric>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

TEST(GoldenNumbers, EpoToyWithTwoObjectives) {
  struct Row {
    double lambda;
    double s;
    double psi;
  };
  for (const int dimension : {1, 2, 20, 33}) {
    const auto problem = make_analytic_problem(options_for("epo2", 2, dimension, 0.0));
    for (const Row& row :
         {Row{0.7, 0.335894387549993, 0.249641437717568},
          Row{0.9, 0.66821579714717, 0.0938143862054481}, Row{0.5, 0.0, 0.316060279414279}}) {
      const ParetoPoint point = problem->pareto_point(Vector{row.lambda, 1.0 - row.lambda});
      EXPECT_NEAR(point.chebyshev, row.psi, 1e-15);
      EXPECT_TRUE(point.on_ray);
      for (const double entry : point.x) {
        EXPECT_NEAR(entry * std::sqrt(static_cast<double>(dimension)), row.s, 1e-14);
      }
    }
  }
}

TEST(GoldenNumbers, SimplexCentresWithThreeObjectives) {
  for (const int dimension : {3, 8}) {
    const auto problem = make_analytic_problem(options_for("simplex", 3, dimension));
    const ParetoPoint point = problem->pareto_point(Vector{0.45, 0.35, 0.2});
    EXPECT_NEAR(point.chebyshev, 0.14162335240003, 1e-14);
    EXPECT_NEAR(point.x[0], 0.494439263312204, 1e-14);
    EXPECT_NEAR(point.x[1], 0.404519674486788, 1e-14);
    EXPECT_NEAR(point.x[2], 0.101041062201009, 1e-14);
    for (std::size_t p = 3; p < point.x.size(); ++p) {
      EXPECT_EQ(point.x[p], 0.0);
    }
    EXPECT_TRUE(point.on_ray);
  }
}

TEST(GoldenNumbers, ClassicalFrontsOnTheRay) {
  const Vector lambda{0.7, 0.3};
  const Vector zdt1 = classical_front_point(ClassicalFront::kZdt1, lambda);
  EXPECT_NEAR(std::sqrt(zdt1[0]), 0.474546482928068, 1e-15);
  const Vector zdt2 = classical_front_point(ClassicalFront::kZdt2, lambda);
  EXPECT_NEAR(zdt2[0], 0.369924076215481, 1e-15);
}

TEST(FrontEquations, ClassicalFrontsHoldTheirEquationAndLieOnTheRay) {
  CounterRng rng({.seed = 4, .purpose = Purpose::kTest});
  for (int draw = 0; draw < 200; ++draw) {
    for (const auto front : {ClassicalFront::kZdt1, ClassicalFront::kZdt2, ClassicalFront::kDtlz1,
                             ClassicalFront::kDtlz2}) {
      const bool zdt = front == ClassicalFront::kZdt1 || front == ClassicalFront::kZdt2;
      const std::size_t m = zdt ? 2 : 2 + static_cast<std::size_t>(draw % 7);
      const Vector lambda = random_preference(rng, m, 0.01);
      const Vector f = classical_front_point(front, lambda);
      for (std::size_t j = 1; j < m; ++j) {
        EXPECT_NEAR(lambda[j] * f[j], lambda[0] * f[0], 2e-15);
      }
      switch (front) {
        case ClassicalFront::kZdt1:
          EXPECT_NEAR(f[1], 1.0 - std::sqrt(f[0]), 1e-15);
          break;
        case ClassicalFront::kZdt2:
          EXPECT_NEAR(f[1], 1.0 - f[0] * f[0], 1e-15);
          break;
        case ClassicalFront::kDtlz1:
          EXPECT_NEAR(std::accumulate(f.begin(), f.end(), 0.0), 0.5, 1e-15);
          break;
        case ClassicalFront::kDtlz2:
          EXPECT_NEAR(std::inner_product(f.begin(), f.end(), f.begin(), 0.0), 1.0, 2e-15);
          break;
      }
    }
  }
}

/// Sum of g(loss_j - b) over j: what the front sets to a constant.
double front_sum(const AnalyticOptions& options, const Vector& loss) {
  double sum = 0.0;
  for (const double entry : loss) {
    const double f = entry - options.offset;
    sum += options.problem == "linear_front"    ? f
           : options.problem == "concave_front" ? f * f
                                                : (1.0 - f) * (1.0 - f);
  }
  return sum;
}

TEST(FrontEquations, PrescribedFrontsHoldTheirEquationAndLieOnTheRay) {
  CounterRng rng({.seed = 5, .purpose = Purpose::kTest});
  double worst = 0.0;
  for (const std::string problem : {"linear_front", "concave_front", "convex_front"}) {
    int met = 0;
    for (int draw = 0; draw < 300; ++draw) {
      const int m = 2 + draw % 7;
      AnalyticOptions options = options_for(problem, m, m + 2, draw % 3 == 0 ? 0.0 : 0.1);
      const Vector lambda = random_preference(rng, static_cast<std::size_t>(m), 0.5 / m);
      const auto front = make_analytic_problem(options);
      const ParetoPoint point = front->pareto_point(lambda);
      if (!point.on_ray) {
        continue;
      }
      ++met;
      const double error = std::abs(front_sum(options, point.loss) - 1.0);
      worst = std::max(worst, error);
      EXPECT_LE(error, 1e-14);
      for (std::size_t j = 0; j < lambda.size(); ++j) {
        EXPECT_NEAR(lambda[j] * point.loss[j], point.chebyshev, 1e-15);
      }
      // The parameters give these losses.
      Vector loss(lambda.size());
      front->evaluate(point.x, loss, {});
      for (std::size_t j = 0; j < loss.size(); ++j) {
        EXPECT_NEAR(loss[j], point.loss[j], 1e-14);
      }
    }
    EXPECT_GE(met, 60) << problem;
  }
  RecordProperty("worst_front_equation_error", scientific(worst));
}

}  // namespace
}  // namespace apo::objective::test
