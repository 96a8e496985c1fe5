#include <algorithm>
#include <cmath>
#include <map>

#include "theory_cluster.hpp"
#include <gtest/gtest.h>

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

/// Clients with the same T-D losses and their own preferences at w.
ExplicitCluster common_losses(const std::vector<Vec>& preferences, const Vec& w,
                              direction::DirectionSolver& solver) {
  Quadratics q;
  q.m = static_cast<int>(preferences[0].size());
  q.shift.assign(w.size(), 0.0);
  std::vector<ExplicitClient> clients;
  for (const Vec& preference : preferences) {
    ExplicitClient c;
    c.preference = preference;
    c.rho = 1.0 / static_cast<double>(preferences.size());
    c.loss = q.losses(w);
    c.gradients = q.gradients(w);
    clients.push_back(std::move(c));
  }
  return testing::solve_cluster(std::move(clients), solver);
}

TEST(TheoryPairs, AdjustmentsAreLipschitzInThePreference) {
  // (13) by hand for m = 2, c = 1/2, largest loss 2, Z 0.5.
  const double phi = std::log(4.0) + std::log(2.0);
  const double k2 = 8.0 * (4.0 + std::pow(std::log(4.0) + 1.0, 2));
  const double lz = (1.0 + std::sqrt(2.0)) * 4.0;
  EXPECT_NEAR(adjustment_constant(2, 0.5, 2.0, 0.5),
              std::sqrt(2.0 * phi * phi + 2.0 * k2 * lz * lz), 1e-12);

  CounterRng rng({22, Purpose::kTest});
  const auto solver = lp();
  for (int k = 0; k < 50; ++k) {
    Vec w(5);
    for (double& x : w) {
      x = 0.5 * rng.normal();
    }
    const ExplicitCluster cluster = common_losses(
        {testing::random_preference(rng, 3), testing::random_preference(rng, 3)}, w, *solver);
    const auto terms = testing::terms_of(cluster);
    const PairConditions pair = evaluate_pair(terms[0], terms[1], {});
    EXPECT_NEAR(pair.preference_distance,
                length(difference(terms[0].preference, terms[1].preference)), 1e-12);
    EXPECT_GT(pair.t9_ratio, 0.0);
    EXPECT_LE(pair.t9_ratio, 1.0);
  }
}

TEST(TheoryPairs, EqualBasesBoundTheDispersion) {
  CounterRng rng({23, Purpose::kTest});
  const auto solver = lp();
  int groups = 0;
  int dispersed = 0;
  for (int k = 0; k < 300; ++k) {
    Vec w(5);
    for (double& x : w) {
      x = 0.5 * rng.normal();
    }
    const Vec lambda = testing::random_preference(rng, 3);
    std::vector<Vec> preferences;
    for (int i = 0; i < 4; ++i) {  // near each other, so that bases are often equal
      Vec near = lambda;
      double sum = 0.0;
      for (double& x : near) {
        x *= 1.0 + 0.02 * rng.normal();
        sum += x;
      }
      for (double& x : near) {
        x /= sum;
      }
      preferences.push_back(near);
    }
    const ExplicitCluster cluster = common_losses(preferences, w, *solver);
    SharedTerms shared;
    shared.norm = length(cluster.mean);
    shared.learning_rate = 0.01;
    const RoundConditions result = evaluate_round(testing::terms_of(cluster), shared);
    EXPECT_EQ(result.common_gradients, 1);
    std::map<std::uint64_t, int> count;
    for (const ExplicitClient& c : cluster.clients) {
      ASSERT_NE(c.direction.basis_id, 0U);
      ++count[c.direction.basis_id];
    }
    int pairs = 0;
    for (const auto& [id, n] : count) {
      pairs += n * (n - 1) / 2;
    }
    EXPECT_NEAR(result.equal_basis_share, pairs / 6.0, 1e-12);
    EXPECT_EQ(result.t8, count.size() == 1 ? 1 : kNotApplicable);
    groups += count.size() == 1 ? 1 : 0;
    dispersed += result.t8 == 1 && result.dispersion > 1e-12 ? 1 : 0;
    if (result.t8 == 1) {
      EXPECT_LE(result.t8_ratio, 1.0 + 1e-9);
    }
  }
  EXPECT_GT(groups, 50);
  EXPECT_GT(dispersed, 5);  // bases with controlled-ascent rows, where mu moves with A
}

TEST(TheoryPairs, PreferenceTransfer) {
  // T-D of algorithms.md section 8: psi* at (.45, .35, .2), radius 1, offset .1. The other
  // preference is a permutation, so its optimum is the same.
  const auto solver = lp();
  const std::vector<Vec> preferences = {{0.45, 0.35, 0.2}, {0.35, 0.45, 0.2}};
  const Vec w = {0.3, 0.1, -0.2, 0.0};
  const ExplicitCluster cluster = common_losses(preferences, w, *solver);
  auto terms = testing::terms_of(cluster);
  for (ClientTerms& t : terms) {
    t.chebyshev_optimum = 0.14162335240003;
  }
  SharedTerms shared;
  shared.norm = length(cluster.mean);
  shared.learning_rate = 0.01;
  const RoundConditions result = evaluate_round(terms, shared);
  const double delta = 0.1 * std::sqrt(2.0);
  EXPECT_NEAR(result.preference_diameter, delta, 1e-12);
  double psi[2] = {0.0, 0.0};
  double largest = 0.0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      psi[i] = std::max(psi[i], preferences[i][j] * cluster.clients[i].loss[j]);
      largest = std::max(largest, cluster.clients[i].loss[j]);
    }
  }
  const double mean = 0.5 * (psi[0] + psi[1]);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(result.clients[i].t11_transfer_slack, mean + delta * largest - psi[i], 1e-12);
    EXPECT_NEAR(result.clients[i].t11_optimum_slack,
                mean - 0.14162335240003 + delta * (largest + 0.14162335240003 / 0.2) -
                    (psi[i] - 0.14162335240003),
                1e-12);
    EXPECT_EQ(result.clients[i].t11, 1);
  }
  EXPECT_EQ(result.t11, 1);

  terms[0].loss[0] *= 1.01;  // no common losses: the statement is about something else
  EXPECT_EQ(evaluate_round(terms, shared).t11, kNotApplicable);
}

TEST(TheoryPairs, LemmaEightHoldsForFirmClients) {
  direction::DirectionOptions options;
  options.solver = "firm";
  options.firm_beta = 0.2;
  options.firm_preference = "none";
  const auto solver = direction::make_solver(options);
  CounterRng rng({26, Purpose::kTest});
  SharedTerms shared;
  shared.firm_beta = 0.2;
  shared.firm_preference = "none";
  double largest = 0.0;
  for (int k = 0; k < 100; ++k) {
    const auto c = testing::random_quadratics(rng, 2, 3, 0.2, *solver);
    auto terms = testing::terms_of(c.cluster);
    for (ClientTerms& t : terms) {  // both clients' distance to the middle of the two
      for (std::size_t j = 0; j < 3; ++j) {
        t.gradient_residual.push_back(0.5 * length(difference(c.cluster.clients[0].gradients[j],
                                                              c.cluster.clients[1].gradients[j])));
      }
    }
    const PairConditions pair = evaluate_pair(terms[0], terms[1], shared);
    double epsilon = 0.0;
    for (std::size_t j = 0; j < 3; ++j) {
      epsilon = std::max(epsilon, length(difference(c.cluster.clients[0].gradients[j],
                                                    c.cluster.clients[1].gradients[j])));
    }
    EXPECT_NEAR(pair.gradient_distance_bound, epsilon, 1e-12);
    EXPECT_NEAR(pair.lemma8_paper,
                pair.multiplier_distance / (4.0 * c.cluster.bound() * 3.0 * epsilon / 0.2), 1e-9);
    EXPECT_LE(pair.lemma8_gram, 1.0 + 1e-9);
    EXPECT_LE(pair.lemma8_root, 1.0);
    EXPECT_LE(pair.lemma8_paper, pair.lemma8_root);
    largest = std::max(largest, pair.lemma8_gram);
  }
  EXPECT_GT(largest, 0.05);
}

TEST(TheoryPairs, DriftMetricsAgreeWithTheVectors) {
  CounterRng rng({27, Purpose::kTest});
  direction::DirectionOptions options;
  options.solver = "mgda";
  const auto solver = direction::make_solver(options);
  const auto c = testing::random_quadratics(rng, 5, 3, 0.4, *solver);
  auto terms = testing::terms_of(c.cluster);
  Vec mean_mu(3, 0.0);
  Vec mean_update(6, 0.0);
  std::vector<Vec> updates;
  double squares = 0.0;
  for (std::size_t i = 0; i < 5; ++i) {
    const ExplicitClient& client = c.cluster.clients[i];
    updates.emplace_back();
    for (std::size_t k = 0; k < 6; ++k) {
      updates.back().push_back(rng.normal());
      mean_update[k] += client.rho * updates.back()[k];
    }
    terms[i].update_norm = length(updates.back());
    for (std::size_t j = 0; j < 3; ++j) {
      mean_mu[j] += client.rho * client.direction.mu[j];
    }
  }
  SharedTerms shared;
  shared.norm = length(c.cluster.mean);
  shared.learning_rate = 0.1;
  shared.update_norm = length(mean_update);
  const RoundConditions result = evaluate_round(terms, shared);

  double variance = 0.0;
  double widest = 0.0;
  double spread = 0.0;
  for (std::size_t i = 0; i < 5; ++i) {
    const ExplicitClient& a = c.cluster.clients[i];
    const Vec from_mean = difference(a.direction.mu, mean_mu);
    variance += a.rho * inner(from_mean, from_mean);
    spread += a.rho * length(testing::combine(a.gradients, from_mean));
    const Vec drift = difference(updates[i], mean_update);
    squares += a.rho * inner(drift, drift);
    for (const ExplicitClient& b : c.cluster.clients) {
      widest = std::max(widest, length(difference(a.direction.mu, b.direction.mu)));
    }
  }
  EXPECT_NEAR(result.multiplier_variance, variance, 1e-12);
  EXPECT_NEAR(result.multiplier_diameter, widest, 1e-12);
  EXPECT_NEAR(result.disagreement_spread, spread, 1e-12);
  EXPECT_NEAR(result.client_drift, squares, 1e-12);
  EXPECT_NEAR(temporal_roughness(std::vector<Vec>{{0.0, 1.0}, {0.6, 0.2}, {0.6, 0.2}}),
              0.5 * std::sqrt(0.36 + 0.64), 1e-12);
}

TEST(TheoryPairs, DiameterOfManyPointsIsBoundedFromAbove) {
  std::vector<Vec> points(kMaxExactDiameter + 2, Vec{0.5, 0.5});
  points[3] = {1.0, 0.0};
  points[9] = {0.0, 1.0};
  const double found = diameter(points);
  EXPECT_GE(found, std::sqrt(2.0));
  EXPECT_LE(found, 2.0 * std::sqrt(2.0));
  points.resize(10);
  EXPECT_NEAR(diameter(points), std::sqrt(2.0), 1e-15);
}

TEST(TheoryPairs, PairsAreAllOrADrawOfThem) {
  CounterRng rng({28, Purpose::kTest});
  const auto solver = lp();
  const auto c = testing::random_quadratics(rng, 8, 2, 0.4, *solver);
  const auto terms = testing::terms_of(c.cluster);
  const StreamKey key{1, Purpose::kMonteCarlo};
  EXPECT_EQ(evaluate_pairs(terms, {}, 28, key).size(), 28U);
  const auto drawn = evaluate_pairs(terms, {}, 10, key);
  ASSERT_EQ(drawn.size(), 10U);
  for (std::size_t k = 0; k < drawn.size(); ++k) {
    EXPECT_LT(drawn[k].client_a, drawn[k].client_b);
    if (k > 0) {
      EXPECT_LT(std::make_pair(drawn[k - 1].client_a, drawn[k - 1].client_b),
                std::make_pair(drawn[k].client_a, drawn[k].client_b));
    }
  }
  EXPECT_EQ(evaluate_pairs({terms.data(), 1}, {}, 10, key).size(), 0U);
}

}  // namespace
}  // namespace apo::federation
