#include <numeric>

#include "dendrogram.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::clustering {
namespace {

using Counts = std::vector<int>;

TEST(LargestRemainder, WorkedExamples) {
  const Counts sizes{50, 30, 20};
  EXPECT_EQ(largest_remainder(sizes, sizes, 10), (Counts{5, 3, 2}));
  // Quotas 3.5, 2.1, 1.4: 6 whole ones, the last to .5.
  EXPECT_EQ(largest_remainder(sizes, sizes, 7), (Counts{4, 2, 1}));
  // Quotas 2.5, 1.5, 1.0: equal remainders, so the larger group.
  EXPECT_EQ(largest_remainder(sizes, sizes, 5), (Counts{3, 1, 1}));
  EXPECT_EQ(largest_remainder(sizes, sizes, 3), (Counts{1, 1, 1}));
  EXPECT_EQ(largest_remainder(sizes, sizes, 100), sizes);
  // Equal groups: the lower index.
  EXPECT_EQ(largest_remainder(Counts{4, 4, 4}, Counts{4, 4, 4}, 4), (Counts{2, 1, 1}));
}

TEST(LargestRemainder, NobodyGoesWithout) {
  // Quotas 2.94, .03, .03: the small ones get 1 each, and 98 clients share the last one.
  EXPECT_EQ(largest_remainder(Counts{98, 1, 1}, Counts{98, 1, 1}, 3), (Counts{1, 1, 1}));
  EXPECT_EQ(largest_remainder(Counts{98, 1, 1}, Counts{98, 1, 1}, 5), (Counts{3, 1, 1}));
  // Quotas 2.4, 1.2, .4: after the third has got 1, the other 3 are shared 2 : 1.
  EXPECT_EQ(largest_remainder(Counts{60, 30, 10}, Counts{60, 30, 10}, 4), (Counts{2, 1, 1}));
}

TEST(LargestRemainder, WhatCapacitiesLeaveOverIsPassedOn) {
  EXPECT_EQ(largest_remainder(Counts{50, 30, 20}, Counts{2, 30, 20}, 10), (Counts{2, 5, 3}));
  EXPECT_EQ(largest_remainder(Counts{50, 30, 20}, Counts{2, 1, 3}, 10), (Counts{2, 1, 3}));
}

TEST(LargestRemainder, SumsUpWithinTheBounds) {
  CounterRng rng({.seed = 5});
  for (int trial = 0; trial < 500; ++trial) {
    Counts sizes;
    Counts capacities;
    for (std::uint64_t g = 0; g <= rng.below(9); ++g) {
      sizes.push_back(1 + static_cast<int>(rng.below(trial % 2 == 0 ? 5 : 200)));
      capacities.push_back(1 +
                           static_cast<int>(rng.below(static_cast<std::uint64_t>(sizes.back()))));
    }
    const int n = std::accumulate(sizes.begin(), sizes.end(), 0);
    const int room = std::accumulate(capacities.begin(), capacities.end(), 0);
    const auto groups = static_cast<int>(sizes.size());
    const int budget =
        groups + static_cast<int>(rng.below(static_cast<std::uint64_t>(n - groups + 1)));
    const Counts free = largest_remainder(sizes, sizes, budget);
    const Counts tight = largest_remainder(sizes, capacities, budget);
    EXPECT_EQ(std::accumulate(free.begin(), free.end(), 0), budget);
    EXPECT_EQ(std::accumulate(tight.begin(), tight.end(), 0), std::min(budget, room));
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      EXPECT_GE(free[g], 1);
      EXPECT_LE(free[g], sizes[g]);
      EXPECT_GE(tight[g], 1);
      EXPECT_LE(tight[g], capacities[g]);
      // Nobody is served better than a larger group, beyond the 1 that all get.
      for (std::size_t other = 0; other < sizes.size(); ++other) {
        if (sizes[other] > sizes[g]) {
          EXPECT_GE(free[other], free[g]);
        }
      }
    }
  }
}

TEST(LargestRemainder, RefusesFewerClustersThanGroups) {
  EXPECT_THROW(static_cast<void>(largest_remainder(Counts{5, 5}, Counts{5, 5}, 1)), Error);
}

}  // namespace
}  // namespace apo::clustering
