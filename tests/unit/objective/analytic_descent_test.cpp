// One client's descent along the directions of the APO LP, in float64: algorithms.md sections 1.3
// (what accuracy a tolerance on beta gives), 1.5 (the trap of zero minima) and 10.4.

#include <cmath>
#include <numbers>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

class Descent {
 public:
  Descent(const AnalyticProblem& problem, Vector lambda, Vector start, double beta_tolerance,
          double loss_floor = 1e-12)
      : problem_(problem),
        lambda_(std::move(lambda)),
        x_(std::move(start)),
        loss_(lambda_.size()),
        gradients_(lambda_.size() * x_.size()),
        gram_(lambda_.size() * lambda_.size()) {
    direction::DirectionOptions options;
    options.beta_tolerance = beta_tolerance;
    options.ascent_tolerance = 1e-12;  // the Gram matrix is in float64
    options.loss_floor = loss_floor;
    solver_ = direction::make_solver(options);
  }

  /// x <- x - rate d. @return what the solver said about d
  direction::Direction step(double rate) {
    const std::size_t m = lambda_.size();
    const std::size_t n = x_.size();
    problem_.evaluate(x_, loss_, gradients_);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        double sum = 0.0;
        for (std::size_t p = 0; p < n; ++p) {
          sum += gradients_[i * n + p] * gradients_[j * n + p];
        }
        gram_[i * m + j] = sum;
      }
    }
    direction::Problem problem;
    problem.loss = loss_;
    problem.gram = gram_;
    problem.preference = lambda_;
    const direction::Direction result = solver_->solve(problem);
    for (std::size_t p = 0; p < n; ++p) {
      double sum = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        sum += result.weight[j] * gradients_[j * n + p];
      }
      x_[p] -= rate * sum;
    }
    return result;
  }

  /// (psi - psi*) / psi* now.
  [[nodiscard]] double gap() const {
    const double best = problem_.pareto_point(lambda_).chebyshev;
    return (psi(problem_, lambda_, x_) - best) / best;
  }
  [[nodiscard]] const Vector& x() const { return x_; }
  [[nodiscard]] const Vector& loss() const { return loss_; }

 private:
  const AnalyticProblem& problem_;
  Vector lambda_;
  Vector x_;
  Vector loss_;
  Vector gradients_;
  Vector gram_;
  std::unique_ptr<direction::DirectionSolver> solver_;
};

double final_gap(const AnalyticProblem& problem, const Vector& lambda, std::uint64_t seed,
                 double beta_tolerance, int steps, const std::function<double(int)>& rate) {
  Descent descent(problem, lambda, problem.start(seed), beta_tolerance);
  for (int t = 1; t <= steps; ++t) {
    (void)descent.step(rate(t));
  }
  return descent.gap();
}

/// Half of 1 / L_0, at most 0.3; 0.1 where L_0 is not known.
double steady_rate(const AnalyticProblem& problem) {
  const double smoothness = problem.smoothness();
  return std::isnan(smoothness) ? 0.1 : std::min(0.3, 0.5 / smoothness);
}

std::vector<AnalyticOptions> two_objectives() {
  return {options_for("epo2", 2, 20),        options_for("quadratic", 2, 4),
          options_for("simplex", 2, 5),      options_for("anisotropic", 2, 5),
          options_for("linear_front", 2, 4), options_for("concave_front", 2, 4),
          options_for("convex_front", 2, 4)};
}

TEST(SingleClientDescent, TwoObjectivesReachTheParetoPointWithinTheToleranceOnBeta) {
  // Measured at beta_tol = 1e-4, 1e-6, 1e-10: up to 2.2e-2, 2.1e-3, 2.2e-5.
  for (const AnalyticOptions& options : two_objectives()) {
    const auto problem = make_analytic_problem(options);
    const double rate = steady_rate(*problem);
    for (const double tolerance : {1e-4, 1e-6, 1e-10}) {
      double worst = 0.0;
      std::uint64_t seed = 0;
      for (const double first : {0.35, 0.5, 0.6}) {
        const Vector lambda{first, 1.0 - first};
        ASSERT_TRUE(problem->pareto_point(lambda).on_ray);
        const double gap =
            final_gap(*problem, lambda, ++seed, tolerance, 3000, [&](int) { return rate; });
        worst = std::max(worst, gap);
        EXPECT_GE(gap, -1e-12);
        EXPECT_LE(gap, 1.2 * std::sqrt(2.0 * 2.0 * tolerance))
            << options.problem << ", lambda_1 = " << first << ", beta_tol = " << tolerance;
      }
      RecordProperty(options.problem + "_" + scientific(tolerance), scientific(worst));
    }
  }
}

TEST(SingleClientDescent, TwoObjectivesNeverMissByMoreThanTheConeAllows) {
  // On the front one of the two weighted losses is at most psi*; with beta = x^2 / 2 the other is
  // larger by (1 + x) / (1 - x), so the gap is at most 2 x + ... = sqrt(2) sqrt(2 m beta_tol),
  // attained where the front is steep. 1 %: higher orders, and the distance left to the front.
  CounterRng rng({.seed = 18, .purpose = Purpose::kTest});
  const double tolerance = 1e-6;
  double worst = 0.0;
  int met = 0;
  for (const AnalyticOptions& options : two_objectives()) {
    const auto problem = make_analytic_problem(options);
    const double rate = steady_rate(*problem);
    for (std::uint64_t draw = 0; draw < 6; ++draw) {
      const Vector lambda = random_preference(rng, 2, 0.2);
      if (!problem->pareto_point(lambda).on_ray) {
        continue;
      }
      ++met;
      const double gap =
          final_gap(*problem, lambda, draw, tolerance, 3000, [&](int) { return rate; });
      worst = std::max(worst, gap / std::sqrt(2.0 * 2.0 * tolerance));
      EXPECT_LE(gap, 1.01 * std::sqrt(2.0) * std::sqrt(2.0 * 2.0 * tolerance))
          << options.problem << ", lambda_1 = " << lambda[0];
    }
  }
  EXPECT_GE(met, 30);
  RecordProperty("worst_gap_over_sqrt_2_m_beta_tol", std::to_string(worst));
}

struct Setting {
  AnalyticOptions options;
  Vector lambda;
};

std::vector<Setting> more_objectives() {
  return {{options_for("epo3", 3, 10), {0.28, 0.27, 0.45}},
          {options_for("simplex", 3, 8), {0.45, 0.35, 0.2}},
          {options_for("simplex", 3, 8), {0.3, 0.36, 0.34}},
          {options_for("simplex", 4, 8), {0.3, 0.27, 0.23, 0.2}},
          {options_for("linear_front", 3, 5), {0.3, 0.4, 0.3}},
          {options_for("concave_front", 3, 5), {0.25, 0.35, 0.4}},
          {options_for("convex_front", 3, 5), {0.3, 0.3, 0.4}}};
}

TEST(SingleClientDescent, MoreObjectivesChatterByTheStepSizeAtConstantRate) {
  std::uint64_t seed = 0;
  for (const Setting& setting : more_objectives()) {
    const auto problem = make_analytic_problem(setting.options);
    const double m = static_cast<double>(setting.lambda.size());
    ASSERT_TRUE(problem->pareto_point(setting.lambda).on_ray);
    for (const double tolerance : {1e-4, 1e-8}) {
      for (const double rate : {0.1, 0.02}) {
        const double gap =
            final_gap(*problem, setting.lambda, ++seed, tolerance, 3000, [&](int) { return rate; });
        EXPECT_LE(gap, std::max(1.5 * std::sqrt(2.0 * m * tolerance), 1.5 * rate))
            << setting.options.problem << ", m = " << m << ", beta_tol = " << tolerance;
        RecordProperty(setting.options.problem + "_m" + std::to_string(setting.lambda.size()) +
                           "_" + scientific(tolerance) + "_rate_" + scientific(rate),
                       scientific(gap));
      }
    }
  }
}

TEST(SingleClientDescent, MoreObjectivesConvergeWithDecayingSteps) {
  // Measured: 1.5e-4 (m = 3, lambda of section 8), 2.1e-4 (m = 4).
  std::uint64_t seed = 0;
  for (const Setting& setting : more_objectives()) {
    const auto problem = make_analytic_problem(setting.options);
    const double gap = final_gap(*problem, setting.lambda, ++seed, 1e-8, 10000,
                                 [](int t) { return 0.3 / std::sqrt(static_cast<double>(t)); });
    EXPECT_LE(gap, 5e-3) << setting.options.problem << ", m = " << setting.lambda.size();
    RecordProperty(setting.options.problem + "_m" + std::to_string(setting.lambda.size()) + "_" +
                       std::to_string(seed),
                   scientific(gap));
  }
}

TEST(SingleClientDescent, AFlatStationaryPointIsReportedAndNotLeft) {
  // T-G (i): beta = 0 and G = 0 at w = 0, where psi = 1 is twice psi* = 1/2.
  const auto problem = make_analytic_problem(options_for("flat_stationary", 2, 1));
  Descent descent(*problem, {0.5, 0.5}, problem->start(1), 1e-4);
  const direction::Direction direction = descent.step(0.1);
  EXPECT_EQ(direction.mode, direction::Mode::kStationary);
  EXPECT_EQ(direction.direction_norm, 0.0);
  EXPECT_EQ(direction.chebyshev, 1.0);
  EXPECT_NEAR(direction.uniformity, 0.0, 1e-15);
  EXPECT_EQ(direction.mu, (Vector{0.5, 0.5}));
  EXPECT_EQ(descent.x(), Vector{0.0});
  EXPECT_EQ(descent.gap(), 1.0);
}

/// Behind c_2 = -(1, 1) / sqrt(2) as seen from c_1, `side` away from the line through both.
Vector behind_second_centre(double side) {
  const double root = 1.0 / std::sqrt(2.0);
  return {-1.4 * root + side * root, -1.4 * root - side * root};
}

const Vector kHalf{0.5, 0.5};

TEST(ZeroMinimumTrap, DescentFallsIntoTheSecondMinimiserAndTheSolverSaysSo) {
  const auto problem = make_analytic_problem(options_for("quadratic", 2, 2, 0.0));
  for (const double side : {0.0, 0.2, 0.6}) {
    Descent descent(*problem, kHalf, behind_second_centre(side), 1e-6);
    direction::Direction last;
    double previous = 0.0;
    for (int t = 0; t < 200; ++t) {
      last = descent.step(0.1);
      // J is empty: no objective's gradient balances, and the least harmful is the smallest.
      ASSERT_EQ(last.mode, direction::Mode::kBalancing);
      ASSERT_EQ(last.num_aligned, 0);
      ASSERT_EQ(last.mu, (Vector{0.0, 1.0}));
      ASSERT_LT(last.gamma, 0.0);
      ASSERT_GE(last.uniformity, previous);
      ASSERT_TRUE(std::isfinite(last.uniformity) && std::isfinite(last.gamma));
      ASSERT_TRUE(std::isfinite(last.adjustment[0]) && std::isfinite(last.adjustment[1]));
      previous = last.uniformity - 1e-15;
    }
    EXPECT_NEAR(last.uniformity, std::numbers::ln2, 1e-10);
    EXPECT_EQ(last.losses_floored, 1);
    EXPECT_GT(descent.loss()[1], 0.0);
    EXPECT_LT(descent.loss()[1], 1e-15);
    EXPECT_NEAR(descent.gap(), 3.0, 1e-6);  // psi = 1 at c_2, psi* = 1/4
  }
}

TEST(ZeroMinimumTrap, LastsWithoutTheFloorOnLossesAndEndsWithIt) {
  // Below the floor the floored loss no longer draws A_2 to -infinity while the gradient goes on
  // vanishing: J becomes {1} and the iterate leaves.
  const auto problem = make_analytic_problem(options_for("quadratic", 2, 2, 0.0));
  for (const double floor : {1e-300, 1e-12}) {
    Descent descent(*problem, kHalf, behind_second_centre(0.0), 1e-6, floor);
    direction::Direction last;
    for (int t = 0; t < 2000; ++t) {
      last = descent.step(0.1);
      for (const double entry : descent.x()) {
        ASSERT_TRUE(std::isfinite(entry));
      }
    }
    if (floor < 1e-200) {
      EXPECT_EQ(last.num_aligned, 0);
      EXPECT_NEAR(last.uniformity, std::numbers::ln2, 1e-15);
      EXPECT_NEAR(descent.gap(), 3.0, 1e-6);
    } else {
      EXPECT_EQ(last.mode, direction::Mode::kUniform);
      EXPECT_LE(descent.gap(), 1.2 * std::sqrt(4.0 * 1e-6));
    }
  }
}

TEST(ZeroMinimumTrap, IsGoneWhenLossesStayAwayFromZero) {
  const auto problem = make_analytic_problem(options_for("quadratic", 2, 2, 0.1));
  for (const double side : {0.0, 0.2, 0.6}) {
    Descent descent(*problem, kHalf, behind_second_centre(side), 1e-6, 1e-300);
    for (int t = 0; t < 200; ++t) {
      (void)descent.step(0.1);
    }
    EXPECT_LE(descent.gap(), 1.2 * std::sqrt(4.0 * 1e-6));
  }
}

}  // namespace
}  // namespace apo::objective::test
