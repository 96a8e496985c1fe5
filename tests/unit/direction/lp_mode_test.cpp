#include <cmath>
#include <limits>

#include "lp_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

const Vector kLoss{.6, .4, .9};  // beta = 0.0689592746...
const Vector kPreference{.5, .3, .2};
const Vector kGram = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
constexpr double kBeta = 0.0689592746035362;

Mode mode(const DirectionOptions& options, double noise, bool was_uniform) {
  Problem problem{kLoss, kGram, kPreference};
  problem.noise_uniformity = noise;
  problem.was_uniform = was_uniform;
  return make_solver(options)->solve(problem).mode;
}

TEST(LpMode, NoiseRaisesTheTolerance) {
  for (const char* solver : {"apo_lp", "epo"}) {
    DirectionOptions options;
    options.solver = solver;
    options.beta_tolerance = 1e-4;
    EXPECT_EQ(mode(options, 10.0, false), Mode::kBalancing) << "off by default";
    options.beta_noise_factor = 2.0;
    EXPECT_EQ(mode(options, 0.0, false), Mode::kBalancing) << "unknown noise";
    EXPECT_EQ(mode(options, 0.49 * kBeta, false), Mode::kBalancing);
    EXPECT_EQ(mode(options, 0.51 * kBeta, false), Mode::kUniform);
    options.beta_tolerance = 1.01 * kBeta;
    EXPECT_EQ(mode(options, 0.0, false), Mode::kUniform) << "the larger of the two counts";
  }
}

TEST(LpMode, HysteresisKeepsTheUniformMode) {
  DirectionOptions options;
  options.beta_tolerance = 0.3 * kBeta;
  options.beta_hysteresis = 4.0;
  EXPECT_EQ(mode(options, 0.0, false), Mode::kBalancing) << "enters at or below the tolerance";
  EXPECT_EQ(mode(options, 0.0, true), Mode::kUniform) << "leaves above 4 times it: 1.2 beta";
  options.beta_hysteresis = 3.0;
  EXPECT_EQ(mode(options, 0.0, true), Mode::kBalancing) << "0.9 beta";
  options.beta_hysteresis = 1.0;
  EXPECT_EQ(mode(options, 0.0, true), Mode::kBalancing);
  // It multiplies the raised tolerance as well.
  options.beta_tolerance = 0.0;
  options.beta_noise_factor = 1.0;
  options.beta_hysteresis = 4.0;
  EXPECT_EQ(mode(options, 0.3 * kBeta, true), Mode::kUniform);
  EXPECT_EQ(mode(options, 0.2 * kBeta, true), Mode::kBalancing);
  EXPECT_EQ(mode(options, 0.3 * kBeta, false), Mode::kBalancing);
}

TEST(LpMode, RefusesImpossibleNoise) {
  DirectionOptions options;
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(static_cast<void>(mode(options, bad, false)), Error) << bad;
  }
}

TEST(LpMode, WeightsAreTheMultipliers) {
  const auto found = make_solver({})->solve({kLoss, kGram, kPreference});
  EXPECT_EQ(found.weight, found.mu);
  EXPECT_EQ(make_solver({})->solve({Vector{1}, Vector{4}, Vector{1}}).weight, Vector{1});
  EXPECT_EQ(make_solver({})->solve({Vector{1, 2}, Vector(4, 0.0), Vector{.5, .5}}).weight,
            (Vector{.5, .5}));
}

TEST(BetaNoise, ClosedForms) {
  // (m - 1) s^2 / (2 m) for equal relative noise s
  for (const std::size_t m : {1U, 2U, 3U, 8U}) {
    Vector loss;
    Vector error;
    for (std::size_t j = 0; j < m; ++j) {
      loss.push_back(0.5 + static_cast<double>(j));
      error.push_back(0.1 * loss.back());
    }
    const auto count = static_cast<double>(m);
    EXPECT_NEAR(beta_noise(loss, error), (count - 1) * .01 / (2 * count), 1e-16);
  }
  // one noisy objective of two: x = (e, -e) / 2, beta = e^2 / 8
  EXPECT_NEAR(beta_noise(Vector{1, 1}, Vector{.2, 0}), .04 / 8, 1e-16);
  EXPECT_NEAR(beta_noise(Vector{1, 1}, Vector{.2, std::nan("")}), .04 / 8, 1e-16);
  EXPECT_EQ(beta_noise(Vector{1, 1}, Vector{std::nan(""), std::nan("")}), 0.0);
}

TEST(BetaNoise, IsTheMeanOfBetaUnderNoise) {
  CounterRng rng({.seed = 61});
  const Vector preference{.5, .3, .2};
  const Vector relative{.05, .02, .08};
  Vector loss;
  Vector error;
  for (std::size_t j = 0; j < 3; ++j) {
    loss.push_back(0.3 / preference[j]);
    error.push_back(relative[j] * loss[j]);
  }
  double sum = 0.0;
  constexpr int kDraws = 100000;
  for (int k = 0; k < kDraws; ++k) {
    Vector noisy = loss;
    for (std::size_t j = 0; j < 3; ++j) {
      noisy[j] += error[j] * rng.normal();
    }
    sum += balance(noisy, preference).uniformity;
  }
  // Standard error of the mean about 0.3 %, terms of fourth order about 0.5 %.
  EXPECT_NEAR(sum / kDraws / beta_noise(loss, error), 1.0, 0.02);
}

TEST(BetaNoise, RefusesBadInput) {
  EXPECT_THROW(static_cast<void>(beta_noise(Vector{}, Vector{})), Error);
  EXPECT_THROW(static_cast<void>(beta_noise(Vector{1, 1}, Vector{.1})), Error);
  EXPECT_THROW(static_cast<void>(beta_noise(Vector{1, 1}, Vector{.1, -.1})), Error);
  EXPECT_THROW(static_cast<void>(beta_noise(Vector{1, std::nan("")}, Vector{.1, .1})), Error);
}

}  // namespace
}  // namespace apo::direction
