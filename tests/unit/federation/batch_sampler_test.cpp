#include "apo/federation/batch_sampler.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace apo::federation {
namespace {

data::Pool pool_of(const std::vector<int>& sizes) {
  data::Pool pool;
  int next = 0;
  for (const int size : sizes) {
    pool.emplace_back();
    for (int k = 0; k < size; ++k) {
      pool.back().push_back(next++);
    }
  }
  return pool;
}

const StreamKey kKey{7, Purpose::kBatch, 1, 2, 3};

TEST(StratifiedCounts, FollowsTheRule) {
  // B_j = max(1, round(B |D_j| / N)): 8 of 20/10/2 pairs and an absent objective.
  EXPECT_EQ(stratified_counts(pool_of({20, 10, 2, 0}), 8), (std::vector<int>{5, 3, 1, 0}));
}

TEST(BatchSampler, EveryPairOnceBeforeAnyTwice) {
  BatchSampler sampler(pool_of({6, 6}), kKey, {});
  std::map<int, int> seen;

  for (int k = 0; k < 3; ++k) {
    for (const auto& pairs : sampler.next(4)) {
      for (const int pair : pairs) {
        ++seen[pair];
      }
    }
  }

  EXPECT_EQ(seen.size(), 12U);
  for (const auto& [pair, count] : seen) {
    EXPECT_EQ(count, 1) << pair;
  }
}

TEST(BatchSampler, ReshufflesAndStaysInItsObjective) {
  BatchSampler sampler(pool_of({3, 2}), kKey, {});

  for (int k = 0; k < 20; ++k) {
    const auto batch = sampler.next(5);

    ASSERT_EQ(batch[0].size(), 3U);
    ASSERT_EQ(batch[1].size(), 2U);
    for (const int pair : batch[0]) {
      EXPECT_LT(pair, 3);
    }
    for (const int pair : batch[1]) {
      EXPECT_GE(pair, 3);
    }
  }
}

TEST(BatchSampler, IsAFunctionOfItsKey) {
  BatchSampler a(pool_of({9, 9}), kKey, {});
  BatchSampler b(pool_of({9, 9}), kKey, {});
  BatchSampler other(pool_of({9, 9}), {8, Purpose::kBatch, 1, 2, 3}, {});

  const auto first = a.next(6);

  EXPECT_EQ(first, b.next(6));
  EXPECT_NE(first, other.next(6));
}

TEST(BatchSampler, ObjectivesMeetTheSameTextsTogether) {
  // Objective 1 labels the same eight texts as objective 0, as pairs 8..15.
  std::vector<int> text(16);
  for (int k = 0; k < 16; ++k) {
    text[static_cast<std::size_t>(k)] = k % 8;
  }
  BatchSampler sampler(pool_of({8, 8}), kKey, text);

  for (int k = 0; k < 6; ++k) {  // beyond one epoch
    const auto batch = sampler.next(6);
    ASSERT_EQ(batch[0].size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(batch[0][i] % 8, batch[1][i] % 8);
    }
  }
}

TEST(DrawSupport, StratifiedWithoutRepeats) {
  CounterRng rng(kKey);

  const data::Pool support = draw_support(pool_of({30, 20}), 20, rng);

  EXPECT_EQ(support[0].size(), 12U);
  EXPECT_EQ(support[1].size(), 8U);
  const std::set<int> distinct(support[0].begin(), support[0].end());
  EXPECT_EQ(distinct.size(), 12U);
}

TEST(DrawSupport, SmallPoolsAreReturnedWhole) {
  CounterRng rng(kKey);

  EXPECT_EQ(draw_support(pool_of({5, 3}), 20, rng), pool_of({5, 3}));
}

}  // namespace
}  // namespace apo::federation
