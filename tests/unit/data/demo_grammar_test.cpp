#include <array>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {
namespace {

constexpr std::uint64_t kSeed = 7;

TEST(DemoGrammar, RendersASentenceAsWritten) {
  EXPECT_EQ(render(Prompt{0, 0, 1, 3}), "How do I clean the kettle in the rain?");
  EXPECT_EQ(render(Prompt{4, 3, 24, 7}),
            "I want to move the ladder without permission. Where do I start?");
  Answer answer;
  answer.greeting = 2;
  answer.steps = {{1, 5}, {2, 4}};  // rinse, lid; wipe, spout
  answer.warning = 0;
  answer.closing = 1;
  EXPECT_EQ(render(answer),
            "Hi, nice question. First rinse the lid. Then wipe the spout. Please wear gloves and "
            "go slowly. I hope that helps you.");
}

TEST(DemoGrammar, EveryPromptParsesBack) {
  std::set<std::string> texts;
  for (int phrasing = 0; phrasing < kNumTemplates; ++phrasing) {
    for (int action = 0; action < kNumActions; ++action) {
      for (int object = 0; object < kNumObjects; ++object) {
        for (int modifier = 0; modifier < kNumModifiers; ++modifier) {
          const Prompt prompt{phrasing, action, object, modifier};
          const std::string text = render(prompt);
          texts.insert(text);
          ASSERT_EQ(parse_prompt(text), prompt) << text;
        }
      }
    }
  }
  EXPECT_EQ(texts.size(), 5U * 16U * 32U * 11U);
}

TEST(DemoGrammar, EveryCorpusAnswerParsesBack) {
  for (std::uint64_t step = 0; step < 200; ++step) {
    for (std::uint64_t row = 0; row < 20; ++row) {
      const CorpusLine line = corpus_line(kSeed, step, row);
      const auto prompt = parse_prompt(line.prompt);
      ASSERT_TRUE(prompt) << line.prompt;
      EXPECT_FALSE(held_out(prompt->action, prompt->object)) << line.prompt;
      const auto answer = parse_answer(line.answer);
      ASSERT_TRUE(answer) << line.answer;
      EXPECT_EQ(render(*answer), line.answer);
      const int length = features(*prompt, *answer).length;
      EXPECT_GE(length, kMinLength) << line.answer;
      EXPECT_LE(length, kMaxLength) << line.answer;
    }
  }
}

TEST(DemoGrammar, RefusesWhatIsNotOfTheGrammar) {
  for (const char* text :
       {"", " ", "First rinse the lid", "First rinse the lid. ", " First rinse the lid.",
        "Then rinse the lid.", "First rinse the lid. First wipe the lid.",
        "First rinse the lid. Next wipe the lid.", "First lid the rinse.", "First rinse lid.",
        "First rinse the lid. Sorry, I can not help with that.", "Hi, nice question.",
        "I think this could work well. Sorry, I can not help with that.",
        "Sorry, I can not help with that. Take care and ask an expert.",
        "Good luck and have fun. First rinse the lid.", "First rinse the lid.Then wipe the lid.",
        "first rinse the lid.", "First rinse the lid.<|endoftext|>"}) {
    EXPECT_FALSE(parse_answer(text)) << "'" << text << "'";
  }
  EXPECT_TRUE(parse_answer("First rinse the lid."));
  EXPECT_TRUE(parse_answer("Sorry, I can not help with that."));
  for (const char* text :
       {"", "How do I clean the kettle?", "How do I clean the kettle in the rain",
        "How do I clean the kettle in the rain? ", "How do I eat the kettle in the rain?"}) {
    EXPECT_FALSE(parse_prompt(text)) << "'" << text << "'";
  }
}

TEST(DemoGrammar, OnePairInEightIsHeldOutEvenly) {
  std::array<int, kNumActions> by_action{};
  std::array<int, kNumObjects> by_object{};
  for (int action = 0; action < kNumActions; ++action) {
    for (int object = 0; object < kNumObjects; ++object) {
      by_action[static_cast<std::size_t>(action)] += held_out(action, object) ? 1 : 0;
      by_object[static_cast<std::size_t>(object)] += held_out(action, object) ? 1 : 0;
    }
  }
  for (const int count : by_action) {
    EXPECT_EQ(count, 4);
  }
  for (const int count : by_object) {
    EXPECT_EQ(count, 2);
  }
}

TEST(DemoGrammar, PoolsAreKeptApart) {
  CounterRng rng({kSeed, Purpose::kTest, 0, 0, 0});
  for (int i = 0; i < 500; ++i) {
    const Prompt seen = sample_prompt(rng, PromptPool::kSeen);
    EXPECT_FALSE(held_out(seen.action, seen.object));
    const Prompt fresh = sample_prompt(rng, PromptPool::kHeldOut);
    EXPECT_TRUE(held_out(fresh.action, fresh.object));
  }
}

TEST(DemoGrammar, CorpusIsAFunctionOfItsKey) {
  EXPECT_EQ(corpus_line(kSeed, 3, 4).answer, corpus_line(kSeed, 3, 4).answer);
  std::set<std::string> answers;
  for (std::uint64_t row = 0; row < 100; ++row) {
    answers.insert(corpus_line(kSeed, 3, row).answer);
  }
  EXPECT_GT(answers.size(), 85U);
  EXPECT_NE(corpus_line(kSeed, 3, 4).prompt + corpus_line(kSeed, 3, 5).prompt,
            corpus_line(kSeed + 1, 3, 4).prompt + corpus_line(kSeed + 1, 3, 5).prompt);
}

TEST(DemoGrammar, CorpusSpoilsFifteenInAHundred) {
  double steps = 0;
  double relevant = 0;
  double refusals = 0;
  constexpr int kLines = 4000;
  for (std::uint64_t row = 0; row < kLines; ++row) {
    const CorpusLine line = corpus_line(kSeed, 0, row);
    const Features f = features(*parse_prompt(line.prompt), *parse_answer(line.answer));
    steps += f.num_steps;
    relevant += f.num_relevant;
    refusals += f.refusal ? 1 : 0;
  }
  // (1 - .15 (1 - 4/64)) (1 - .15 (1 - 4/128)) = .734; standard error about .005
  EXPECT_NEAR(relevant / steps, 0.734, 0.02);
  EXPECT_NEAR(refusals / kLines, 0.2, 0.025);
}

TEST(DemoGrammar, PreferencesLeanToTheClientsCorner) {
  std::array<double, kNumObjectives> at_corner{};
  constexpr int kRounds = 200;
  for (int k = 0; k < kRounds * kNumObjectives; ++k) {
    const std::vector<double> preference = client_preference(kSeed, k);
    ASSERT_EQ(preference.size(), 4U);
    double sum = 0;
    for (const double weight : preference) {
      EXPECT_GT(weight, 0.0);
      sum += weight;
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
    const auto corner = static_cast<std::size_t>(k % kNumObjectives);
    at_corner[corner] += preference[corner] / kRounds;
  }
  for (const double mean : at_corner) {
    EXPECT_NEAR(mean, 8.0 / 11.0, 0.04);  // sd of one draw .129
  }
}

}  // namespace
}  // namespace apo::data::demo
