/// @file
/// The table of algorithms.md 1.6, row by row, for every variant of the linear program. (Objectives
/// without samples are dropped by the callers, which renormalise the preference.)

#include <cmath>
#include <limits>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Vector;

class DegenerateCases : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static DirectionOptions options() {
    DirectionOptions result;
    result.beta_tolerance = 1e-10;
    result.ascent_tolerance = 1e-12;
    const std::string variant = GetParam();
    if (variant == "guard") {
      result.uniform_guard = "epo_restricted";
    } else if (variant == "lexicographic") {
      result.lp_tie = "lexicographic";
    } else if (variant == "regularised") {
      result.lp_regulariser = 1e-9;
    } else if (variant == "epo") {
      result.solver = "epo";
    }
    return result;
  }
  [[nodiscard]] static Direction solve(const Vector& loss, const Vector& preference,
                                       const Vector& gram) {
    return make_solver(options())->solve({loss, gram, preference});
  }
};

INSTANTIATE_TEST_SUITE_P(Variants, DegenerateCases,
                         testing::Values("plain", "guard", "lexicographic", "regularised", "epo"),
                         [](const auto& variant) { return std::string(variant.param); });

TEST_P(DegenerateCases, AllGradientsVanish) {
  for (const std::size_t m : {1U, 2U, 5U}) {
    for (const double tiny : {0.0, 1e-300}) {
      const Direction found =
          solve(Vector(m, .4), Vector(m, 1.0 / static_cast<double>(m)), Vector(m * m, tiny));
      EXPECT_EQ(found.mode, Mode::kStationary);
      EXPECT_EQ(found.mu, Vector(m, 1.0 / static_cast<double>(m)));
      EXPECT_EQ(found.weight, found.mu);
      EXPECT_EQ(found.direction_norm, 0.0);
      EXPECT_EQ(found.gamma, 0.0);
      EXPECT_EQ(found.lp_status, LpStatus::kNone);
    }
  }
}

TEST_P(DegenerateCases, OneGradientVanishes) {
  const Vector gram{1, 0, .2, 0, 0, 0, .2, 0, .25};
  const Vector preference{.5, .3, .2};
  const Direction balanced = solve({2.0, 10.0 / 3.0, 5.0}, preference, gram);
  EXPECT_EQ(balanced.lp_status, LpStatus::kOptimal);
  EXPECT_NEAR(balanced.mu[0], 1.0, 1e-12) << "the uniform program never selects it";
  for (const Vector& loss : {Vector{1, .5, .8}, Vector{.1, 3, .2}, Vector{.2, .1, 4}}) {
    const Direction found = solve(loss, preference, gram);  // bottlenecks 1, 2 and 3
    EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
    EXPECT_GE(found.min_slack, -1e-12);
    EXPECT_TRUE(std::isfinite(found.gamma));
  }
}

TEST_P(DegenerateCases, OneObjective) {
  const Direction found = solve({.4}, {1}, {9});
  EXPECT_EQ(found.mu, Vector{1});
  EXPECT_EQ(found.weight, Vector{1});
  EXPECT_EQ(found.uniformity, 0.0);
  EXPECT_EQ(found.adjustment, Vector{0});
  EXPECT_EQ(found.lp_status, LpStatus::kNone);
  EXPECT_DOUBLE_EQ(found.direction_norm, 3.0);
}

TEST_P(DegenerateCases, EqualWeightedLosses) {
  CounterRng rng({.seed = 111});
  for (int k = 0; k < 100; ++k) {
    const auto x = test::draw(rng, 2 + k % 4, static_cast<test::Ensemble>(k / 4 % 3), true);
    const Direction found = solve(x.loss, x.preference, x.gram);
    EXPECT_EQ(found.mode, Mode::kUniform);
    const Vector gram_mu = test::product(x.gram, found.mu);
    for (std::size_t j = 0; j < x.loss.size(); ++j) {
      EXPECT_GE(gram_mu[j], -1e-8 * x.gram[0]) << "all objectives are protected";
    }
  }
}

TEST_P(DegenerateCases, NoAlignedObjective) {
  // J empty: all right-hand sides are 0, and the answer is the least harmful common descent.
  CounterRng rng({.seed = 112});
  const auto solver = make_solver(options());
  int seen = 0;
  for (int k = 0; k < 400; ++k) {
    const auto x = test::draw(rng, 2 + k % 3, test::Ensemble::kCorrelated, false);
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    if (found.num_aligned > 0) {
      continue;
    }
    ++seen;
    EXPECT_EQ(found.mode, Mode::kBalancing);
    EXPECT_LE(found.gamma, 0.0);
    auto lp = test::paper_lp(x, 1e-10, 1e-12);
    for (const double bound : lp.bound) {
      EXPECT_EQ(bound, 0.0);
    }
    double best = -std::numeric_limits<double>::infinity();
    for (const Vector& v : test::vertices(x.loss.size(), test::rows_of(x, lp))) {
      best = std::max(best, test::dot(lp.objective, v));
    }
    EXPECT_NEAR(found.gamma, best, 1e-8 * lp.scale);
  }
  EXPECT_GT(seen, 100);
}

TEST_P(DegenerateCases, TiedBottlenecks) {
  CounterRng rng({.seed = 113});
  const auto solver = make_solver(options());
  int one_would_rise = 0;
  for (int k = 0; k < 300; ++k) {
    const auto x = test::draw(rng, 4, test::Ensemble::kNearStationary, false);
    // lambda_1 l_1 = lambda_2 l_2 up to rounding, above the others
    const Vector preference{.3, .3, .2, .2};
    const Vector tied{1.0, 1.0 + 2e-16, .2, .3};
    const Direction found = solver->solve({tied, x.gram, preference});
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_GE(test::dot(&x.gram[4 * j], found.mu.data(), 4), -2e-9 * 100) << k;
    }
    // Clearly below the largest, objective 2 may rise.
    const Vector below{1.0, .97, .2, .3};
    const Direction other = solver->solve({below, x.gram, preference});
    one_would_rise += test::dot(&x.gram[4], other.mu.data(), 4) < -1e-4 ? 1 : 0;
  }
  EXPECT_GT(one_would_rise, 0) << "otherwise the first check says nothing";
}

TEST_P(DegenerateCases, IdenticalAndOppositeGradients) {
  const Direction same = solve({1, .5}, {.7, .3}, {2, 2, 2, 2});
  EXPECT_EQ(same.lp_status, LpStatus::kOptimal);
  EXPECT_NEAR(same.direction_norm, std::sqrt(2.0), 1e-12);
  const Direction opposite = solve({3, 7}, {.7, .3}, {1, -1, -1, 1});
  EXPECT_EQ(opposite.mode, Mode::kUniform);
  EXPECT_NEAR(opposite.mu[0], .5, 1e-12);
  EXPECT_NEAR(opposite.direction_norm, 0.0, 1e-6);
}

TEST_P(DegenerateCases, NumbersThatAreNotFinite) {
  const auto solver = make_solver(options());
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(static_cast<void>(solver->solve({Vector{1, bad}, gram, preference})), Error);
    EXPECT_THROW(static_cast<void>(solver->solve({loss, Vector{1, bad, bad, 1}, preference})),
                 Error);
  }
  EXPECT_EQ(solver->solve({loss, gram, preference}).lp_status, LpStatus::kOptimal);
}

}  // namespace
}  // namespace apo::direction
