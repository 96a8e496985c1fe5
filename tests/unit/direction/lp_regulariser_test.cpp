#include <cmath>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Vector;

DirectionOptions regularised(double strength) {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  options.lp_regulariser = strength;
  return options;
}

TEST(LpRegulariser, OptimalAgainstEveryVertex) {
  CounterRng rng({.seed = 71});
  for (const double strength : {1e-6, 1e-3, 0.1, 3.0, 1e4}) {
    const auto solver = make_solver(regularised(strength));
    for (int k = 0; k < 800; ++k) {
      const int m = 2 + k % 4;
      const auto x = test::draw(rng, m, static_cast<test::Ensemble>(k / 4 % 4), k % 4 == 3);
      const Direction found = solver->solve({x.loss, x.gram, x.preference});
      ASSERT_EQ(found.lp_status, LpStatus::kOptimal) << k;
      EXPECT_FALSE(found.nonunique);
      EXPECT_NE(found.basis_id, 0U);
      const auto lp = test::paper_lp(x, 1e-10, 1e-12);
      const auto rows = test::rows_of(x, lp);
      EXPECT_LE(test::violation(rows, found.mu), 1e-10) << k;
      // Gradient of c'mu / s - (r / 2) mu'mu: no way up to any vertex, hence to no feasible point.
      Vector gradient;
      for (std::size_t j = 0; j < x.loss.size(); ++j) {
        gradient.push_back(lp.objective[j] / lp.scale - strength * found.mu[j]);
      }
      const double here = test::dot(gradient, found.mu);
      const double size = std::max(1.0, strength);
      for (const Vector& v : test::vertices(x.loss.size(), rows)) {
        EXPECT_LE(test::dot(gradient, v), here + 1e-9 * size) << "k=" << k << " r=" << strength;
      }
    }
  }
}

TEST(LpRegulariser, TwoObjectivesClosedForm) {
  // mu = (t, 1 - t): slope of c'mu / s is sigma, of the penalty r (2t - 1)
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  const double sigma = 0.304464431622495 + 0.152232215811248;
  const double high = 0.731331301474996;  // where the second row becomes tight: section 8
  for (const double strength : {0.3, 0.9, 1.0, 2.0, 50.0}) {
    const double t = std::min(high, 0.5 + sigma / (2.0 * strength));
    const auto found = make_solver(regularised(strength))->solve({loss, gram, preference});
    EXPECT_NEAR(found.mu[0], t, 1e-14) << strength;
    EXPECT_NEAR(found.mu[1], 1.0 - t, 1e-14) << strength;
  }
  EXPECT_NEAR(make_solver(regularised(1e-9))->solve({loss, gram, preference}).mu[0], high, 1e-14);
}

TEST(LpRegulariser, ResolvesTies) {
  const Vector identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const Vector preference{.5, .3, .2};
  const Vector balanced{2.0, 10.0 / 3.0, 5.0};
  const auto found = make_solver(regularised(1e-3))->solve({balanced, identity, preference});
  for (const double mu : found.mu) {
    EXPECT_NEAR(mu, 1.0 / 3.0, 1e-12);
  }
}

TEST(LpRegulariser, IsContinuousInTheLossesWhereTheLpJumps) {
  // Opposite signs of A_1 - A_2 around the balanced point make the LP jump between two vertices.
  const Vector preference{.5, .5};
  const Vector gram{1, 0, 0, 1};
  const auto plain = make_solver(regularised(0.0));
  const auto smooth = make_solver(regularised(0.5));
  const Vector above{1.0 + 1e-4, 1.0};
  const Vector below{1.0, 1.0 + 1e-4};
  EXPECT_GT(std::abs(plain->solve({above, gram, preference}).mu[0] -
                     plain->solve({below, gram, preference}).mu[0]),
            0.9);
  EXPECT_LT(std::abs(smooth->solve({above, gram, preference}).mu[0] -
                     smooth->solve({below, gram, preference}).mu[0]),
            1e-3);
}

TEST(LpRegulariser, ScaleOfTheGramDoesNotMatter) {
  CounterRng rng({.seed = 72});
  const auto solver = make_solver(regularised(0.2));
  for (int k = 0; k < 300; ++k) {
    const auto x = test::draw(rng, 2 + k % 4, test::Ensemble::kGeneric, k % 3 == 0);
    Vector scaled = x.gram;
    for (double& c : scaled) {
      c *= 3.1e-9;
    }
    const Direction a = solver->solve({x.loss, x.gram, x.preference});
    const Direction b = solver->solve({x.loss, scaled, x.preference});
    for (std::size_t j = 0; j < x.loss.size(); ++j) {
      EXPECT_NEAR(a.mu[j], b.mu[j], 1e-12) << k;
    }
  }
}

TEST(LpRegulariser, EightObjectivesAndNoMore) {
  CounterRng rng({.seed = 73});
  const auto solver = make_solver(regularised(0.05));
  const auto x = test::draw(rng, 8, test::Ensemble::kNearStationary, false);
  const Direction found = solver->solve({x.loss, x.gram, x.preference});
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
  EXPECT_LE(test::violation(x, test::paper_lp(x, 1e-10, 1e-12), found.mu), 1e-10);
  const auto y = test::draw(rng, 9, test::Ensemble::kGeneric, false);
  EXPECT_THROW(static_cast<void>(solver->solve({y.loss, y.gram, y.preference})), Error);
  EXPECT_THROW(static_cast<void>(make_solver(regularised(-1.0))), Error);
  EXPECT_THROW(static_cast<void>(make_solver(regularised(std::nan("")))), Error);
}

}  // namespace
}  // namespace apo::direction
