#include <algorithm>
#include <cmath>

#include "theory_cluster.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/federation/theory_conditions.hpp"

namespace apo::federation {
namespace {

using testing::difference;
using testing::ExplicitClient;
using testing::ExplicitCluster;
using testing::inner;
using testing::length;
using testing::lp;
using testing::Quadratics;
using testing::Vec;

Vec balancing_direction(const Quadratics& q, const Vec& preference, const Vec& w) {
  return testing::combine(q.gradients(w), balance(q.losses(w), preference).adjustment);
}

TEST(TheoryConstants, BalancingSmoothnessBoundsTheBalancingDirection) {
  CounterRng rng({21, Purpose::kTest});
  double tightest = 0.0;
  for (int k = 0; k < 60; ++k) {
    Quadratics q;
    q.shift.assign(5, 0.0);
    Vec w(5);
    for (double& x : w) {
      x = 0.5 * rng.normal();
    }
    const Vec preference = testing::random_preference(rng, 3);
    double bound = 0.0;
    for (const Vec& g : q.gradients(w)) {
      bound = std::max(bound, length(g));
    }
    const double radius = 0.05 * rng.uniform();
    const double constant = balancing_smoothness(q.losses(w), preference, 1.0, bound, radius);
    const Vec here = balancing_direction(q, preference, w);
    for (int trial = 0; trial < 20; ++trial) {
      Vec step(5);
      for (double& x : step) {
        x = rng.normal();
      }
      const double size = radius * rng.uniform() / length(step);
      Vec there = w;
      for (std::size_t x = 0; x < 5; ++x) {
        there[x] += size * step[x];
      }
      const double moved = length(difference(balancing_direction(q, preference, there), here));
      const double ratio = moved / (size * length(step));
      EXPECT_LE(ratio, constant);
      tightest = std::max(tightest, ratio / constant);
    }
  }
  EXPECT_GT(tightest, 0.05);  // a bound, and not one that always holds by orders of magnitude
}

TEST(TheoryConstants, BalancingSmoothnessAtAPointIsTheFormula) {
  const Vec loss = {0.6, 0.4, 0.9};
  const Vec preference = {0.5, 0.3, 0.2};
  const double h = 1e-6;
  double squares = 0.0;
  for (std::size_t k = 0; k < 3; ++k) {  // dA/dl by central differences
    Vec up = loss;
    Vec down = loss;
    up[k] += h;
    down[k] -= h;
    const Vec a = balance(up, preference).adjustment;
    const Vec b = balance(down, preference).adjustment;
    for (std::size_t j = 0; j < 3; ++j) {
      squares += std::pow((a[j] - b[j]) / (2.0 * h), 2);
    }
  }
  double sum = 0.0;
  for (const double a : balance(loss, preference).adjustment) {
    sum += std::abs(a);
  }
  EXPECT_NEAR(balancing_smoothness(loss, preference, 2.0, 1.5, 0.0),
              sum * 2.0 + 3.0 * 1.5 * 1.5 * std::sqrt(squares), 1e-7);
  // A loss that can reach 0 within the radius has no bound.
  EXPECT_TRUE(std::isinf(balancing_smoothness(loss, preference, 2.0, 1.5, 1.0)));
}

TEST(TheoryConstants, ResidualFloor) {
  // 2 (3/2)^2 0.25 + 2 * 4 * 9 * 2 * 0.1 / 2
  EXPECT_NEAR(residual_floor(3.0, 2.0, 0.5, 4.0, 3.0, 2, 0.1), 1.125 + 7.2, 1e-12);

  CounterRng rng({24, Purpose::kTest});
  const auto solver = lp();
  int evaluated = 0;
  for (int k = 0; k < 100; ++k) {
    auto c = testing::random_quadratics(rng, 4, 3, 0.3, *solver);
    SharedTerms shared;
    shared.norm = length(c.cluster.mean);
    shared.learning_rate = 0.01;
    shared.smoothness = 1.0;
    const RoundConditions result = evaluate_round(testing::terms_of(c.cluster), shared);
    EXPECT_NE(result.t10, 0);
    for (const ClientConditions& row : result.clients) {
      evaluated += row.t10 == 1 ? 1 : 0;
      if (row.margin > 0.0) {
        EXPECT_GE(row.margin, result.margin_rate * row.uniformity * (1.0 - 1e-12));
        EXPECT_LE(row.balancing_norm,
                  result.balancing_rate * std::sqrt(row.uniformity) * (1.0 + 1e-12));
      }
    }
  }
  EXPECT_GT(evaluated, 50);
}

TEST(TheoryConstants, DescentFitIsTheSmallestBand) {
  const std::vector<MarginSample> samples = {{0.5, 1.0}, {0.1, 0.4}, {-0.02, 0.05}};
  const double eta = 0.1;
  const DescentFit fit = fit_descent_margin(samples, 0.5, 2.0, 0.3, 1.0, eta);
  EXPECT_LE(fit.rate, 1.0 / eta);
  double tolerance = 0.0;
  for (const MarginSample& s : samples) {
    EXPECT_GE(s.margin, fit.rate * s.gap - fit.tolerance - 1e-12);
    tolerance = std::max(tolerance, fit.rate * s.gap - s.margin);
  }
  EXPECT_NEAR(fit.tolerance, tolerance, 1e-12);
  const auto radius = [&](double rate) {
    double b = 0.0;
    for (const MarginSample& s : samples) {
      b = std::max(b, rate * s.gap - s.margin);
    }
    return 0.5 / rate * (2.0 * 0.3 + 0.5 * 4.0 * eta) + b / rate;
  };
  EXPECT_NEAR(fit.radius, radius(fit.rate), 1e-12);
  EXPECT_NEAR(fit.radius, fit.radius_deviation + fit.radius_step + fit.radius_tolerance, 1e-12);
  for (double rate = 1e-6; rate < 1.0 / eta; rate *= 1.01) {
    EXPECT_GE(radius(rate), fit.radius * (1.0 - 0.06));  // the grid's spacing is 6 %
  }
  EXPECT_THROW((void)fit_descent_margin({}, 0.5, 2.0, 0.3, 1.0, eta), Error);
}

// (65) along a trajectory of T-I clients, with c_d and b of 5.5 fitted to it.
TEST(TheoryConstants, ContractionOnTheSimplexQuadratics) {
  const auto solver = lp(1e-8);
  const Vec preference = {0.45, 0.35, 0.2};
  const double optimum = 0.14162335240003;
  const double eta = 0.05;
  CounterRng rng({25, Purpose::kTest});
  std::vector<Quadratics> problems(3);
  for (Quadratics& q : problems) {
    for (int k = 0; k < 4; ++k) {
      q.shift.push_back(0.02 * rng.normal());
    }
  }
  Vec w = {1.0, -0.5, 0.4, 0.3};
  std::vector<ExplicitCluster> trajectory;
  double bound = 0.0;
  for (int t = 0; t < 80; ++t) {
    std::vector<ExplicitClient> clients;
    for (const Quadratics& q : problems) {
      ExplicitClient c;
      c.preference = preference;
      c.rho = 1.0 / 3.0;
      c.loss = q.losses(w);
      c.gradients = q.gradients(w);
      clients.push_back(std::move(c));
    }
    trajectory.push_back(testing::solve_cluster(std::move(clients), *solver));
    bound = std::max(bound, trajectory.back().bound());
    for (std::size_t k = 0; k < 4; ++k) {
      w[k] -= eta * trajectory.back().mean[k];
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<MarginSample> samples;
    std::vector<double> gap;
    double deviation = 0.0;
    for (const ExplicitCluster& cluster : trajectory) {
      const ExplicitClient& c = cluster.clients[i];
      double psi = 0.0;
      for (std::size_t j = 0; j < 3; ++j) {
        psi = std::max(psi, c.preference[j] * c.loss[j]);
      }
      double zeta = 1e300;
      for (std::size_t j = 0; j < 3; ++j) {
        if (c.preference[j] * c.loss[j] >= psi - 2.0 * eta * 0.45 * bound * bound) {
          zeta = std::min(zeta, c.preference[j] * inner(c.d, c.gradients[j]));
        }
      }
      gap.push_back(psi - optimum);
      samples.push_back({zeta, gap.back()});
      deviation = std::max(deviation, length(difference(cluster.mean, c.d)));
    }
    const DescentFit fit = fit_descent_margin(samples, 0.45, bound, deviation, 1.0, eta);
    ASSERT_LE(eta * fit.rate, 1.0);
    for (std::size_t t = 0; t + 1 < gap.size(); ++t) {
      EXPECT_LE(gap[t + 1], (1.0 - eta * fit.rate) * gap[t] + eta * fit.rate * fit.radius + 1e-12);
    }
    EXPECT_LT(gap.back(), 0.5 * gap.front());  // and the trajectory is one that descends
  }
}

TEST(TheoryConstants, AdaptationGap) {
  AdaptationProcess p;
  p.step = 0.1;
  p.steps = 5;
  p.start_gap = 2.0;
  p.pl = 0.5;
  p.smoothness = 2.0;
  p.precondition_low = 0.8;
  p.precondition_high = 1.2;
  p.noise_variance = 3.0;
  p.samples = 4;
  EXPECT_NEAR(
      adaptation_gap_bound(p),
      std::pow(1.0 - 0.1 * 0.5 * 0.8, 5) * 2.0 + 2.0 * 0.1 * 1.44 / (2.0 * 0.5 * 0.8) * 3.0 / 4.0,
      1e-14);
  p.step = 0.8 / (2.0 * 1.44) * 1.01;
  EXPECT_THROW((void)adaptation_gap_bound(p), Error);
}

// T-G of algorithms.md section 7.
TEST(TheoryConstants, FlatStationaryPointIsFlaggedWithMarginZero) {
  const auto solver = lp();
  ExplicitClient c;
  c.preference = {0.5, 0.5};
  c.rho = 1.0;
  c.loss = {2.0, 2.0};
  c.gradients = {{0.0}, {0.0}};
  const ExplicitCluster cluster = testing::solve_cluster({c}, *solver);
  auto terms = testing::terms_of(cluster);
  terms[0].chebyshev_optimum = 0.5;
  SharedTerms shared;
  shared.norm = 0.0;
  shared.learning_rate = 0.1;
  const RoundConditions result = evaluate_round(terms, shared);
  EXPECT_EQ(result.num_stationary, 1);
  EXPECT_EQ(result.clients[0].descent_margin, 0.0);
  EXPECT_DOUBLE_EQ(result.clients[0].gap, 0.5);
  EXPECT_EQ(result.clients[0].t2, kNotApplicable);
}

TEST(TheoryConstants, VShapeHasANegativeMarginInsideTheActivationWidth) {
  const auto solver = lp();
  const double eta = 0.1;
  for (const double w : {0.03, -0.07, 0.099}) {
    ExplicitClient c;
    c.preference = {0.5, 0.5};
    c.rho = 1.0;
    c.loss = {1.0 + w, 1.0 - w};
    c.gradients = {{1.0}, {-1.0}};
    const ExplicitCluster cluster = testing::solve_cluster({c}, *solver);
    auto terms = testing::terms_of(cluster);
    terms[0].chebyshev_optimum = 0.5;
    SharedTerms shared;
    shared.norm = length(cluster.mean);
    shared.learning_rate = eta;
    const RoundConditions result = evaluate_round(terms, shared);
    const double d = std::abs(cluster.mean[0]);
    EXPECT_GT(d, 0.0);
    EXPECT_EQ(result.clients[0].near_active, 2);
    EXPECT_NEAR(result.clients[0].descent_margin, -0.5 * d, 1e-15);
    const std::vector<MarginSample> sample = {
        {result.clients[0].descent_margin, result.clients[0].gap}};
    const DescentFit fit = fit_descent_margin(sample, 0.5, 1.0, 0.0, 0.0, eta);
    EXPECT_NEAR(fit.tolerance, 0.5 * (fit.rate * std::abs(w) + d), 1e-12);
  }
}

}  // namespace
}  // namespace apo::federation
