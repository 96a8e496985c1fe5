// Federated mechanics with exact answers (algorithms.md 7, T-K, and 10.6): one objective,
// l_i = s/2 ||w - c_i||^2. Steps, weights and centres are dyadic, so float32 rounds nothing and
// 1e-12 can be asked for.

#include "baseline_fixture.hpp"
#include <gtest/gtest.h>

#include "apo/federation/optimizer.hpp"

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

/// Four clients with 1, 1, 2 and 4 pairs: shares 1/8, 1/8, 1/4, 1/2.
Federation four_clients(double scale) {
  Federation f;
  f.centers = {{{8.0F, -4.0F}}, {{-16.0F, 4.0F}}, {{4.0F, 8.0F}}, {{-2.0F, 0.0F}}};
  f.scale = scale;
  f.partition = make_clients(std::vector<Vector>(4, Vector{1.0}), {1, 1, 2, 4});
  f.phase1.optimizer = "sgd";
  f.phase1.local_steps = 2;
  f.phase1.batch_size = 4;
  f.phase1.gradient_accumulation = 1;
  f.participants = {0, 1, 2, 3};
  return f;
}

/// sum_i rho_i c_i
Vector centre(const Federation& f, const Vector& share) {
  Vector mean(f.p(), 0.0);
  for (std::size_t i = 0; i < share.size(); ++i) {
    axpy(share[i], widen(f.centers[i][0]), mean);
  }
  return mean;
}

TEST(FedAvg, FixedPointIsTheWeightedCentre) {
  Federation f = four_clients(0.5);
  f.learning_rate = 0.5;
  const Vector point = centre(f, {0.125, 0.125, 0.25, 0.5});  // (-1, 2)
  ASSERT_EQ(point, (Vector{-1.0, 2.0}));

  const Outcome outcome = Session(f, "local_steps").run(5, std::vector<float>{-1.0F, 2.0F});

  EXPECT_NEAR(outcome.parameters[0], -1.0, 1e-12);
  EXPECT_NEAR(outcome.parameters[1], 2.0, 1e-12);
}

TEST(FedAvg, UniformAggregationMovesTheFixedPoint) {
  Federation f = four_clients(0.5);
  f.learning_rate = 0.5;
  f.phase1.aggregation = "uniform";
  const Vector point = centre(f, Vector(4, 0.25));  // (-1.5, 2)

  const Outcome outcome = Session(f, "local_steps").run(5, std::vector<float>{-1.5F, 2.0F});

  EXPECT_NEAR(outcome.parameters[0], point[0], 1e-12);
  EXPECT_NEAR(outcome.parameters[1], point[1], 1e-12);
}

struct Contraction {
  double scale;
  double rate;
  int steps;
  double server_rate;
  int rounds;  ///< as many as float32 can carry exactly
};

class FedAvgContraction : public ::testing::TestWithParam<Contraction> {};

// w_r - w* = (1 - alpha (1 - (1 - eta s)^tau))^r (w_0 - w*).
TEST_P(FedAvgContraction, FactorIsExact) {
  const Contraction c = GetParam();
  Federation f = four_clients(c.scale);
  f.learning_rate = c.rate;
  f.phase1.local_steps = c.steps;
  f.phase1.server_learning_rate = c.server_rate;
  const double keep = std::pow(1.0 - c.rate * c.scale, c.steps);
  const double factor = 1.0 - c.server_rate * (1.0 - keep);
  const std::vector<float> start = {15.0F, -30.0F};
  for (int rounds = 1; rounds <= c.rounds; ++rounds) {
    const Outcome outcome = Session(f, "local_steps").run(rounds, start);

    for (std::size_t k = 0; k < 2; ++k) {
      const double fixed = k == 0 ? -1.0 : 2.0;
      const double expected = fixed + std::pow(factor, rounds) * (start[k] - fixed);
      EXPECT_NEAR(static_cast<double>(outcome.parameters[k]), expected, 1e-12)
          << "round " << rounds;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FedAvgContraction,
    ::testing::Values(Contraction{1.0, 0.5, 1, 1.0, 8}, Contraction{1.0, 0.5, 2, 1.0, 6},
                      Contraction{0.5, 0.5, 3, 1.0, 2}, Contraction{1.0, 0.5, 2, 0.5, 4},
                      Contraction{2.0, 0.25, 1, 1.5, 6}, Contraction{1.0, 1.0, 1, 0.25, 6}));

// One client, plain steps: g = -(1 - (1 - eta s)^tau)(w - c).
TEST(FedAvg, DeltaOfOneClient) {
  Federation f = four_clients(0.5);
  f.participants = {2};
  f.learning_rate = 0.5;
  f.phase1.local_steps = 3;

  const Outcome outcome = Session(f, "local_steps").run(1, std::vector<float>{0.0F, 0.0F});

  const double moved = 1.0 - std::pow(0.75, 3);
  EXPECT_NEAR(static_cast<double>(outcome.parameters[0]), moved * 4.0, 1e-12);
  EXPECT_NEAR(static_cast<double>(outcome.parameters[1]), moved * 8.0, 1e-12);
  EXPECT_NEAR(outcome.reports[0].update_norm, moved * std::sqrt(80.0), 1e-12);
}

// -lr g / (|g| + eps), elementwise, for gradients far above, at and below eps = 1e-8. The step is
// small enough that float32's 24 bits are 1e-12 of absolute error.
TEST(AdamW, FirstStepOfAClient) {
  Federation f = four_clients(1.0);
  const float tiny = std::ldexp(1.0F, -27);  // 7.5e-9, near epsilon
  f.centers = {{{3.0F, -0.001F, tiny, -tiny / 64.0F}}};
  f.partition = make_clients({{1.0}}, {4});
  f.participants = {0};
  f.phase1.optimizer = "adamw";
  f.phase1.gradient_clip = 0.0;
  f.phase1.local_steps = 1;
  f.learning_rate = std::ldexp(1.0, -20);

  const Outcome outcome = Session(f, "local_steps").run(1, std::vector<float>(4, 0.0F));

  for (std::size_t k = 0; k < 4; ++k) {
    const double g = -static_cast<double>(f.centers[0][0][k]);
    const double expected = -f.learning_rate * g / (std::abs(g) + 1e-8);
    const auto actual = static_cast<double>(outcome.parameters[k]);
    EXPECT_NEAR(actual, expected, 1e-12) << "entry " << k;
    EXPECT_NEAR(actual / expected, 1.0, 5e-7) << "entry " << k;
  }
}

// With g = 0 a step is w (1 - lr wd) and nothing else.
TEST(AdamW, DecayIsDecoupled) {
  std::vector<float> w = {4.0F, -0.75F, 0.0F};
  AdamWState state;

  for (int step = 1; step <= 3; ++step) {
    adamw_step(w, std::vector<float>(3, 0.0F), state, {.learning_rate = 0.5, .weight_decay = 0.25});

    EXPECT_NEAR(static_cast<double>(w[0]), 4.0 * std::pow(0.875, step), 1e-12);
    EXPECT_NEAR(static_cast<double>(w[1]), -0.75 * std::pow(0.875, step), 1e-12);
    EXPECT_EQ(w[2], 0.0F);
  }
}

// The decay does not pass through the moments: with g != 0 it is added to the plain step.
TEST(AdamW, DecayLeavesTheMomentsAlone) {
  std::vector<float> plain = {1.0F};
  std::vector<float> decayed = {1.0F};
  AdamWState a;
  AdamWState b;
  const std::vector<float> gradient = {0.5F};

  adamw_step(plain, gradient, a, {.learning_rate = 0.125});
  adamw_step(decayed, gradient, b, {.learning_rate = 0.125, .weight_decay = 0.5});

  EXPECT_EQ(a.m, b.m);
  EXPECT_EQ(a.v, b.v);
  EXPECT_NEAR(static_cast<double>(plain[0] - decayed[0]), 0.125 * 0.5, 1e-7);
}

// The optimiser is new in every round: two rounds are twice the first step, not Adam's second.
TEST(AdamW, StateIsNewInEveryRound) {
  Federation f = four_clients(1.0);
  f.centers = {{{1024.0F, -1024.0F}}};
  f.partition = make_clients({{1.0}}, {4});
  f.participants = {0};
  f.phase1.optimizer = "adamw";
  f.phase1.gradient_clip = 0.0;
  f.phase1.local_steps = 1;
  f.learning_rate = 0.5;

  const Outcome outcome = Session(f, "local_steps").run(4, std::vector<float>(2, 0.0F));

  EXPECT_NEAR(outcome.parameters[0], 4.0 * 0.5, 1e-6);
  EXPECT_NEAR(outcome.parameters[1], -4.0 * 0.5, 1e-6);
}

}  // namespace
}  // namespace apo::federation
