#include <limits>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {
namespace {

const Prompt kSafe{0, 0, 1, 3};        // clean the kettle in the rain
const Prompt kDangerous{0, 0, 24, 0};  // clean the ladder before breakfast
const Prompt kForbidden{0, 0, 1, 7};   // clean the kettle without permission

Scores scores_of(const Prompt& prompt, const std::string& text) {
  const auto answer = parse_answer(text);
  EXPECT_TRUE(answer) << text;
  return score(prompt, answer.value_or(Answer{}));
}

void expect_scores(const Prompt& prompt, const std::string& text, const Scores& expected) {
  const Scores found = scores_of(prompt, text);
  for (std::size_t j = 0; j < expected.size(); ++j) {
    EXPECT_NEAR(found[j], expected[j], 1e-12) << objective_names()[j] << ": " << text;
  }
}

TEST(DemoRules, RiskOfModifierAndObject) {
  EXPECT_EQ(risk(kSafe), 0);
  EXPECT_EQ(risk(kDangerous), 1);
  EXPECT_EQ(risk(kForbidden), 2);
  EXPECT_EQ(risk({0, 0, 24, 7}), 2);
}

// Lengths are counted by hand: "First rinse the lid." has 5 words and marks.
TEST(DemoRules, HandComputedSafe) {
  expect_scores(kSafe, "First rinse the lid.", {0.45, 1.0, 42.0 / 42.0, 0.0});
  expect_scores(kSafe, "First rinse the lid. Then wash the spout.", {0.72, 1.0, 37.0 / 42.0, 0.0});
  expect_scores(kSafe,
                "First rinse the lid. Then wash the spout. Next scrub the filter. Finally wipe the "
                "whistle.",
                {1.0, 1.0, 27.0 / 42.0, 0.0});
  // a repeated step is not relevant a second time
  expect_scores(kSafe, "First rinse the lid. Then rinse the lid.", {0.30, 1.0, 37.0 / 42.0, 0.0});
  // "glue" belongs to repair, "pedal" to the bicycle; nothing relevant: clipped at 0
  expect_scores(kSafe, "First glue the lid. Then rinse the pedal.", {0.0, 1.0, 37.0 / 42.0, 0.0});
  // greeting 6, hedge 7, steps 15, warning 7, closing 7: 42 words and marks
  expect_scores(kSafe,
                "Hello there, dear friend. I think this could work well. First rinse the lid. Then "
                "wipe the spout. Next glue the lid. Please wear gloves and go slowly. Let me know "
                "how it goes.",
                {0.72 - 0.15 - 0.2, 1.0, 5.0 / 42.0, 1.0});
  expect_scores(kSafe, "Sorry, I can not help with that.", {0.0, 1.0, 38.0 / 42.0, 0.0});
  expect_scores(
      kSafe,
      "Good day to you. I would rather not answer this. Maybe an expert can do it. I hope "
      "that helps you.",
      {0.1, 1.0, (47.0 - 5 - 7 - 7 - 6) / 42.0, 0.75});
}

TEST(DemoRules, HandComputedRisky) {
  expect_scores(kDangerous, "First rinse the rung.", {0.45, 0.6, 1.0, 0.0});
  expect_scores(kDangerous, "First rinse the rung. Take care and ask an expert.",
                {0.35, 0.9, 35.0 / 42.0, 0.0});
  expect_scores(kDangerous,
                "First rinse the rung. Then wipe the rail. Next wash the foot. Good luck and have "
                "fun.",
                {0.89, 0.4, 26.0 / 42.0, 0.4});
  expect_scores(kDangerous, "I would rather not answer this.", {0.0, 1.0, 40.0 / 42.0, 0.0});
  expect_scores(kForbidden, "First rinse the lid.", {0.45, 0.2, 1.0, 0.0});
  expect_scores(kForbidden,
                "First rinse the lid. Then wipe the spout. Please wear gloves and go slowly.",
                {0.62, 0.35, 30.0 / 42.0, 0.0});
}

TEST(DemoRules, ScoresStayInTheUnitInterval) {
  CounterRng rng({3, Purpose::kTest, 0, 0, 0});
  for (int i = 0; i < 20000; ++i) {
    const Prompt prompt = sample_prompt(rng, PromptPool::kSeen);
    for (const double value : score(prompt, sample_answer(rng, prompt))) {
      ASSERT_GE(value, 0.0);
      ASSERT_LE(value, 1.0);
    }
  }
}

/// Calls visit(answer) for answers with every wording, every number of steps and every number of
/// relevant steps, through the explicit structure rather than through Features.
template <class Visit>
void for_all_answers(const Prompt& prompt, const Visit& visit) {
  const int verb = prompt.action * kVerbsPerAction;
  const int part = prompt.object * kPartsPerObject;
  const std::vector<Step> steps = {{verb, part},
                                   {verb + 1, part + 1},
                                   {verb + 2, part + 2},
                                   {verb + 3, part + 3},
                                   {(verb + 9) % (kNumActions * kVerbsPerAction), part},
                                   {verb, (part + 9) % (kNumObjects * kPartsPerObject)}};
  std::vector<std::vector<Step>> bodies = {{}};
  for (std::size_t begin = 0, n = 0; n < kMaxSteps; ++n) {
    const std::size_t end = bodies.size();
    for (; begin < end; ++begin) {
      for (const Step& step : steps) {
        std::vector<Step> longer = bodies[begin];
        longer.push_back(step);
        bodies.push_back(std::move(longer));
      }
    }
  }
  const WordingCounts counts = wording_counts();
  Answer answer;
  for (answer.greeting = kAbsent; answer.greeting < counts.greeting; ++answer.greeting) {
    for (answer.closing = kAbsent; answer.closing < counts.closing; ++answer.closing) {
      for (const std::vector<Step>& body : bodies) {
        answer.steps = body;
        answer.hedge = answer.warning = answer.refusal = answer.alternative = kAbsent;
        if (body.empty()) {
          for (answer.refusal = 0; answer.refusal < counts.refusal; ++answer.refusal) {
            for (answer.alternative = kAbsent; answer.alternative < counts.alternative;
                 ++answer.alternative) {
              visit(answer);
            }
          }
          continue;
        }
        for (answer.hedge = kAbsent; answer.hedge < counts.hedge; ++answer.hedge) {
          for (answer.warning = kAbsent; answer.warning < counts.warning; ++answer.warning) {
            visit(answer);
          }
        }
      }
    }
  }
}

TEST(DemoRules, RangeEqualsBruteForce) {
  const std::vector<std::vector<double>> preferences = {
      {1.0, 0.0, 0.0, 0.0},     {0.0, 1.0, 0.0, 0.0},   {0.0, 0.0, 1.0, 0.0},  {0.0, 0.0, 0.0, 1.0},
      {0.25, 0.25, 0.25, 0.25}, {0.7, 0.1, 0.15, 0.05}, {0.1, 0.55, 0.05, 0.3}};
  for (const Prompt& prompt : {kSafe, kDangerous, kForbidden}) {
    std::vector<ScoreRange> expected(
        preferences.size(),
        {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()});
    int shortest = 1000;
    int longest = 0;
    for_all_answers(prompt, [&](const Answer& answer) {
      const Features f = features(prompt, answer);
      shortest = std::min(shortest, f.length);
      longest = std::max(longest, f.length);
      const Scores values = score(f);
      for (std::size_t p = 0; p < preferences.size(); ++p) {
        double weighted = 0.0;
        for (std::size_t j = 0; j < values.size(); ++j) {
          weighted += preferences[p][j] * values[j];
        }
        expected[p].worst = std::min(expected[p].worst, weighted);
        expected[p].best = std::max(expected[p].best, weighted);
      }
    });
    EXPECT_EQ(shortest, kMinLength);
    EXPECT_EQ(longest, kMaxLength);
    for (std::size_t p = 0; p < preferences.size(); ++p) {
      const ScoreRange range = score_range(prompt, preferences[p]);
      EXPECT_NEAR(range.worst, expected[p].worst, 1e-12) << "preference " << p;
      EXPECT_NEAR(range.best, expected[p].best, 1e-12) << "preference " << p;
    }
  }
}

TEST(DemoRules, RowsFollowTheRulesAndTiesCarryNone) {
  const std::string brief = "First rinse the lid.";
  const std::string full = "Hi, nice question. First rinse the lid. Then wash the spout.";
  const AnswerPair pair{
      kSafe, {brief, full}, {scores_of(kSafe, brief), scores_of(kSafe, full)}, "train"};
  const std::string prompt = "How do I clean the kettle in the rain?";
  const auto row = [&](const std::string& objective, const std::string& chosen,
                       const std::string& rejected) {
    return R"({"client":"client-07","objective":")" + objective + R"(","prompt":")" + prompt +
           R"(","chosen":")" + chosen + R"(","rejected":")" + rejected +
           "\",\"split\":\"train\"}\n";
  };
  EXPECT_EQ(
      jsonl_rows("client-07", {&pair, 1}),
      row("helpfulness", full, brief) + row("brevity", brief, full) + row("courtesy", full, brief));
}

TEST(DemoRules, EqualTextsGiveEqualArchives) {
  const std::string text(10000, 'x');
  const std::string packed = gzip(text);
  EXPECT_LT(packed.size(), 200U);
  EXPECT_EQ(packed, gzip(text));
  EXPECT_EQ(packed.substr(4, 4), std::string(4, '\0'));  // modification time
}

}  // namespace
}  // namespace apo::data::demo
