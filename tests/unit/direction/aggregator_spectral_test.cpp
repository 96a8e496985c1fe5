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

TEST(AlignedMtl, TheAlignedSystemHasConditionNumberOne) {
  CounterRng rng({.seed = 81});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 10);
    const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 3)]);
    const Vector gram = test::gram(g);
    Gradients aligned;  // columns of G B: the directions of the unit preferences
    for (std::size_t j = 0; j < m; ++j) {
      Vector unit(m, 0.0);
      unit[j] = 1.0;
      aligned.push_back(test::combination(g, aligned_weights(gram, unit)));
    }
    const double squared = inner(aligned[0], aligned[0]);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        EXPECT_NEAR(inner(aligned[i], aligned[j]), i == j ? squared : 0.0, 1e-8 * squared)
            << "m=" << m << " k=" << k;
      }
    }
    // The common length is that of the shortest combination with unit coefficients.
    for (int trial = 0; trial < 50; ++trial) {
      Vector x(m);
      for (double& entry : x) {
        entry = rng.normal();
      }
      const Vector d = test::combination(g, x);
      EXPECT_LE(squared * inner(x, x), inner(d, d) * (1.0 + 1e-9)) << "m=" << m << " k=" << k;
    }
    // Linear in the preference.
    const Vector p = test::draw_preference(rng, m);
    const Vector d = test::combination(g, aligned_weights(gram, p));
    const Vector expected = test::combination(aligned, p);
    for (std::size_t q = 0; q < d.size(); ++q) {
      EXPECT_NEAR(d[q], expected[q], 1e-9 * (1.0 + norm(expected)));
    }
  }
}

TEST(AlignedMtl, ByHand) {
  // Orthogonal gradients of lengths 1, 2, 5 all become length 1: B = diag(1, 1/2, 1/5).
  const Vector w = aligned_weights(Vector{1, 0, 0, 0, 4, 0, 0, 0, 25}, Vector{.2, .3, .5});
  EXPECT_NEAR(w[0], .2, 1e-15);
  EXPECT_NEAR(w[1], .15, 1e-15);
  EXPECT_NEAR(w[2], .1, 1e-15);
  // C = [[2, 1], [1, 2]]: eigenvalues 1 and 3 with (1, -1) and (1, 1) over sqrt 2.
  const Vector v = aligned_weights(Vector{2, 1, 1, 2}, Vector{1, 0});
  EXPECT_NEAR(v[0], .5 * (1.0 / std::sqrt(3.0) + 1.0), 1e-15);
  EXPECT_NEAR(v[1], .5 * (1.0 / std::sqrt(3.0) - 1.0), 1e-15);
  // Rank 1 (equal gradients): the only eigenvalue is its own minimum, B the projector.
  const Vector equal = aligned_weights(Vector{3, 3, 3, 3}, Vector{.9, .1});
  EXPECT_NEAR(equal[0], .5, 1e-15);
  EXPECT_NEAR(equal[1], .5, 1e-15);
}

TEST(ImtlG, EqualProjectionsOntoUnitGradients) {
  CounterRng rng({.seed = 82});
  int negative = 0;
  for (int k = 0; k < 400; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 10);
    const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 4)]);
    const Vector w = equal_projection_weights(test::gram(g));
    const Vector d = test::combination(g, w);
    EXPECT_NEAR(std::accumulate(w.begin(), w.end(), 0.0), 1.0, 1e-10);
    double size = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      size += std::abs(w[j]) * norm(g[j]);
      negative += w[j] < 0.0 ? 1 : 0;
    }
    for (std::size_t j = 1; j < m; ++j) {
      EXPECT_NEAR(inner(d, g[j]) / norm(g[j]), inner(d, g[0]) / norm(g[0]), 1e-10 * size)
          << "m=" << m << " k=" << k;
    }
  }
  EXPECT_GT(negative, 0) << "the weights may leave the simplex";
}

TEST(ImtlG, DependentGradients) {
  // Opposite gradients: only d = 0 has equal projections.
  const Vector opposite = equal_projection_weights(Vector{1, -2, -2, 4});
  EXPECT_NEAR(opposite[0], 2.0 / 3.0, 1e-14);
  EXPECT_NEAR(opposite[1], 1.0 / 3.0, 1e-14);
  // Equal unit gradients share.
  const Vector equal = equal_projection_weights(Vector{1, 1, 1, 1});
  EXPECT_NEAR(equal[0], 0.5, 1e-14);
  // e1, e2, and a third of the plane: d is fixed by two of them, and the third agrees or d = 0.
  const Gradients plane{{1, 0}, {0, 1}, {-2, 0}};
  EXPECT_NEAR(norm(test::combination(plane, equal_projection_weights(test::gram(plane)))), 0.0,
              1e-14);
  // y = (5/9, 5/9) in unit gradients with cosine 4/5, lengths 1 and 1e8: the sum of y_j / ||g_j||
  // is no reason for a threshold.
  const Vector graded = equal_projection_weights(Vector{1, .8e8, .8e8, 1e16});
  EXPECT_NEAR(graded[0], 1.0 / (1.0 + 1e-8), 1e-14);
  EXPECT_NEAR(graded[1], 1e-8 / (1.0 + 1e-8), 1e-20);
}

TEST(ImtlG, SumOfTheWeightsThatVanishes) {
  // Unit gradients with y = R^-1 1 = (1, -1/2, ...): lengths chosen so that sum y_j / ||g_j|| = 0.
  // R = [[1, .9], [.9, 1]] extended by a third at cosines .99, .8 gives one negative entry.
  const Vector cosine{1, .9, .98, .9, 1, .8, .98, .8, 1};
  // Solve R y = 1 by hand (Cramer).
  const auto det = [](const Vector& a) {
    return a[0] * (a[4] * a[8] - a[5] * a[7]) - a[1] * (a[3] * a[8] - a[5] * a[6]) +
           a[2] * (a[3] * a[7] - a[4] * a[6]);
  };
  Vector y(3);
  for (std::size_t c = 0; c < 3; ++c) {
    Vector replaced = cosine;
    for (std::size_t r = 0; r < 3; ++r) {
      replaced[r * 3 + c] = 1.0;
    }
    y[c] = det(replaced) / det(cosine);
  }
  ASSERT_GT(det(cosine), 0.0);
  ASSERT_LT(y[0] * y[1] * y[2], 0.0);
  // Make the negative one's gradient so short that the sum is 0.
  std::size_t odd = 0;
  double others = 0.0;
  for (std::size_t j = 0; j < 3; ++j) {
    odd = y[j] < 0.0 ? j : odd;
  }
  for (std::size_t j = 0; j < 3; ++j) {
    others += j == odd ? 0.0 : y[j];
  }
  Vector length(3, 1.0);
  length[odd] = -y[odd] / others;
  Vector gram = cosine;
  for (std::size_t i = 0; i < 9; ++i) {
    gram[i] *= length[i / 3] * length[i % 3];
  }
  const Vector w = equal_projection_weights(gram);
  double size = 0.0;
  for (const double entry : w) {
    EXPECT_TRUE(std::isfinite(entry));
    size += std::abs(entry);
  }
  EXPECT_NEAR(size, 1.0, 1e-9);
  const Vector projections = test::times(gram, w);
  for (std::size_t j = 1; j < 3; ++j) {
    EXPECT_NEAR(projections[j] / length[j], projections[0] / length[0], 1e-9);
  }
}

TEST(NashMtl, EveryObjectiveGainsItsShare) {
  CounterRng rng({.seed = 83});
  for (int k = 0; k < 400; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 10);
    const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 4)]);
    const Vector w = nash_weights(test::gram(g));
    const Vector d = test::combination(g, w);
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_GT(w[j], 0.0);
      EXPECT_NEAR(inner(d, g[j]) * w[j], 1.0, 1e-9) << "m=" << m << " k=" << k;
    }
    EXPECT_NEAR(inner(d, d), static_cast<double>(m), 1e-9 * static_cast<double>(m));
  }
}

TEST(NashMtl, ByHandAndDegenerate) {
  // Orthogonal gradients: w_j = 1 / ||g_j||.
  const Vector w = nash_weights(Vector{1, 0, 0, 4});
  EXPECT_NEAR(w[0], 1.0, 1e-14);
  EXPECT_NEAR(w[1], 0.5, 1e-14);
  // Equal gradients of length 2: 4 (w_1 + w_2) w_1 = 1.
  const Vector equal = nash_weights(Vector{4, 4, 4, 4});
  EXPECT_NEAR(equal[0], std::sqrt(1.0 / 8.0), 1e-13);
  EXPECT_NEAR(equal[1], std::sqrt(1.0 / 8.0), 1e-13);
  // Opposite gradients: nothing to agree on.
  const Vector opposite = nash_weights(Vector{1, -2, -2, 4});
  EXPECT_NEAR(opposite[0] - 2 * opposite[1], 0.0, 1e-14);
  EXPECT_GT(opposite[0], 0.0);
  // A vanishing gradient does not bargain.
  const Vector one = nash_weights(Vector{4, 0, 0, 0});
  EXPECT_NEAR(one[0], 0.5, 1e-15);
  EXPECT_EQ(one[1], 0.0);
}

TEST(NashMtl, NearParetoStationaryPoints) {
  // Angle pi - t: by symmetry w_1 = w_2 = 1 / sqrt(1 + cos) = 1 / sqrt(1 - cos t).
  for (const double t : {1e-1, 1e-3, 1e-5}) {
    const Gradients g{{std::cos(t / 2), std::sin(t / 2)}, {-std::cos(t / 2), std::sin(t / 2)}};
    const Vector w = nash_weights(test::gram(g));
    const double expected = 1.0 / (std::sqrt(2.0) * std::sin(t / 2));
    EXPECT_NEAR(w[0] / expected, 1.0, 1e-4) << t;
    EXPECT_NEAR(w[0], w[1], 1e-6 * w[0]);
  }
}

}  // namespace
}  // namespace apo::direction
