#include "apo/federation/placement.hpp"

#include <gtest/gtest.h>

namespace apo::federation {
namespace {

TEST(PlaceClusters, MoreRanksThanClustersFollowsCost) {
  const std::vector<double> cost = {6.0, 2.0};

  const Placement placement = place_clusters(cost, 6);

  ASSERT_EQ(placement.teams.size(), 2U);
  EXPECT_EQ(placement.teams[0].num_ranks, 4);  // 1 + 3 of the 4 spare ranks
  EXPECT_EQ(placement.teams[1].num_ranks, 2);
  EXPECT_EQ(placement.teams[1].first_rank, 4);
  EXPECT_EQ(placement.team_of_rank, (std::vector<int>{0, 0, 0, 0, 1, 1}));
}

TEST(PlaceClusters, FewerRanksThanClustersPacksLongestFirst) {
  const std::vector<double> cost = {1.0, 5.0, 2.0, 3.0};

  const Placement placement = place_clusters(cost, 2);

  // 5 -> rank 0; 3 -> rank 1; 2 -> rank 1; 1 -> rank 0 (5) or 1 (5): the first of the least loaded.
  EXPECT_EQ(placement.teams[0].clusters, (std::vector<int>{0, 1}));
  EXPECT_EQ(placement.teams[1].clusters, (std::vector<int>{2, 3}));
  EXPECT_EQ(placement.team_of_cluster, (std::vector<int>{0, 0, 1, 1}));
}

TEST(PlaceClusters, EveryRankAndClusterExactlyOnce) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int clusters = 1; clusters <= 7; ++clusters) {
      std::vector<double> cost;
      for (int c = 0; c < clusters; ++c) {
        cost.push_back(1.0 + 0.37 * ((c * 5) % 7));
      }

      const Placement placement = place_clusters(cost, ranks);

      int total_ranks = 0;
      std::vector<int> seen(static_cast<std::size_t>(clusters), 0);
      for (const Team& team : placement.teams) {
        EXPECT_EQ(team.first_rank, total_ranks);
        EXPECT_GE(team.num_ranks, 1);
        total_ranks += team.num_ranks;
        for (const int c : team.clusters) {
          ++seen[static_cast<std::size_t>(c)];
        }
      }
      EXPECT_EQ(total_ranks, ranks);
      EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(clusters), 1));
    }
  }
}

TEST(BlockOf, CoversInOrder) {
  for (int count = 0; count <= 10; ++count) {
    for (int size = 1; size <= 4; ++size) {
      int next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto [begin, end] = block_of(count, rank, size);
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, count / size + 1);
        next = end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace apo::federation
