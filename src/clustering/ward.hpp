#pragma once

/// @file
/// Inside the room: agglomeration by a pairwise cost.

#include <functional>
#include <utility>
#include <vector>

namespace apo::clustering {

/// Weighted mean of adjustments.
struct Centroid {
  std::vector<double> mean;  ///< [m]
  double weight = 0.0;
};

/// Increase of sum W_i ||A_i - mean||^2 by joining a and b.
[[nodiscard]] double ward_cost(const Centroid& a, const Centroid& b);

/// Mean and weight of the union. Exact where both means are equal, so duplicates stay at distance
/// 0.
[[nodiscard]] Centroid joined(const Centroid& a, const Centroid& b);

/// Cost of joining two slots; compared lexicographically, smallest first.
using JoinCost = std::pair<int, double>;

struct Join {
  int slot = 0;   ///< keeps the union
  int other = 0;  ///< > slot; gone afterwards
};

/// Joins 0..count-1 until one slot is left: always the pair of smallest cost, ties by the smaller
/// slot, then by the smaller other slot. Each slot remembers its nearest later slot, so a join
/// costs one pass plus a search for the slots that lost their nearest one: O(n^2) cost calls in all
/// for data in general position, O(n^3) at worst.
///
/// @param cost  (a, b), a < b; symmetric
/// @param join  called for each join, in order, before costs that involve the union are asked for
void agglomerate(int count, const std::function<JoinCost(int, int)>& cost,
                 const std::function<void(const Join&)>& join);

}  // namespace apo::clustering
