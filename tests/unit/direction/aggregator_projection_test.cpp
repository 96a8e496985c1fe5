#include <algorithm>
#include <cmath>
#include <numeric>

#include "aggregator_oracle.hpp"
#include "aggregator_rules.hpp"
#include <gtest/gtest.h>

namespace apo::direction {
namespace {

using test::Gradients;
using test::inner;
using test::Kind;
using test::kKinds;
using test::norm;
using test::Vector;

void expect_near(const Vector& found, const Vector& expected, double tolerance, const char* what) {
  for (std::size_t p = 0; p < found.size(); ++p) {
    EXPECT_NEAR(found[p], expected[p], tolerance) << what;
  }
}

double longest(const Gradients& g) {
  double largest = 0.0;
  for (const Vector& x : g) {
    largest = std::max(largest, norm(x));
  }
  return largest;
}

TEST(UpGrad, SumOfProjectionsOntoTheDualCone) {
  CounterRng rng({.seed = 71});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 9);
    const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 4)]);
    const Vector p = test::draw_preference(rng, m);
    Vector expected(16, 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      const Vector projected = test::dual_cone_projection(g, g[j]);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += p[j] * projected[i];
      }
    }
    const Vector d = test::combination(g, upgrad_weights(test::gram(g), p));
    expect_near(d, expected, 1e-9 * longest(g), "upgrad");
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_GE(inner(d, g[j]), -1e-12 * longest(g) * norm(g[j])) << "conflict, m=" << m;
    }
  }
}

TEST(DualProj, ProjectionOfThePreferredDirection) {
  CounterRng rng({.seed = 72});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 9);
    const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 4)]);
    const Vector p = test::draw_preference(rng, m);
    const Vector w = dual_projection_weights(test::gram(g), p);
    const Vector d = test::combination(g, w);
    expect_near(d, test::dual_cone_projection(g, test::combination(g, p)), 1e-9 * longest(g),
                "dual_proj");
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_GE(inner(d, g[j]), -1e-12 * longest(g) * norm(g[j])) << "conflict, m=" << m;
      EXPECT_GE(w[j], p[j] * (1.0 - 1e-15)) << "only gradients are added";
    }
  }
}

TEST(UpGrad, ConflictsAreHandledInTinyGradients) {
  // LoRA gradients of length 1e-9: an absolute threshold on the Gram matrix would switch it off.
  const Gradients g{{1e-9, 0}, {-1e-9, 1e-10}};
  const Vector p{.5, .5};
  for (const Vector& w :
       {upgrad_weights(test::gram(g), p), dual_projection_weights(test::gram(g), p)}) {
    const Vector d = test::combination(g, w);
    EXPECT_GE(inner(d, g[0]), -1e-32);
    EXPECT_GE(inner(d, g[1]), -1e-32);
    EXPECT_GT(norm(d), 1e-11);
  }
  // g_1 + g_2 / 1.01 and g_2 + g_1 are the projections; the half of their sum:
  const Vector w = upgrad_weights(test::gram(g), p);
  EXPECT_NEAR(w[0], 1.0, 1e-12);
  EXPECT_NEAR(w[1], 0.5 * (1.0 + 1.0 / 1.01), 1e-12);
}

TEST(UpGrad, OppositeGradientsCancel) {
  const Gradients g{{1, 0}, {-2, 0}};
  EXPECT_NEAR(norm(test::combination(g, upgrad_weights(test::gram(g), Vector{.7, .3}))), 0.0,
              1e-14);
  EXPECT_NEAR(norm(test::combination(g, dual_projection_weights(test::gram(g), Vector{.7, .3}))),
              0.0, 1e-14);
}

/// PCGrad on the gradients themselves, for one order of the others per objective.
Vector pcgrad_direction(const Gradients& g, const Vector& p,
                        const std::vector<std::vector<std::size_t>>& orders) {
  Vector sum(g.front().size(), 0.0);
  for (std::size_t i = 0; i < g.size(); ++i) {
    Vector projected = g[i];
    for (const std::size_t j : orders[i]) {
      const double product = inner(projected, g[j]);
      if (product < 0.0) {
        for (std::size_t q = 0; q < projected.size(); ++q) {
          projected[q] -= product / inner(g[j], g[j]) * g[j][q];
        }
      }
    }
    for (std::size_t q = 0; q < sum.size(); ++q) {
      sum[q] += p[i] * projected[q];
    }
  }
  return sum;
}

/// Directions of every choice of orders.
std::vector<Vector> all_pcgrad_directions(const Gradients& g, const Vector& p) {
  const std::size_t m = g.size();
  std::vector<std::vector<std::vector<std::size_t>>> choices(m);  // of each objective
  for (std::size_t i = 0; i < m; ++i) {
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < m; ++j) {
      if (j != i) {
        order.push_back(j);
      }
    }
    do {
      choices[i].push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  std::vector<std::size_t> pick(m, 0);
  std::vector<Vector> result;
  for (;;) {
    std::vector<std::vector<std::size_t>> orders;
    for (std::size_t i = 0; i < m; ++i) {
      orders.push_back(choices[i][pick[i]]);
    }
    result.push_back(pcgrad_direction(g, p, orders));
    std::size_t i = 0;
    while (i < m && ++pick[i] == choices[i].size()) {
      pick[i++] = 0;
    }
    if (i == m) {
      return result;
    }
  }
}

TEST(PcGrad, OneOfTheOrdersOnExplicitVectors) {
  CounterRng rng({.seed = 73});
  for (int k = 0; k < 60; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 3);
    const Gradients g = test::draw_gradients(rng, m, 6, Kind::kConflict);
    const Vector p = test::draw_preference(rng, m);
    const Vector d = test::combination(g, pcgrad_weights(test::gram(g), p, rng.next_u64()));
    double nearest = std::numeric_limits<double>::infinity();
    for (const Vector& candidate : all_pcgrad_directions(g, p)) {
      double away = 0.0;
      for (std::size_t q = 0; q < d.size(); ++q) {
        away = std::max(away, std::abs(d[q] - candidate[q]));
      }
      nearest = std::min(nearest, away);
    }
    EXPECT_LE(nearest, 1e-12 * longest(g)) << "m=" << m << " k=" << k;
  }
}

TEST(PcGrad, OrderIsRandomAndNamedByTheKey) {
  CounterRng rng({.seed = 74});
  const Gradients g = test::draw_gradients(rng, 4, 6, Kind::kConflict);
  const Vector gram = test::gram(g);
  const Vector p(4, 0.25);
  std::vector<Vector> seen;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const Vector w = pcgrad_weights(gram, p, key);
    EXPECT_EQ(w, pcgrad_weights(gram, p, key));
    if (std::find(seen.begin(), seen.end(), w) == seen.end()) {
      seen.push_back(w);
    }
  }
  EXPECT_GT(seen.size(), 8U);
}

TEST(PcGrad, TwoObjectivesByHand) {
  // g_1 = (1, 0), g_2 = (-1, 1): g_1 - (-1/2) g_2 = (1/2, 1/2), g_2 + g_1 = (0, 1).
  const Vector w = pcgrad_weights(Vector{1, -1, -1, 2}, Vector{.5, .5}, 3);
  EXPECT_DOUBLE_EQ(w[0], 1.0);   // (1 + 1) / 2
  EXPECT_DOUBLE_EQ(w[1], 0.75);  // (1/2 + 1) / 2
}

}  // namespace
}  // namespace apo::direction
