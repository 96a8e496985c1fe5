#pragma once

/// @file
/// Clusters to teams of ranks (design.md, section 2).

#include <span>
#include <utility>
#include <vector>

namespace apo::federation {

/// The ranks first_rank .. first_rank + num_ranks - 1 train `clusters`, one after the other.
struct Team {
  int first_rank = 0;
  int num_ranks = 1;
  std::vector<int> clusters;  ///< ascending
};

struct Placement {
  std::vector<Team> teams;
  std::vector<int> team_of_rank;     ///< [P]
  std::vector<int> team_of_cluster;  ///< [b]
};

/// P >= b: contiguous teams, one per cluster, sizes in proportion to cost (largest remainder, each
/// at least 1). P < b: whole clusters go to ranks, the most expensive first, always to the least
/// loaded rank; such a team has one rank.
/// @param cost  [b] predicted cost per round, positive
[[nodiscard]] Placement place_clusters(std::span<const double> cost, int num_ranks);

/// Half-open block of `count` items that member `rank` of `size` takes; blocks are contiguous, in
/// rank order, and differ by at most one item.
[[nodiscard]] std::pair<int, int> block_of(int count, int rank, int size);

}  // namespace apo::federation
