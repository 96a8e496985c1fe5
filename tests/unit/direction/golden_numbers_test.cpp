/// @file
/// The numbers of algorithms.md, section 8, that belong to balance, linear programs and EPO's
/// problems.

#include <cmath>

#include "lp_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

constexpr double kTolerance = 1e-12;
const Vector kGram3 = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});

void expect_near(const Vector& found, const Vector& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    EXPECT_NEAR(found[j], expected[j], kTolerance) << "entry " << j;
  }
}

/// The paper's LP and EPO's, which agree where section 8 has numbers.
std::vector<DirectionOptions> linear_programs() {
  std::vector<DirectionOptions> result(3);
  for (DirectionOptions& options : result) {
    options.beta_tolerance = 1e-10;
    options.ascent_tolerance = 1e-12;
  }
  result[1].solver = "epo";
  result[1].epo_mode = "restricted";
  result[2].solver = "epo";
  result[2].epo_mode = "relaxed";
  return result;
}

TEST(GoldenNumbers, EqualLosses) {
  const Balance b = balance(Vector{1, 1}, Vector{.7, .3});
  EXPECT_NEAR(b.uniformity, 0.0822828785050518, kTolerance);
  expect_near(b.adjustment, {0.177932550681313, -0.177932550681313});
}

TEST(GoldenNumbers, ThreeObjectives) {
  const Vector loss{.6, .4, .9};
  const Vector preference{.5, .3, .2};
  const Balance b = balance(loss, preference);
  EXPECT_NEAR(b.uniformity, 0.0689592746035362, kTolerance);
  expect_near(b.adjustment, {0.168252916752314, -0.173935469510858, -0.0348639580522725});
  for (const DirectionOptions& options : linear_programs()) {
    const Direction found = make_solver(options)->solve({loss, kGram3, preference});
    EXPECT_EQ(found.mode, Mode::kBalancing);
    expect_near(found.mu, {0.876636466422053, 0.123363533577947, 0});
    expect_near(found.weight, {0.876636466422053, 0.123363533577947, 0});
    EXPECT_NEAR(found.gamma, 0.210279097891697, kTolerance);
    EXPECT_EQ(found.num_aligned, 2);  // J = {1, 3}
    EXPECT_NEAR(found.chebyshev, .3, kTolerance);
  }
  // C A, read off gamma of fixed weights e_j: gamma = (C A)_j
  const Vector ca{0.279851901669685, -0.284113816238593, 0.127514245566245};
  DirectionOptions fixed;
  fixed.solver = "fixed";
  for (std::size_t j = 0; j < 3; ++j) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 3; ++i) {
      sum += kGram3[j * 3 + i] * b.adjustment[i];
    }
    EXPECT_NEAR(sum, ca[j], kTolerance);
  }
  EXPECT_NEAR(make_solver(fixed)->solve({loss, kGram3, preference}).gamma,
              .5 * ca[0] + .3 * ca[1] + .2 * ca[2], kTolerance);
}

TEST(GoldenNumbers, ThreeObjectivesUniform) {
  const Vector preference{.5, .3, .2};
  const Vector loss{2.0, 10.0 / 3.0, 5.0};
  for (DirectionOptions options : linear_programs()) {
    const Direction found = make_solver(options)->solve({loss, kGram3, preference});
    EXPECT_EQ(found.mode, Mode::kUniform);
    double value = 0.0;
    for (std::size_t k = 0; k < 9; ++k) {
      value += found.mu[k / 3] * kGram3[k];
    }
    EXPECT_NEAR(value, 27.0 / 28.0, kTolerance);
    // (0, 2/7, 5/7) is one end of the optimal edge, (5/7, 2/7, 0) the other.
    EXPECT_TRUE(found.nonunique);
    EXPECT_NEAR(found.mu[1], 2.0 / 7.0, kTolerance);
    EXPECT_NEAR(found.mu[0] * found.mu[2], 0.0, kTolerance);
    // The tie rule takes the middle, where mu'C mu is smallest.
    options.lp_tie = "lexicographic";
    expect_near(make_solver(options)->solve({loss, kGram3, preference}).mu,
                {5.0 / 14, 4.0 / 14, 5.0 / 14});
  }
  expect_near(min_norm_point(kGram3, 3), {.28, .44, .28});
}

TEST(GoldenNumbers, TwoObjectives) {
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  const Balance b = balance(loss, preference);
  EXPECT_NEAR(b.uniformity, 0.227147923598903, kTolerance);
  expect_near(b.adjustment, {0.19029026976406, -0.380580539528119});
  EXPECT_NEAR(gram[0] * b.adjustment[0] + gram[1] * b.adjustment[1], 0.304464431622495, kTolerance);
  EXPECT_NEAR(gram[2] * b.adjustment[0] + gram[3] * b.adjustment[1], -0.152232215811248,
              kTolerance);
  for (const DirectionOptions& options : linear_programs()) {
    const Direction found = make_solver(options)->solve({loss, gram, preference});
    expect_near(found.mu, {0.731331301474996, 0.268668698525004});
    EXPECT_NEAR(found.gamma, 0.181764337735739, kTolerance);
  }
}

/// EPO's two-objective problem (T-A) in one dimension, at the point x = s.
struct EpoToy {
  Vector loss;
  Vector gram;
};

EpoToy epo_toy(double s) {
  const double first = std::exp(-(s - 1) * (s - 1));
  const double second = std::exp(-(s + 1) * (s + 1));
  const double g1 = 2 * (s - 1) * first;
  const double g2 = 2 * (s + 1) * second;
  return {{1 - first, 1 - second}, {g1 * g1, g1 * g2, g1 * g2, g2 * g2}};
}

TEST(GoldenNumbers, EpoToyProblem) {
  struct Row {
    double preference;
    double s;
    double psi;
  };
  for (const Row& row :
       {Row{.7, 0.335894387549993, 0.249641437717568},
        Row{.9, 0.66821579714717, 0.0938143862054481}, Row{.5, 0.0, 0.316060279414279}}) {
    const Vector preference{row.preference, 1 - row.preference};
    const EpoToy at = epo_toy(row.s);
    // On the ray and on the front: balanced, psi is the optimum, and no common descent.
    for (const DirectionOptions& options : linear_programs()) {
      const Direction found = make_solver(options)->solve({at.loss, at.gram, preference});
      EXPECT_NEAR(found.chebyshev, row.psi, kTolerance);
      EXPECT_NEAR(found.uniformity, 0.0, kTolerance);
      EXPECT_EQ(found.mode, Mode::kUniform);
      EXPECT_NEAR(found.direction_norm, 0.0, 1e-7);  // the root of 1e-16
    }
    // Beside it the balancing direction leads back, on both sides.
    for (const double offset : {-0.05, 0.05}) {
      const EpoToy beside = epo_toy(row.s + offset);
      for (const DirectionOptions& options : linear_programs()) {
        const Direction found = make_solver(options)->solve({beside.loss, beside.gram, preference});
        EXPECT_GT(found.chebyshev, row.psi);
        EXPECT_EQ(found.mode, Mode::kBalancing);
        EXPECT_GT(found.gamma, 0.0);
        const double s = row.s + offset;
        const double d = found.mu[0] * 2 * (s - 1) * std::exp(-(s - 1) * (s - 1)) +
                         found.mu[1] * 2 * (s + 1) * std::exp(-(s + 1) * (s + 1));
        EXPECT_GT(d * offset, 0.0) << "w - eta d moves towards s";
      }
    }
  }
}

TEST(GoldenNumbers, SimplexCentreQuadratics) {
  const Vector preference{.45, .35, .2};
  const Vector x{0.494439263312204, 0.404519674486788, 0.101041062201009};
  std::vector<Vector> gradients;
  Vector loss;
  for (std::size_t j = 0; j < 3; ++j) {
    gradients.push_back(x);
    gradients.back()[j] -= 1.0;
    double squared = 0.0;
    for (const double entry : gradients.back()) {
      squared += entry * entry;
    }
    loss.push_back(.5 * squared + .1);
  }
  const Vector gram = test::gram_of(gradients);
  for (const DirectionOptions& options : linear_programs()) {
    const Direction found = make_solver(options)->solve({loss, gram, preference});
    EXPECT_NEAR(found.chebyshev, 0.14162335240003, kTolerance);
    EXPECT_NEAR(found.uniformity, 0.0, kTolerance);
    EXPECT_NEAR(found.direction_norm, 0.0, 1e-7);
  }
  expect_near(min_norm_point(gram, 3), x);  // x is the convex combination of the centres e_j
}

TEST(GoldenNumbers, RayPointsOfTwoFronts) {
  const Vector preference{.7, .3};
  const double root = 0.474546482928068;
  const double f1 = 0.369924076215481;
  for (const Vector& point : {Vector{root * root, 1 - root}, Vector{f1, 1 - f1 * f1}}) {
    const Balance b = balance(point, preference);
    EXPECT_NEAR(b.share[0], .5, kTolerance);
    EXPECT_NEAR(b.uniformity, 0.0, kTolerance);
  }
}

}  // namespace
}  // namespace apo::direction
