#pragma once

/// @file
/// Inside the room: weighted Ward linkage (spec algorithms.md, section 2.3), with the nearest
/// neighbours from a k-d tree.

#include <span>
#include <vector>

#include "agglomerate.hpp"
#include "box_tree.hpp"

namespace apo::clustering {

[[nodiscard]] inline double squared_distance(const double* a, const double* b, int dimension) {
  double squared = 0.0;
  for (int j = 0; j < dimension; ++j) {
    const double difference = a[j] - b[j];
    squared += difference * difference;
  }
  return squared;
}

/// Increase of sum W_i ||x_i - mean||^2 by joining two clusters whose means are `squared` apart.
[[nodiscard]] inline double ward_cost(double squared, double weight, double other_weight) {
  return weight * other_weight / (weight + other_weight) * squared;
}

/// Moves `mean` and `weight` to those of the union with another cluster. Exact where both means are
/// equal, so duplicates stay at distance 0.
inline void absorb(double* mean, double& weight, const double* other, double other_weight,
                   int dimension) {
  weight += other_weight;
  const double pull = other_weight / weight;
  for (int j = 0; j < dimension; ++j) {
    mean[j] += pull * (other[j] - mean[j]);
  }
}

/// Searches are exact: a box is left out only if even its lightest point in its nearest corner
/// would cost more than the best found. Joined slots stay in the tree, whose boxes grow to hold
/// them; it is built anew whenever half of the slots are gone. A search takes O(log n) on data in
/// few dimensions, O(n) at worst. Memory: 100 bytes per slot at 3 dimensions.
class WardLinkage final : public Linkage {
 public:
  /// @param mean    [weight.size(), dimension]
  /// @param weight  W of each slot, positive
  WardLinkage(std::vector<double> mean, std::vector<double> weight, int dimension);

  [[nodiscard]] Candidate nearest(int slot) const override;
  void join(int keep, int gone) override;

 private:
  struct Query;

  [[nodiscard]] double* mean_of(int slot);
  [[nodiscard]] const double* mean_of(int slot) const;
  void rebuild();
  void remove(int slot);
  void move(int slot, int place, int leaf);
  void extend(int leaf, const double* mean);
  void update_lightest(int leaf);
  [[nodiscard]] double least_cost(int node, const Query& query) const;
  void scan(int leaf, Query& query) const;
  void descend(int node, Query& query) const;

  int dimension_;
  std::vector<double> mean_;    // [slot, dimension]
  std::vector<double> weight_;  // [slot]; 0: gone
  std::vector<int> place_of_;   // [slot], in the tree's items
  std::vector<int> leaf_of_;    // [slot]
  int living_;
  int built_for_ = 0;  // living slots when the tree was built

  BoxTree tree_;                      // a leaf's `end` falls as its slots die
  std::vector<double> lightest_;      // [node], infinity where nobody is left
  std::vector<double> place_mean_;    // [place, dimension]: copies, read in sequence
  std::vector<double> place_weight_;  // [place]
};

}  // namespace apo::clustering
