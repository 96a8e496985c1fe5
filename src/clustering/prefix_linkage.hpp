#pragma once

/// @file
/// Inside the room: joins bottleneck orders where the budget is below their number (spec
/// algorithms.md, section 2.4).

#include <vector>

#include "agglomerate.hpp"

namespace apo::clustering {

/// The clients of one bottleneck order.
struct PrefixGroup {
  std::vector<int> order;    ///< [m]; empty for HC's only group
  std::vector<double> mean;  ///< weighted mean position, [m]
  double weight = 0.0;
};

/// Number of leading entries that are equal.
[[nodiscard]] std::size_t common_prefix(const std::vector<int>& a, const std::vector<int>& b);

/// All joins down to one group: always the pair with the longest common prefix (of all members),
/// then of the smallest weighted Ward cost, then the lexicographically smaller ones.
///
/// @param groups  different orders, lexicographic
[[nodiscard]] std::vector<Join> join_by_prefix(std::vector<PrefixGroup> groups);

}  // namespace apo::clustering
