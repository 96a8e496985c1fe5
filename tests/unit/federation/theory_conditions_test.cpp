#include "apo/federation/theory_conditions.hpp"

#include <algorithm>
#include <cmath>

#include "theory_cluster.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using testing::combine;
using testing::difference;
using testing::ExplicitClient;
using testing::ExplicitCluster;
using testing::inner;
using testing::length;
using testing::lp;
using testing::make_round;
using testing::Round;
using testing::Vec;

TEST(TheoryConditions, DeviationAgreesWithTheVectors) {
  CounterRng rng({1, Purpose::kTest});
  const auto solver = lp();
  for (int k = 0; k < 50; ++k) {
    const Round round = make_round(rng, 4, 3, 0.5, 0.1, *solver);
    for (std::size_t i = 0; i < round.terms.size(); ++i) {
      const ExplicitClient& c = round.quadratics.cluster.clients[i];
      const double expected = length(difference(round.quadratics.cluster.mean, c.d));
      const Deviation found = deviation_from_products(round.shared.norm, round.terms[i].product,
                                                      c.direction.weight, round.terms[i].gram);
      EXPECT_NEAR(found.value, expected, 1e-9 * (1.0 + expected));
    }
  }
}

TEST(TheoryConditions, CancellationIsNoticed) {
  // Two directions that differ by 1e-5 of their length: the formula has lost its digits.
  const Vec gram = {1.0};
  const Vec weight = {1.0};
  const double near_one = 1.0 + 1e-5;

  EXPECT_TRUE(deviation_from_products(near_one, Vec{near_one}, weight, gram).cancelled);
  EXPECT_FALSE(deviation_from_products(1.5, Vec{1.5}, weight, gram).cancelled);
  EXPECT_NEAR(deviation_from_products(1.5, Vec{1.5}, weight, gram).value, 0.5, 1e-15);
  // Orthogonal directions: sqrt(1 + 4).
  EXPECT_NEAR(deviation_from_products(2.0, Vec{0.0}, weight, gram).value, std::sqrt(5.0), 1e-15);
}

TEST(TheoryConditions, BothDispersionFormulasAgree) {
  CounterRng rng({2, Purpose::kTest});
  const auto solver = lp();
  for (int k = 0; k < 100; ++k) {
    const Round round = make_round(rng, 2 + k % 5, 2 + k % 4, 0.3, 0.1, *solver);
    const RoundConditions result = evaluate_round(round.terms, round.shared);
    double expected = 0.0;
    for (const ExplicitClient& c : round.quadratics.cluster.clients) {
      const Vec x = difference(round.quadratics.cluster.mean, c.d);
      expected += c.rho * inner(x, x);
    }
    EXPECT_NEAR(result.dispersion, expected, 1e-10 * (1.0 + expected));
    EXPECT_NEAR(result.dispersion_from_norms, expected, 1e-10 * (1.0 + expected));
    EXPECT_LE(result.dispersion_mismatch, 1e-10);
  }
}

TEST(TheoryConditions, CommonGradientsTurnTheSpreadIntoTheDispersion) {
  CounterRng rng({3, Purpose::kTest});
  const auto solver = lp();
  const Round round = make_round(rng, 5, 3, 0.0, 0.1, *solver);
  const RoundConditions result = evaluate_round(round.terms, round.shared);
  EXPECT_EQ(result.common_gradients, 1);
  EXPECT_EQ(result.common_losses, 1);
  EXPECT_NEAR(result.dispersion_common, result.dispersion, 1e-10);

  const Round apart = make_round(rng, 5, 3, 0.5, 0.1, *solver);
  EXPECT_EQ(evaluate_round(apart.terms, apart.shared).common_gradients, 0);
}

TEST(TheoryConditions, LocalQuantitiesAgreeWithTheVectors) {
  CounterRng rng({4, Purpose::kTest});
  const auto solver = lp();
  for (int k = 0; k < 40; ++k) {
    const double eta = 0.05;
    const Round round = make_round(rng, 3, 3, 0.4, eta, *solver);
    const RoundConditions result = evaluate_round(round.terms, round.shared);
    const ExplicitCluster& cluster = round.quadratics.cluster;
    const double bound = cluster.bound();
    EXPECT_NEAR(result.gradient_bound, bound, 1e-12 * bound);
    for (std::size_t i = 0; i < 3; ++i) {
      const ExplicitClient& c = cluster.clients[i];
      const ClientConditions& row = result.clients[i];
      EXPECT_NEAR(row.direction_norm, length(c.d), 1e-9);
      EXPECT_NEAR(row.balancing_norm, length(c.d_bal), 1e-9);
      EXPECT_NEAR(row.margin, inner(c.d, c.d_bal), 1e-12);
      EXPECT_NEAR(row.balancing_product, inner(cluster.mean, c.d_bal), 1e-12);
      const double deviation = length(difference(cluster.mean, c.d));
      EXPECT_NEAR(row.t2_slack, row.margin - deviation * length(c.d_bal) - bound * bound * eta,
                  1e-9);

      // Near-active objectives by definition.
      double psi = 0.0;
      double lambda_max = 0.0;
      for (std::size_t j = 0; j < 3; ++j) {
        psi = std::max(psi, c.preference[j] * c.loss[j]);
        lambda_max = std::max(lambda_max, c.preference[j]);
      }
      const double width = 2.0 * eta * lambda_max * bound * bound;
      double zeta = 1e300;
      double xi = 1e300;
      int near = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        if (c.preference[j] * c.loss[j] >= psi - width) {
          ++near;
          zeta = std::min(zeta, c.preference[j] * inner(c.d, c.gradients[j]));
          xi = std::min(xi, c.preference[j] * inner(cluster.mean, c.gradients[j]));
        }
      }
      EXPECT_EQ(row.near_active, near);
      EXPECT_NEAR(row.descent_margin, zeta, 1e-12);
      EXPECT_NEAR(row.shared_descent, xi, 1e-12);
      EXPECT_NEAR(row.chebyshev, psi, 1e-15);
    }
  }
}

TEST(TheoryConditions, NearActiveHullHasTheShortestVector) {
  CounterRng rng({5, Purpose::kTest});
  const auto solver = lp();
  for (int k = 0; k < 20; ++k) {
    // A wide activation width: all three objectives are near-active.
    const Round round = make_round(rng, 1, 3, 0.4, 10.0, *solver);
    const RoundConditions result = evaluate_round(round.terms, round.shared);
    const ExplicitClient& c = round.quadratics.cluster.clients[0];
    ASSERT_EQ(result.clients[0].near_active, 3);
    double shortest = 1e300;
    const int grid = 200;
    for (int a = 0; a <= grid; ++a) {
      for (int b = 0; a + b <= grid; ++b) {
        const Vec alpha = {c.preference[0] * a / grid, c.preference[1] * b / grid,
                           c.preference[2] * (grid - a - b) / grid};
        shortest = std::min(shortest, length(combine(c.gradients, alpha)));
      }
    }
    EXPECT_LE(result.clients[0].near_active_norm, shortest + 1e-12);
    EXPECT_GE(result.clients[0].near_active_norm, shortest - 0.02);
    EXPECT_NEAR(result.clients[0].comparability,
                result.clients[0].descent_margin / std::pow(result.clients[0].near_active_norm, 2),
                1e-12 * std::abs(result.clients[0].comparability));
  }
}

TEST(TheoryConditions, RangeConditionIsSufficientForBalancingDescent) {
  CounterRng rng({6, Purpose::kTest});
  const auto solver = lp();
  int held = 0;
  int failed = 0;
  for (int k = 0; k < 400; ++k) {
    const double eta = std::pow(10.0, -1.0 - 4.0 * rng.uniform());
    const Round round =
        make_round(rng, 2 + k % 4, 2 + k % 3, k % 2 == 0 ? 0.02 : 0.3, eta, *solver, k % 3 != 0);
    const RoundConditions result = evaluate_round(round.terms, round.shared);
    int first_order = 0;
    for (std::size_t i = 0; i < result.clients.size(); ++i) {
      const ExplicitClient& c = round.quadratics.cluster.clients[i];
      first_order += inner(round.quadratics.cluster.mean, c.d_bal) > 0.0 ? 1 : 0;
      if (result.clients[i].t2 == 1) {
        ++held;
        EXPECT_GT(inner(round.quadratics.cluster.mean, c.d_bal), 0.0);
      }
      failed += result.clients[i].t2 == 0 ? 1 : 0;
      if (result.clients[i].t2_sound == 1) {
        EXPECT_LE(result.clients[i].uniformity_after, result.clients[i].uniformity);
      }
    }
    EXPECT_EQ(result.t2_first_order[1] + result.t2_first_order[3], first_order);
    EXPECT_EQ(result.t2_first_order[2], 0);
    EXPECT_EQ(result.t2_sound_observed[2], 0);
    if (result.t3 == 1) {
      EXPECT_EQ(result.t2_first_order[0] + result.t2_first_order[1], 0);
    }
  }
  EXPECT_GT(held, 50);
  EXPECT_GT(failed, 50);
}

TEST(TheoryConditions, StepBoundsHoldOnQuadraticsAndNotWithASmallerSmoothness) {
  CounterRng rng({7, Purpose::kTest});
  const auto solver = lp();
  bool caught = false;
  for (int k = 0; k < 100; ++k) {
    const double eta = 0.2;
    Round round = make_round(rng, 1 + k % 4, 2 + k % 3, 0.3, eta, *solver);
    const RoundConditions result = evaluate_round(round.terms, round.shared);
    EXPECT_GE(result.t6_loss_slack, -1e-12);
    EXPECT_GE(result.t6_chebyshev_slack, -1e-12);
    EXPECT_GE(result.t7_slack, -1e-12);
    EXPECT_EQ(result.t6, 1);
    EXPECT_EQ(result.t7, 1);
    // On unit quadratics the curvature along every direction is 1.
    EXPECT_NEAR(result.smoothness_observed, 1.0, 1e-9);
    const double bound = round.quadratics.cluster.bound();
    double smallest = 1e300;
    for (std::size_t i = 0; i < round.terms.size(); ++i) {
      for (std::size_t j = 0; j < round.terms[i].loss.size(); ++j) {
        smallest =
            std::min(smallest, round.terms[i].loss[j] -
                                   eta * inner(round.quadratics.cluster.mean,
                                               round.quadratics.cluster.clients[i].gradients[j]) +
                                   0.5 * bound * bound * eta * eta - round.terms[i].loss_after[j]);
      }
    }
    EXPECT_NEAR(result.t6_loss_slack, smallest, 1e-12);

    round.shared.smoothness = 0.0 + 1e-3;
    caught = caught || evaluate_round(round.terms, round.shared).t6 == 0;
  }
  EXPECT_TRUE(caught);
}

TEST(TheoryConditions, SmoothnessIsObservedWhereItIsNotKnown) {
  CounterRng rng({8, Purpose::kTest});
  const auto solver = lp();
  Round round = make_round(rng, 3, 3, 0.3, 0.1, *solver);
  round.shared.smoothness = kUndefined;
  RoundConditions result = evaluate_round(round.terms, round.shared);
  EXPECT_EQ(result.smoothness_is_observed, 1);
  EXPECT_NEAR(result.smoothness, 1.0, 1e-9);
  EXPECT_EQ(result.t6, 1);

  for (ClientTerms& terms : round.terms) {  // a normal round: no losses after the step
    terms.loss_after.clear();
    terms.product_taken.clear();
  }
  result = evaluate_round(round.terms, round.shared);
  EXPECT_EQ(result.smoothness_is_observed, 0);
  EXPECT_TRUE(std::isnan(result.smoothness));
  EXPECT_EQ(result.t6, kNotApplicable);
  EXPECT_EQ(result.clients[0].t2, kNotApplicable);
  EXPECT_EQ(result.t3, kNotApplicable);
  EXPECT_TRUE(std::isnan(result.clients[0].chebyshev_after));
}

}  // namespace
}  // namespace apo::federation
