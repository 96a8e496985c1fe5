// T-B of algorithms.md section 7 against searches in its plane.

#include <cmath>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

TEST(EpoToyWithThreeObjectives, AgreesWithASearchInItsPlane) {
  // psi is quasi-convex in the plane of the centres, and so is its minimum over b as a function of
  // a: two nested golden sections.
  CounterRng rng({.seed = 10, .purpose = Purpose::kTest});
  int inside = 0;
  int on_sides = 0;
  double worst = 0.0;
  for (int draw = 0; draw < 120; ++draw) {
    const int dimension = 2 + 2 * (draw % 4);
    const double offset = draw % 2 == 0 ? 0.0 : 0.2 * rng.uniform();
    const auto problem = make_analytic_problem(options_for("epo3", 3, dimension, offset));
    const Vector lambda = random_preference(rng, 3, 0.02);
    const ParetoPoint point = problem->pareto_point(lambda);
    expect_consistent(*problem, lambda, point);
    (point.on_ray ? inside : on_sides) += 1;
    const auto in_plane = [&](double a, double b) {
      Vector x(static_cast<std::size_t>(dimension));
      for (std::size_t p = 0; p < x.size(); ++p) {
        x[p] = (a - (p % 2 == 0 ? b : -b)) / std::sqrt(static_cast<double>(dimension));
      }
      return psi(*problem, lambda, x);
    };
    const auto best_b = [&](double a) {
      return golden_section([&](double b) { return in_plane(a, b); }, -0.2, 1.0, 75);
    };
    const double a =
        golden_section([&](double x) { return in_plane(x, best_b(x)); }, -1.0, 1.0, 75);
    const double expected = in_plane(a, best_b(a));
    worst = std::max(worst, std::abs(point.chebyshev - expected));
    EXPECT_NEAR(point.chebyshev, expected, 1e-11);
    EXPECT_LE(point.chebyshev, expected + 1e-14);
    EXPECT_LE(stationarity(*problem, lambda, point.x), 1e-11);
  }
  EXPECT_GT(inside, 20);
  EXPECT_GT(on_sides, 10);
  RecordProperty("worst_psi_error", scientific(worst));
}

TEST(EpoToyWithThreeObjectives, TakesTheRightOneOfSeveralRoots) {
  // The equation of T-B, written down again: psi where three circles meet.
  const auto residual = [](const Vector& lambda, double psi) {
    Vector d;
    for (const double l : lambda) {
      d.push_back(-std::log(1.0 - psi / l));
    }
    const double a = (d[1] - d[0]) / 4.0;
    const double b = (d[0] + 2.0 * a - d[2]) / 2.0;
    return std::pair<double, bool>{(a - 1.0) * (a - 1.0) + b * b - d[0],
                                   b >= 0.0 && std::abs(a) <= 1.0 - b};
  };
  const auto problem = make_analytic_problem(options_for("epo3", 3, 4, 0.0));
  CounterRng rng({.seed = 11, .purpose = Purpose::kTest});
  int with_several_roots = 0;
  int with_false_first_root = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const Vector lambda = random_preference(rng, 3, 0.02);
    const ParetoPoint point = problem->pareto_point(lambda);
    const double high = *std::min_element(lambda.begin(), lambda.end()) * (1.0 - std::exp(-4.0));
    const int steps = 4000;
    int roots = 0;
    double valid_root = -1.0;
    bool first_is_valid = true;
    for (int k = 1; k < steps; ++k) {
      const double left = high * k / steps;
      const double right = high * (k + 1) / steps;
      const auto [at_left, valid_left] = residual(lambda, left);
      const auto [at_right, valid_right] = residual(lambda, right);
      if ((at_left > 0.0) != (at_right > 0.0)) {
        ++roots;
        if (valid_left && valid_right && valid_root < 0.0) {
          valid_root = 0.5 * (left + right);
          first_is_valid = roots == 1;
        }
      }
    }
    if (valid_root > 0.0) {
      EXPECT_TRUE(point.on_ray);
      EXPECT_NEAR(point.chebyshev, valid_root, high / steps);
      with_several_roots += roots > 1 ? 1 : 0;
      with_false_first_root += first_is_valid ? 0 : 1;
    } else {
      EXPECT_FALSE(point.on_ray);
    }
  }
  EXPECT_GT(with_several_roots, 0);
  RecordProperty("with_several_roots", with_several_roots);
  RecordProperty("with_false_first_root", with_false_first_root);
}

TEST(EpoToyWithThreeObjectives, IsContinuousAcrossTheSidesOfItsTriangle) {
  CounterRng rng({.seed = 17, .purpose = Purpose::kTest});
  for (int draw = 0; draw < 40; ++draw) {
    const auto problem =
        make_analytic_problem(options_for("epo3", 3, 2, draw % 2 == 0 ? 0.0 : 0.1));
    const double tilt = 0.04 * rng.uniform();
    Vector inside{0.29 - tilt, 0.29 + tilt, 0.42};
    Vector outside = inside;  // the objective given 0.01 hardly matters
    const auto out = static_cast<std::size_t>(draw % 3);
    outside[out] = 0.01;
    for (std::size_t j = 0; j < 3; ++j) {
      outside[j] *= j == out ? 1.0 : 0.99 / (1.0 - inside[out]);
    }
    ASSERT_TRUE(problem->pareto_point(inside).on_ray);
    ASSERT_FALSE(problem->pareto_point(outside).on_ray);
    for (int step = 0; step < 60; ++step) {
      const Vector middle = between(inside, outside, 0.5);
      (problem->pareto_point(middle).on_ray ? inside : outside) = middle;
      const ParetoPoint one = problem->pareto_point(inside);
      const ParetoPoint other = problem->pareto_point(outside);
      const double gap = std::abs(inside[out] - outside[out]);
      ASSERT_NEAR(one.chebyshev, other.chebyshev, 3.0 * gap + 1e-14);
      ASSERT_LE(stationarity(*problem, inside, one.x), 1e-10);
    }
  }
}

}  // namespace
}  // namespace apo::objective::test
