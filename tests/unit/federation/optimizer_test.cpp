#include "apo/federation/optimizer.hpp"

#include <gtest/gtest.h>

namespace apo::federation {
namespace {

// Spec llm.md, section 8: vector computed with PyTorch's AdamW.
TEST(AdamW, MatchesPyTorchVector) {
  std::vector<float> p = {1.0F, -2.0F};
  AdamWState state;
  const AdamWOptions options{.learning_rate = 0.01, .weight_decay = 0.1};
  const std::vector<std::vector<float>> gradients = {{0.5F, -1.0F}, {0.1F, 0.2F}, {-0.3F, 0.0F}};
  const std::vector<std::vector<double>> expected = {
      {0.98900002, -1.98800004}, {0.97998065, -1.98090184}, {0.97689354, -1.97497070}};

  for (std::size_t t = 0; t < gradients.size(); ++t) {
    adamw_step(p, gradients[t], state, options);

    EXPECT_NEAR(p[0], expected[t][0], 3e-7) << "step " << t;
    EXPECT_NEAR(p[1], expected[t][1], 3e-7) << "step " << t;
  }
  EXPECT_EQ(state.step, 3);
}

// Algorithms.md, T-K: the first step is -lr g / (|g| + eps); decay alone multiplies by 1 - lr wd.
TEST(AdamW, FirstStepAndDecoupledDecay) {
  std::vector<float> p = {0.0F, 2.0F};
  AdamWState state;

  adamw_step(p, std::vector<float>{3.0F, 0.0F}, state, {.learning_rate = 0.5, .weight_decay = 0.1});

  EXPECT_NEAR(p[0], -0.5, 1e-6);
  EXPECT_NEAR(p[1], 2.0 * (1.0 - 0.05), 1e-6);
}

TEST(Sgd, Step) {
  std::vector<float> p = {1.0F, 2.0F};

  sgd_step(p, std::vector<float>{2.0F, -4.0F}, 0.25);

  EXPECT_FLOAT_EQ(p[0], 0.5F);
  EXPECT_FLOAT_EQ(p[1], 3.0F);
}

// Spec llm.md, section 8: [3,4],[12], max 1 -> norm 13.
TEST(Clip, MatchesPyTorchVector) {
  std::vector<float> g = {3.0F, 4.0F, 12.0F};

  EXPECT_NEAR(clip_by_norm(g, 1.0), 13.0, 1e-12);

  EXPECT_NEAR(g[0], 0.23076922, 1e-7);
  EXPECT_NEAR(g[1], 0.30769229, 1e-7);
  EXPECT_NEAR(g[2], 0.92307687, 1e-7);
}

TEST(Clip, ShortVectorsAndZeroLimitAreLeftAlone) {
  std::vector<float> g = {0.3F, 0.4F};

  clip_by_norm(g, 1.0);
  clip_by_norm(g, 0.0);

  EXPECT_FLOAT_EQ(g[0], 0.3F);
}

// Algorithms.md 1.8: r = 0 gives the first rate, r = 199 of 200 gives 1.0002e-5.
TEST(Cosine, EndsOfTheSchedule) {
  EXPECT_DOUBLE_EQ(cosine_learning_rate(5e-5, 1e-5, 0, 200), 5e-5);
  EXPECT_NEAR(cosine_learning_rate(5e-5, 1e-5, 100, 200), 3e-5, 1e-18);
  EXPECT_NEAR(cosine_learning_rate(5e-5, 1e-5, 199, 200), 1.0002e-5, 1e-9);
}

}  // namespace
}  // namespace apo::federation
