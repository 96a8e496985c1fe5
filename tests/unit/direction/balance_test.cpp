#include "apo/core/balance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo {
namespace {

using Vector = std::vector<double>;

struct Draw {
  Vector loss;
  Vector preference;
};

Draw draw(CounterRng& rng, int m) {
  const auto size = static_cast<std::size_t>(m);
  Draw result;
  result.preference = normalised_preference(rng.dirichlet(Vector(size, 1.0)), "test", 1e-2);
  for (std::size_t j = 0; j < size; ++j) {
    result.loss.push_back(0.1 + 2.0 * rng.uniform());
  }
  return result;
}

TEST(Balance, GoldenNumbers) {
  const Balance two = balance(Vector{1, 1}, Vector{.7, .3});
  EXPECT_NEAR(two.uniformity, 0.0822828785050518, 1e-15);
  EXPECT_NEAR(two.adjustment[0], 0.177932550681313, 1e-15);
  EXPECT_NEAR(two.adjustment[1], -0.177932550681313, 1e-15);

  const Balance three = balance(Vector{.6, .4, .9}, Vector{.5, .3, .2});
  EXPECT_NEAR(three.uniformity, 0.0689592746035362, 1e-15);
  EXPECT_NEAR(three.adjustment[0], 0.168252916752314, 1e-15);
  EXPECT_NEAR(three.adjustment[1], -0.173935469510858, 1e-15);
  EXPECT_NEAR(three.adjustment[2], -0.0348639580522725, 1e-15);

  const Balance steep = direction::balance(Vector{1, .5}, Vector{.7, .3});
  EXPECT_NEAR(steep.uniformity, 0.227147923598903, 1e-15);
  EXPECT_NEAR(steep.adjustment[0], 0.19029026976406, 1e-15);
  EXPECT_NEAR(steep.adjustment[1], -0.380580539528119, 1e-15);
}

TEST(Balance, IdentitiesOnRandomData) {
  CounterRng rng({.seed = 1});
  for (int k = 0; k < 2000; ++k) {
    const auto [loss, preference] = draw(rng, 2 + k % 7);
    const std::size_t m = loss.size();
    const Balance b = balance(loss, preference);
    double orthogonality = 0.0;
    double shares = 0.0;
    std::size_t bottleneck = 0;
    for (std::size_t j = 0; j < m; ++j) {
      orthogonality += loss[j] * b.adjustment[j];
      shares += b.share[j];
      bottleneck = b.share[j] > b.share[bottleneck] ? j : bottleneck;
    }
    EXPECT_NEAR(orthogonality, 0.0, 1e-12);  // identity 1
    EXPECT_NEAR(shares, 1.0, 1e-14);
    EXPECT_GE(b.uniformity, 0.0);
    EXPECT_LE(b.uniformity, std::log(static_cast<double>(m)));
    EXPECT_GE(b.adjustment[bottleneck], 0.0);
    // Common factor of the losses: nothing changes.
    Vector scaled = loss;
    for (double& l : scaled) {
      l *= 37.5;
    }
    const Balance c = balance(scaled, preference);
    EXPECT_NEAR(c.uniformity, b.uniformity, 1e-13);
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_NEAR(c.adjustment[j], b.adjustment[j], 1e-13);
    }
  }
}

TEST(Balance, DerivativesAgainstCentralDifferences) {
  CounterRng rng({.seed = 2});
  for (int k = 0; k < 200; ++k) {
    const auto [loss, preference] = draw(rng, 2 + k % 4);
    const Balance b = balance(loss, preference);
    const double h = 1e-6;
    for (std::size_t j = 0; j < loss.size(); ++j) {
      Vector up = loss;
      Vector down = loss;
      up[j] += h * loss[j];
      down[j] -= h * loss[j];
      const Balance plus = balance(up, preference);
      const Balance minus = balance(down, preference);
      const double step = 2.0 * h * loss[j];
      EXPECT_NEAR((plus.uniformity - minus.uniformity) / step, b.adjustment[j] / b.z, 1e-8);
      for (std::size_t i = 0; i < loss.size(); ++i) {
        const double expected = preference[i] * ((i == j ? 1.0 / loss[i] : 0.0) -
                                                 (b.adjustment[j] + preference[j]) / b.z);
        EXPECT_NEAR((plus.adjustment[i] - minus.adjustment[i]) / step, expected, 1e-8);
      }
    }
  }
}

TEST(Balance, UniformityFallsAlongTheBalancingDirection) {
  // Identity 2 through w: l_j(w) = b_j + |w - c_j|^2 / 2, d_bal = G A, and along -d the derivative
  // of beta is -d'd_bal / Z.
  CounterRng rng({.seed = 4});
  constexpr std::size_t kDimension = 5;
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 4);
    const auto [offset, preference] = draw(rng, static_cast<int>(m));
    std::vector<Vector> centre(m, Vector(kDimension));
    Vector w(kDimension);
    Vector d(kDimension);
    for (std::size_t p = 0; p < kDimension; ++p) {
      w[p] = rng.normal();
      d[p] = rng.normal();
      for (Vector& c : centre) {
        c[p] = rng.normal();
      }
    }
    const auto losses = [&, &base = offset](double eta) {
      Vector loss = base;
      for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t p = 0; p < kDimension; ++p) {
          const double x = w[p] - eta * d[p] - centre[j][p];
          loss[j] += .5 * x * x;
        }
      }
      return loss;
    };
    const Balance b = balance(losses(0.0), preference);
    double slope = 0.0;  // d'd_bal
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t p = 0; p < kDimension; ++p) {
        slope += d[p] * b.adjustment[j] * (w[p] - centre[j][p]);
      }
    }
    const double h = 1e-5;
    const double difference =
        (balance(losses(h), preference).uniformity - balance(losses(-h), preference).uniformity) /
        (2.0 * h);
    EXPECT_NEAR(difference, -slope / b.z, 1e-8) << k;
  }
}

TEST(Balance, NearBalance) {
  CounterRng rng({.seed = 3});
  for (int k = 0; k < 200; ++k) {
    auto [loss, preference] = draw(rng, 2 + k % 4);
    const std::size_t m = loss.size();
    for (std::size_t j = 0; j < m; ++j) {
      loss[j] = (1.0 + 1e-4 * rng.normal()) / preference[j];
    }
    const Balance b = balance(loss, preference);
    double squared = 0.0;
    double adjustment = 0.0;
    double largest = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      const double x = static_cast<double>(m) * b.share[j] - 1.0;
      squared += x * x;
      adjustment += b.adjustment[j] * b.adjustment[j];
      largest = std::max(largest, preference[j]);
      EXPECT_NEAR(b.adjustment[j], preference[j] * x, 1e-6);
    }
    EXPECT_NEAR(b.uniformity, squared / (2.0 * static_cast<double>(m)), 1e-11);
    // ||A|| <= lambda_max sqrt(2 m beta), up to the next order
    EXPECT_LE(std::sqrt(adjustment),
              largest * std::sqrt(2.0 * static_cast<double>(m) * b.uniformity) * (1.0 + 1e-3));
  }
}

TEST(Balance, PreferenceScalesTheAdjustment) {
  const Balance one = balance(Vector{.6, .4, .9}, Vector{.5, .3, .2});
  const Balance five = balance(Vector{.6, .4, .9}, Vector{2.5, 1.5, 1.0});
  EXPECT_NEAR(one.uniformity, five.uniformity, 1e-15);
  EXPECT_NEAR(5.0 * one.adjustment[1], five.adjustment[1], 1e-14);
}

TEST(Balance, EdgeCases) {
  const Balance single = balance(Vector{.3}, Vector{1.0});
  EXPECT_EQ(single.uniformity, 0.0);
  EXPECT_EQ(single.adjustment, Vector{0.0});
  const Balance floored = balance(Vector{0.0, 1e-20, 1.0}, Vector{.2, .3, .5});
  EXPECT_EQ(floored.losses_floored, 2);
  const Balance at_floor = balance(Vector{1e-12, 1e-12, 1.0}, Vector{.2, .3, .5});
  EXPECT_EQ(at_floor.losses_floored, 0);
  EXPECT_EQ(floored.adjustment, at_floor.adjustment);
  EXPECT_LE(floored.uniformity, std::log(3.0));
  const Balance absent = balance(Vector{1.0, 1.0, 1.0}, Vector{.5, 0.0, .5});
  EXPECT_EQ(absent.adjustment[1], 0.0);
  EXPECT_NEAR(absent.uniformity, std::log(1.5), 1e-15);
}

TEST(Balance, RefusesBadInput) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(static_cast<void>(balance(Vector{1, 1}, Vector{1})), Error);
  EXPECT_THROW(static_cast<void>(balance(Vector{}, Vector{})), Error);
  EXPECT_THROW(static_cast<void>(balance(Vector{1, nan}, Vector{.5, .5})), Error);
  EXPECT_THROW(static_cast<void>(balance(Vector{1, 1}, Vector{1.5, -.5})), Error);
  EXPECT_THROW(static_cast<void>(balance(Vector{1, 1}, Vector{0, 0})), Error);
}

}  // namespace
}  // namespace apo
