#include "ditto_schedule.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

namespace apo::methods {
namespace {

constexpr SelfPlaySchedule kSchedule{
    .batch_size = 8, .resample_every = 10, .samples_per_prompt = 10};

std::map<PairKind, int> count_kinds(const std::vector<Comparison>& comparisons) {
  std::map<PairKind, int> count;
  for (const Comparison& comparison : comparisons) {
    ++count[comparison.kind];
  }
  return count;
}

// algorithms.md 10.9
TEST(SuperBatch, FirstTenStepsCompareOnlyExpertPairs) {
  for (int step = 0; step < 10; ++step) {
    const std::vector<Comparison> comparisons = super_batch(kSchedule, 16, step, 1, 2);
    EXPECT_EQ(comparisons.size(), 17U);  // 70 % of 24; nothing fills the rest
    for (const Comparison& comparison : comparisons) {
      EXPECT_EQ(comparison.kind, PairKind::kExpert);
      EXPECT_EQ(comparison.preferred.stage, kDemonstration);
      EXPECT_EQ(comparison.other.stage, 0);
    }
  }
}

TEST(SuperBatch, LaterStepsMixSeventyTwentyTen) {
  for (int step = 10; step < 40; ++step) {
    EXPECT_EQ(count_kinds(super_batch(kSchedule, 16, step, 1, 2)),
              (std::map<PairKind, int>{
                  {PairKind::kExpert, 17}, {PairKind::kReplay, 5}, {PairKind::kNoisy, 2}}));
  }
  // a pass over 20 demonstrations ends with a batch of 4: round(8.4), round(2.4), round(1.2)
  EXPECT_EQ(count_kinds(super_batch(kSchedule, 20, 11, 1, 2)),
            (std::map<PairKind, int>{
                {PairKind::kExpert, 8}, {PairKind::kReplay, 2}, {PairKind::kNoisy, 1}}));
}

TEST(SuperBatch, ComparesDemonstrationsOverSamplesAndLaterOverEarlierOnes) {
  std::set<std::pair<int, int>> noisy_stages;
  std::set<int> replayed;
  for (int step = 0; step < 40; ++step) {
    const int latest = step / 10;
    const std::vector<Comparison> comparisons = super_batch(kSchedule, 16, step, 3, 4);
    EXPECT_EQ(std::set(comparisons.begin(), comparisons.end()).size(), comparisons.size());
    for (const Comparison& comparison : comparisons) {
      // what is not preferred is always the policy's own: no rejected response of the data
      EXPECT_GE(comparison.other.stage, 0);
      EXPECT_GE(comparison.other.sample, 0);
      EXPECT_LT(comparison.other.sample, 10);
      switch (comparison.kind) {
        case PairKind::kExpert:
          EXPECT_EQ(comparison.preferred, ResponseName{});
          EXPECT_EQ(comparison.other.stage, latest);
          break;
        case PairKind::kReplay:
          EXPECT_EQ(comparison.preferred, ResponseName{});
          EXPECT_LT(comparison.other.stage, latest);
          replayed.insert(comparison.other.stage);
          break;
        case PairKind::kNoisy:
          EXPECT_GT(comparison.preferred.stage, comparison.other.stage);
          EXPECT_LE(comparison.preferred.stage, latest);
          EXPECT_LT(comparison.preferred.sample, 10);
          noisy_stages.emplace(comparison.preferred.stage, comparison.other.stage);
          break;
      }
    }
  }
  EXPECT_EQ(replayed, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(noisy_stages,
            (std::set<std::pair<int, int>>{{1, 0}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}));
}

TEST(SuperBatch, StaysInsideItsDemonstrationsAndWhatThereIs) {
  const std::vector<int> batch = demonstration_batch(20, 8, 12, 5, DittoStream::kSelfPlay, 6);
  for (const Comparison& comparison : super_batch(kSchedule, 20, 12, 5, 6)) {
    EXPECT_TRUE(std::ranges::count(batch, comparison.demonstration) == 1);
  }
  SelfPlaySchedule scarce = kSchedule;
  scarce.samples_per_prompt = 1;
  EXPECT_EQ(super_batch(scarce, 16, 3, 5, 6).size(), 8U);  // one sample each
  EXPECT_EQ(count_kinds(super_batch(scarce, 1, 13, 5, 6)),
            (std::map<PairKind, int>{{PairKind::kExpert, 1}, {PairKind::kReplay, 1}}));
}

TEST(SuperBatch, IsAFunctionOfSeedClientAndStep) {
  EXPECT_EQ(super_batch(kSchedule, 16, 25, 1, 2), super_batch(kSchedule, 16, 25, 1, 2));
  EXPECT_NE(super_batch(kSchedule, 16, 25, 1, 2), super_batch(kSchedule, 16, 26, 1, 2));
  EXPECT_NE(super_batch(kSchedule, 16, 25, 1, 2), super_batch(kSchedule, 16, 25, 1, 3));
  EXPECT_NE(super_batch(kSchedule, 16, 25, 1, 2), super_batch(kSchedule, 16, 25, 9, 2));
}

TEST(DemonstrationBatch, PassesOverAllAndShufflesAnew) {
  const auto pass = [](int number) {
    std::vector<int> seen;
    for (int step = 3 * number; step < 3 * number + 3; ++step) {
      for (const int d : demonstration_batch(20, 8, step, 1, DittoStream::kFineTuning, 2)) {
        seen.push_back(d);
      }
    }
    return seen;
  };
  EXPECT_EQ(demonstration_batch(20, 8, 2, 1, DittoStream::kFineTuning, 2).size(), 4U);
  for (int number = 0; number < 3; ++number) {
    std::vector<int> seen = pass(number);
    std::ranges::sort(seen);
    ASSERT_EQ(seen.size(), 20U);
    for (int d = 0; d < 20; ++d) {
      EXPECT_EQ(seen[static_cast<std::size_t>(d)], d);
    }
  }
  EXPECT_NE(pass(0), pass(1));
}

// llm.md, section 8: W = 10, N = 100.
TEST(LearningRate, WarmUpsAreHuggingFaces) {
  EXPECT_EQ(cosine_with_warmup(0, 100, 0.1), 0.0);
  EXPECT_NEAR(cosine_with_warmup(5, 100, 0.1), 0.5, 1e-12);
  EXPECT_NEAR(cosine_with_warmup(10, 100, 0.1), 1.0, 1e-12);
  EXPECT_NEAR(cosine_with_warmup(11, 100, 0.1), 0.999695414, 1e-9);
  EXPECT_NEAR(cosine_with_warmup(32, 100, 0.1), 0.859669900, 1e-9);
  EXPECT_NEAR(cosine_with_warmup(99, 100, 0.1), 0.000304586, 1e-9);
  EXPECT_EQ(constant_with_warmup(0, 40, 0.25), 0.0);
  EXPECT_NEAR(constant_with_warmup(7, 40, 0.25), 0.7, 1e-12);
  EXPECT_EQ(constant_with_warmup(10, 40, 0.25), 1.0);
  EXPECT_EQ(constant_with_warmup(39, 40, 0.25), 1.0);
  EXPECT_EQ(constant_with_warmup(0, 40, 0.0), 1.0);
}

}  // namespace
}  // namespace apo::methods
