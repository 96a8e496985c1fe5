#include "diameter.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "apo/core/rng.hpp"

namespace apo::clustering {
namespace {

using Vector = std::vector<double>;

double all_pairs(const Vector& positions, std::size_t m) {
  double largest = 0.0;
  for (std::size_t a = 0; a < positions.size(); a += m) {
    for (std::size_t b = 0; b < a; b += m) {
      double squared = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        squared += (positions[a + j] - positions[b + j]) * (positions[a + j] - positions[b + j]);
      }
      largest = std::max(largest, squared);
    }
  }
  return std::sqrt(largest);
}

TEST(Diameter, EqualsAllPairs) {
  CounterRng rng({.seed = 3});
  for (const std::size_t m : {1U, 2U, 3U, 5U}) {
    for (const std::size_t n : {1U, 2U, 15U, 17U, 64U, 700U}) {
      Vector simplex;
      Vector cube;
      for (std::size_t i = 0; i < n; ++i) {
        const Vector draw = rng.dirichlet(Vector(m, 0.7));
        simplex.insert(simplex.end(), draw.begin(), draw.end());
        for (std::size_t j = 0; j < m; ++j) {
          cube.push_back(static_cast<double>(rng.below(6)));
        }
      }
      EXPECT_EQ(diameter(simplex, static_cast<int>(m)), all_pairs(simplex, m));
      EXPECT_EQ(diameter(cube, static_cast<int>(m)), all_pairs(cube, m));
    }
  }
}

TEST(Diameter, CircleAndCoincidentPoints) {
  Vector circle;  // every point has a partner at nearly the same distance
  for (int i = 0; i < 501; ++i) {
    const double angle = 2.0 * std::numbers::pi * i / 501;
    circle.push_back(std::cos(angle));
    circle.push_back(std::sin(angle));
  }
  EXPECT_EQ(diameter(circle, 2), all_pairs(circle, 2));
  EXPECT_EQ(diameter(Vector(3000, 0.25), 3), 0.0);
}

}  // namespace
}  // namespace apo::clustering
