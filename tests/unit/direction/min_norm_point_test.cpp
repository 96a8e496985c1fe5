#include <cmath>
#include <limits>

#include "lp_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

double kkt_gap(const Vector& gram, const Vector& mu) {
  const std::size_t m = mu.size();
  double value = 0.0;
  double smallest = std::numeric_limits<double>::infinity();
  double scale = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    const double row = test::dot(&gram[j * m], mu.data(), m);
    value += mu[j] * row;
    smallest = std::min(smallest, row);
    scale = std::max(scale, gram[j * m + j]);
  }
  return (smallest - value) / scale;
}

TEST(MinNormPoint, GoldenNumbers) {
  const Vector gram = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
  const Vector mu = min_norm_point(gram, 3);
  EXPECT_NEAR(mu[0], .28, 1e-14);
  EXPECT_NEAR(mu[1], .44, 1e-14);
  EXPECT_NEAR(mu[2], .28, 1e-14);
}

TEST(MinNormPoint, OptimalityOnRandomGramMatrices) {
  CounterRng rng({.seed = 21});
  using test::Ensemble;
  for (int k = 0; k < 4000; ++k) {
    const auto ensemble = static_cast<Ensemble>(k % 4);
    const int m = 2 + k / 4 % 7;  // up to 8 gradients in 6 dimensions
    const auto x = test::draw(rng, m, ensemble, false);
    const Vector mu = min_norm_point(x.gram, m);
    double sum = 0.0;
    for (const double entry : mu) {
      EXPECT_GE(entry, 0.0);
      sum += entry;
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
    EXPECT_GE(kkt_gap(x.gram, mu), -1e-12) << "m=" << m << " k=" << k;
  }
}

TEST(MinNormPoint, DegenerateCases) {
  EXPECT_EQ(min_norm_point(Vector{4}, 1), Vector{1});
  EXPECT_EQ(min_norm_point(Vector(4, 0.0), 2), (Vector{.5, .5}));
  EXPECT_EQ(min_norm_point(Vector{1, -1, -1, 1}, 2), (Vector{.5, .5}));
  EXPECT_EQ(min_norm_point(Vector(9, 2.0), 3), (Vector{1, 0, 0})) << "equal: the lowest index";
  EXPECT_EQ(min_norm_point(Vector{1, 0, 0, 0}, 2), (Vector{0, 1})) << "a vanishing gradient wins";
  // Two gradients of very different length: the short one, by ten orders of magnitude.
  const Vector mu = min_norm_point(Vector{1, 0, 0, 1e-10}, 2);
  EXPECT_NEAR(mu[0], 1e-10 / (1 + 1e-10), 1e-24);
}

TEST(MinNormPoint, RefusesBadInput) {
  EXPECT_THROW(static_cast<void>(min_norm_point(Vector(81, 1.0), 9)), Error);
  EXPECT_THROW(static_cast<void>(min_norm_point(Vector(3, 1.0), 2)), Error);
  EXPECT_THROW(static_cast<void>(min_norm_point(Vector{1, std::nan(""), 0, 1}, 2)), Error);
}

}  // namespace
}  // namespace apo::direction
