#include "baseline_weights.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::federation {
namespace {

using Vector = std::vector<double>;

TEST(ProjectOnSimplex, KnownPoints) {
  EXPECT_EQ(project_on_simplex(Vector{0.25, 0.75}), (Vector{0.25, 0.75}));
  EXPECT_EQ(project_on_simplex(Vector{3.0, 0.0, -1.0}), (Vector{1.0, 0.0, 0.0}));
  EXPECT_EQ(project_on_simplex(Vector{0.5, 0.5, 0.5, 0.5}), (Vector{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(project_on_simplex(Vector{-7.0}), (Vector{1.0}));
  EXPECT_EQ(project_on_simplex(Vector{1.0, 0.5, -2.0}), (Vector{0.75, 0.25, 0.0}));
}

// The variational inequality: (y - P(y))'(z - P(y)) <= 0 for all vertices z.
TEST(ProjectOnSimplex, IsTheNearestPoint) {
  CounterRng rng({1, Purpose::kTest});
  for (int trial = 0; trial < 200; ++trial) {
    Vector y;
    for (int k = 0; k < 6; ++k) {
      y.push_back(rng.normal());
    }

    const Vector x = project_on_simplex(y);

    EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 1.0, 1e-14);
    double level = 0.0;
    for (std::size_t k = 0; k < 6; ++k) {
      EXPECT_GE(x[k], 0.0);
      level += (y[k] - x[k]) * x[k];
    }
    for (std::size_t k = 0; k < 6; ++k) {
      EXPECT_LE(y[k] - x[k], level + 1e-14);
    }
  }
}

Vector random_gram(CounterRng& rng, std::size_t n, std::size_t p, double common = 0.0) {
  std::vector<Vector> rows(n);
  Vector shared;
  for (std::size_t k = 0; k < p; ++k) {
    shared.push_back(common * rng.normal());
  }
  for (Vector& row : rows) {
    for (std::size_t k = 0; k < p; ++k) {
      row.push_back(shared[k] + rng.normal());
    }
  }
  Vector gram(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      gram[i * n + j] = std::inner_product(rows[i].begin(), rows[i].end(), rows[j].begin(), 0.0);
    }
  }
  return gram;
}

TEST(ScaledGram, MeanGradientNormBecomesOne) {
  const Vector gram = {9.0 - 1e-4, 1.5, 1.5, 1.0 - 1e-4};  // norms 3 and 1 with the constant

  const Vector scaled = scaled_gram(gram, 2);

  EXPECT_NEAR(scaled[0], (9.0 - 1e-4) / 4.0, 1e-14);
  EXPECT_NEAR(scaled[1], 1.5 / 4.0, 1e-14);
  EXPECT_NEAR(scaled[3], (1.0 - 1e-4) / 4.0, 1e-14);
}

TEST(TrackMinNorm, OneStepByHand) {
  // C w = (2, 1) at w = (1/2, 1/2); moved by 0.1 to (0.3, 0.4), projected to (0.45, 0.55).
  const Vector weights = track_min_norm(Vector{3.0, 1.0, 1.0, 1.0}, {0.5, 0.5}, 1, 0.1);

  EXPECT_NEAR(weights[0], 0.45, 1e-15);
  EXPECT_NEAR(weights[1], 0.55, 1e-15);
}

TEST(TrackMinNorm, ManyStepsReachTheMinNormPoint) {
  CounterRng rng({2, Purpose::kTest});
  for (int trial = 0; trial < 20; ++trial) {
    const Vector gram = random_gram(rng, 4, 12);
    const Vector expected = direction::min_norm_point(gram, 4);

    const Vector weights = track_min_norm(gram, Vector(4, 0.25), 20000, 0.01);

    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(weights[j], expected[j], 1e-9);
    }
  }
}

/// Largest violation of the KKT conditions, over the largest diagonal entry.
double violation(const Vector& gram, const Vector& low, const Vector& high, const Vector& x) {
  const std::size_t n = x.size();
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  double largest = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    double gradient = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
      gradient += gram[i * n + j] * x[j];
    }
    largest = std::max(largest, gram[i * n + i]);
    if (x[i] < high[i]) {
      lowest = std::min(lowest, gradient);
    }
    if (x[i] > low[i]) {
      highest = std::max(highest, gradient);
    }
  }
  return std::max(0.0, highest - lowest) / largest;
}

struct Shape {
  std::size_t n;
  std::size_t p;
  double common;
};

class BoxMinNorm : public ::testing::TestWithParam<Shape> {};

// Full rank, singular (n > p), and strongly correlated gradients; narrow, wide and no boxes.
TEST_P(BoxMinNorm, SatisfiesTheKktConditions) {
  const Shape shape = GetParam();
  CounterRng rng({3, Purpose::kTest, shape.n, shape.p});
  for (const double fairness : {0.0, 1e-3, 0.02, 0.1, 0.5, 1.0}) {
    const Vector gram = random_gram(rng, shape.n, shape.p, shape.common);
    const Vector share = rng.dirichlet(Vector(shape.n, 2.0));
    Vector low = share;
    Vector high = share;
    for (std::size_t i = 0; i < shape.n; ++i) {
      low[i] = std::max(0.0, low[i] - fairness);
      high[i] = std::min(1.0, high[i] + fairness);
    }

    const Vector x = box_min_norm(gram, low, high, share);

    EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 1.0, 1e-12);
    for (std::size_t i = 0; i < shape.n; ++i) {
      EXPECT_GE(x[i], low[i]);
      EXPECT_LE(x[i], high[i]);
    }
    EXPECT_LE(violation(gram, low, high, x), 2e-12) << "fairness " << fairness;
    if (fairness == 0.0) {
      EXPECT_EQ(x, share);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BoxMinNorm,
                         ::testing::Values(Shape{1, 3, 0.0}, Shape{2, 5, 0.0}, Shape{8, 40, 0.0},
                                           Shape{8, 3, 0.0}, Shape{20, 20, 3.0}, Shape{40, 5, 1.0},
                                           Shape{100, 30, 0.0}, Shape{100, 100, 0.5},
                                           Shape{100, 1000, 10.0}));

TEST(BoxMinNormLimits, WithoutABoxItIsTheMinNormPoint) {
  CounterRng rng({4, Purpose::kTest});
  for (int trial = 0; trial < 50; ++trial) {
    const Vector gram = random_gram(rng, 6, 10, 0.5);

    const Vector x = box_min_norm(gram, Vector(6, 0.0), Vector(6, 1.0), Vector(6, 1.0 / 6.0));

    const Vector expected = direction::min_norm_point(gram, 6);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(x[i], expected[i], 1e-9);
    }
  }
}

// Two gradients of norm 1 at an angle of 60 degrees and a third that is nearly the first: condition
// number 1e12, which exchanges alone would not get through.
TEST(BoxMinNormLimits, BadConditioning) {
  const double tilt = 1e-6;
  const std::vector<Vector> rows = {{1.0, 0.0, 0.0}, {0.5, std::sqrt(0.75), 0.0}, {1.0, 0.0, tilt}};
  Vector gram;
  for (const Vector& a : rows) {
    for (const Vector& b : rows) {
      gram.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
    }
  }
  const Vector low(3, 0.0);
  const Vector high(3, 1.0);

  const Vector x = box_min_norm(gram, low, high, Vector(3, 1.0 / 3.0));

  EXPECT_LE(violation(gram, low, high, x), 2e-12);
  EXPECT_NEAR(x[1], 0.5, 1e-5);
}

TEST(BoxMinNormLimits, ZeroMatrixKeepsTheStart) {
  const Vector start = {0.2, 0.3, 0.5};

  EXPECT_EQ(box_min_norm(Vector(9, 0.0), Vector(3, 0.0), Vector(3, 1.0), start), start);
}

TEST(BoxMinNormErrors, SayWhatIsWrong) {
  const Vector gram = {1.0, 0.0, 0.0, 1.0};
  EXPECT_THROW((void)box_min_norm(gram, Vector{0.0, 0.0}, Vector{0.4, 1.0}, Vector{0.5, 0.5}),
               Error);
  EXPECT_THROW((void)box_min_norm(gram, Vector{0.0, 0.0}, Vector{1.0, 1.0}, Vector{0.5, 0.4}),
               Error);
  EXPECT_THROW((void)box_min_norm(Vector{1.0, std::nan(""), 0.0, 1.0}, Vector{0.0, 0.0},
                                  Vector{1.0, 1.0}, Vector{0.5, 0.5}),
               Error);
}

}  // namespace
}  // namespace apo::federation
