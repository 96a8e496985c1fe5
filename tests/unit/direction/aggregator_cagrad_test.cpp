#include <cmath>

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

struct Case {
  Gradients gradients;
  Vector preference;
  double radius = 0.5;

  [[nodiscard]] Vector centre() const { return test::combination(gradients, preference); }
  [[nodiscard]] double dual(const Vector& w) const {
    const Vector g_w = test::combination(gradients, w);
    return inner(g_w, centre()) + radius * norm(centre()) * norm(g_w);
  }
  /// min_j g_j'd
  [[nodiscard]] double worst(const Vector& d) const {
    double smallest = std::numeric_limits<double>::infinity();
    for (const Vector& g : gradients) {
      smallest = std::min(smallest, inner(g, d));
    }
    return smallest;
  }
  [[nodiscard]] double longest() const {
    double largest = 0.0;
    for (const Vector& g : gradients) {
      largest = std::max(largest, norm(g));
    }
    return largest;
  }
  [[nodiscard]] Vector direction() const {
    return test::combination(gradients, cagrad_weights(test::gram(gradients), preference, radius));
  }
};

Case draw(CounterRng& rng, std::size_t m, Kind kind, double radius) {
  return {test::draw_gradients(rng, m, 12, kind), test::draw_preference(rng, m), radius};
}

TEST(Cagrad, StrongDualityCertifiesTheDirection) {
  // Any d within the ball has min_j g_j'd <= F(w) for any w: equality proves both optimal.
  CounterRng rng({.seed = 61});
  for (int k = 0; k < 1200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 12 % 10);
    const double radius = std::array{0.1, 0.5, 0.9}[static_cast<std::size_t>(k / 4 % 3)];
    const Case x = draw(rng, m, kKinds[static_cast<std::size_t>(k % 4)], radius);
    const Vector d = x.direction();
    const Vector centre = x.centre();
    Vector away = d;
    for (std::size_t p = 0; p < d.size(); ++p) {
      away[p] -= centre[p];
    }
    EXPECT_NEAR(norm(away), radius * norm(centre), 1e-9 * norm(centre)) << "m=" << m << " k=" << k;
    const Vector w = cagrad_dual(test::gram(x.gradients), x.preference, radius, m <= 8);
    ASSERT_EQ(w.size(), m);
    EXPECT_NEAR(x.worst(d), x.dual(w), 1e-9 * x.longest() * norm(centre))
        << "m=" << m << " k=" << k;
  }
}

TEST(Cagrad, ClosedFormAndSearchAgree) {
  CounterRng rng({.seed = 62});
  for (int k = 0; k < 300; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 7);
    const Case x = draw(rng, m, kKinds[static_cast<std::size_t>(k / 7 % 3)], 0.5);
    const Vector gram = test::gram(x.gradients);
    const Vector closed = cagrad_dual(gram, x.preference, 0.5, true);
    const Vector searched = cagrad_dual(gram, x.preference, 0.5, false);
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_NEAR(closed[j], searched[j], 1e-9) << "m=" << m << " k=" << k;
    }
  }
}

TEST(Cagrad, NoGridPointIsBetter) {
  CounterRng rng({.seed = 63});
  for (int k = 0; k < 60; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 2);
    const Case x = draw(rng, m, kKinds[static_cast<std::size_t>(k / 2 % 3)], 0.5);
    const Vector w = cagrad_dual(test::gram(x.gradients), x.preference, 0.5, true);
    double best = std::numeric_limits<double>::infinity();
    Vector best_w;
    const int n = m == 2 ? 4000 : 150;
    for (int a = 0; a <= n; ++a) {
      for (int b = 0; b <= (m == 2 ? 0 : n - a); ++b) {
        const double first = static_cast<double>(a) / n;
        const double second = m == 2 ? 1.0 - first : static_cast<double>(b) / n;
        Vector point{first, second};
        if (m == 3) {
          point.push_back(std::max(0.0, 1.0 - first - second));
        }
        if (x.dual(point) < best) {
          best = x.dual(point);
          best_w = point;
        }
      }
    }
    const double scale = x.longest() * norm(x.centre());
    EXPECT_LE(x.dual(w), best + 1e-12 * scale) << k;
    EXPECT_GE(x.dual(w), best - 0.02 * scale) << "and the grid comes near: " << k;
  }
}

TEST(Cagrad, RadiusZeroIsTheMeanAndOneGradientIsStretched) {
  const Vector gram{1, -.3, -.3, .25};
  const Vector p{.7, .3};
  EXPECT_EQ(cagrad_weights(gram, p, 0.0), p);
  EXPECT_NEAR(cagrad_weights(Vector{4}, Vector{1}, 0.5)[0], 1.5, 1e-15);
  // g_0 = 0: no ball to search.
  EXPECT_EQ(cagrad_weights(Vector{1, -1, -1, 1}, Vector{.5, .5}, 0.5), (Vector{.5, .5}));
}

TEST(Cagrad, ParetoStationaryPointsTakeTheNearestOptimum) {
  // e1, -e1, e2: no d has e1'd > 0 and -e1'd > 0, so the optimum of min_j g_j'd is 0, on d_1 = 0,
  // d_2 >= 0. Nearest to g_0 = (p_1 - p_2, p_3) is (0, p_3), which must lie within the ball.
  const Case x{{{1, 0}, {-1, 0}, {0, 1}}, {.4, .3, .3}, 0.5};
  const Vector d = x.direction();
  EXPECT_NEAR(d[0], 0.0, 1e-12);
  EXPECT_NEAR(d[1], 0.3, 1e-12);
}

TEST(Cagrad, OppositeGradientsAlone) {
  // g_2 = -g_1: F(w) = (w_1 - w_2) s + radius |s| |w_1 - w_2|, s = .4, is smallest at w = (0, 1).
  const Case x{{{1, 0}, {-1, 0}}, {.7, .3}, 0.5};
  const Vector d = x.direction();
  EXPECT_NEAR(d[0], 0.2, 1e-14);
  EXPECT_EQ(d[1], 0.0);
}

TEST(Cagrad, DuplicatesDoNotDisturb) {
  CounterRng rng({.seed = 64});
  for (int k = 0; k < 100; ++k) {
    const std::size_t m = 3 + static_cast<std::size_t>(k % 8);
    Case x = draw(rng, m, kKinds[static_cast<std::size_t>(k % 3)], 0.5);
    x.gradients[2] = x.gradients[0];
    Case merged = x;  // the same problem with one objective less
    merged.gradients.erase(merged.gradients.begin() + 2);
    merged.preference[0] += merged.preference[2];
    merged.preference.erase(merged.preference.begin() + 2);
    const Vector d = x.direction();
    const Vector expected = merged.direction();
    for (std::size_t p = 0; p < d.size(); ++p) {
      EXPECT_NEAR(d[p], expected[p], 1e-7) << "m=" << m << " k=" << k;
    }
  }
}

}  // namespace
}  // namespace apo::direction
