#pragma once

/// @file
/// Inside the room: average, complete and single linkage on Euclidean distances, with all distances
/// kept.

#include <span>
#include <vector>

#include "agglomerate.hpp"

namespace apo::clustering {

/// Largest number of different points that DistanceLinkage takes: 1.6 GB of distances.
inline constexpr int kMaxDistancePoints = 20000;

enum class LinkageKind { kWard, kAverage, kComplete, kSingle };

/// Cost of joining two clusters: mean over all pairs of points weighted by the product of their
/// weights (average), largest (complete) or smallest (single) distance. O(n) per search and join.
class DistanceLinkage final : public Linkage {
 public:
  /// @param kind       not kWard
  /// @param positions  [weight.size(), dimension]
  /// @param weight     W of each slot, positive
  DistanceLinkage(LinkageKind kind, std::span<const double> positions, std::vector<double> weight,
                  int dimension);

  [[nodiscard]] Candidate nearest(int slot) const override;
  void join(int keep, int gone) override;

 private:
  [[nodiscard]] std::size_t index(int a, int b) const;

  LinkageKind kind_;
  std::vector<double> weight_;    // [slot]
  std::vector<int> living_;       // ascending
  std::vector<double> distance_;  // of slots a < b, row by row
};

}  // namespace apo::clustering
