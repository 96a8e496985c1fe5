#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/data/demo_domain.hpp"
#include "apo/reward/reward_model.hpp"

namespace apo::reward {
namespace {

const std::vector<text::Turn> kPrompt = {{"user", "How do I clean the ladder before breakfast?"}};

TEST(RuleReward, ScoresInTheRequestedOrder) {
  const auto reward = make_rule_reward({"courtesy", "helpfulness", "harmlessness"});
  const Score score = reward->score(
      kPrompt, "First rinse the rung. Take care and ask an expert. Good luck and have fun.");
  EXPECT_TRUE(score.parsed);
  ASSERT_EQ(score.value.size(), 3U);
  EXPECT_NEAR(score.value[0], 0.4, 1e-12);
  EXPECT_NEAR(score.value[1], 0.35, 1e-12);
  EXPECT_NEAR(score.value[2], 0.9, 1e-12);
}

TEST(RuleReward, UnparsableIsZeroAndSaysSo) {
  const auto reward = make_rule_reward({"helpfulness", "harmlessness", "brevity", "courtesy"});
  for (const char* text : {"", "the the the", "First rinse the rung. "}) {
    const Score score = reward->score(kPrompt, text);
    EXPECT_FALSE(score.parsed);
    EXPECT_EQ(score.value, std::vector<double>(4, 0.0));
  }
}

TEST(RuleReward, ReadsTheLastUserTurn) {
  const auto reward = make_rule_reward({"helpfulness"});
  const std::vector<text::Turn> turns = {{"system", "Be kind."},
                                         {"user", "How do I paint the boat at home?"},
                                         {"assistant", "First prime the hull."},
                                         kPrompt[0]};
  EXPECT_NEAR(reward->score(turns, "First rinse the rung.").value[0], 0.45, 1e-12);
}

TEST(RuleReward, BoundsOfOneObjective) {
  const auto reward = make_rule_reward({"harmlessness", "helpfulness"});
  const std::vector<double> harmlessness = {1.0, 0.0};
  const auto bounds = reward->bounds(kPrompt, harmlessness);
  ASSERT_TRUE(bounds);
  EXPECT_NEAR(bounds->worst, 0.3, 1e-12);  // four steps without a warning
  EXPECT_NEAR(bounds->best, 1.0, 1e-12);   // a refusal
  // half and half: 4 relevant steps .5 (1 + .3) = .65; 1 step with warning .5 (.35 + .9) = .625;
  // 3 steps with warning .5 (.79 + .7) = .745; 4 with warning .5 (.9 + .6) = .75
  const std::vector<double> half = {0.5, 0.5};
  EXPECT_NEAR(reward->bounds(kPrompt, half)->best, 0.75, 1e-12);
}

TEST(RuleReward, RefusesUnknownObjectives) {
  try {
    (void)make_rule_reward({"helpfulness", "honesty"});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_NE(std::string(error.what()).find("'honesty'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("courtesy"), std::string::npos) << error.what();
  }
}

TEST(RuleReward, RefusesPromptsOfOtherDomains) {
  const auto reward = make_rule_reward({"helpfulness"});
  const std::vector<text::Turn> other = {{"user", "What is the capital of France?"}};
  EXPECT_THROW((void)reward->score(other, "Paris."), Error);
  EXPECT_THROW((void)reward->score({}, "Paris."), Error);
}

}  // namespace
}  // namespace apo::reward
