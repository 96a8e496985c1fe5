#pragma once

/// @file
/// Inside the room: the whole dendrogram and its cuts (spec algorithms.md, sections 2.3 and 2.4).

#include <span>
#include <vector>

#include "distance_linkage.hpp"

#include "apo/clustering/clustering.hpp"

namespace apo::clustering {

/// The clients by ascending id.
struct Leaves {
  int dimension = 0;
  std::vector<double> position;  ///< [n, dimension]: A, or lambda for HC
  std::vector<double> weight;    ///< [n], W
  std::vector<int> group;        ///< [n], index into `orders`
  /// Bottleneck orders, lexicographic and without repeats. HC has one group, with an empty order.
  std::vector<std::vector<int>> orders;

  [[nodiscard]] int count() const { return static_cast<int>(weight.size()); }
  [[nodiscard]] const double* at(int leaf) const {
    return position.data() + static_cast<std::ptrdiff_t>(leaf) * dimension;
  }
};

/// Nodes 0..n-1 are the leaves, node n + k is merges()[k]. Children come before their parents.
class Dendrogram {
 public:
  /// @throws Error(kConfig)  a group has more different points than the linkage can take
  Dendrogram(const Leaves& leaves, LinkageKind linkage);

  [[nodiscard]] const std::vector<Merge>& merges() const { return merges_; }
  /// Root of each bottleneck order's tree, parallel to Leaves::orders.
  [[nodiscard]] const std::vector<int>& group_roots() const { return group_roots_; }
  [[nodiscard]] int root() const { return num_leaves_ + static_cast<int>(merges_.size()) - 1; }

  /// Splits the highest node (ties: the heavier, then the one with the smaller leaf; infinite ones:
  /// the latest) until there are `count` roots, or only leaves and nodes not above `zero_height`.
  [[nodiscard]] std::vector<int> cut(std::vector<int> roots, int count, double zero_height) const;

  /// For each leaf the position in `roots` of the node it is below; every leaf must be below one.
  [[nodiscard]] std::vector<int> labels(std::span<const int> roots) const;

  /// For each group, into how many clusters splits above `zero_height` can take it.
  [[nodiscard]] std::vector<int> capacities(double zero_height) const;

 private:
  [[nodiscard]] int smallest_leaf(int node) const;
  [[nodiscard]] double height(int node) const;
  [[nodiscard]] double weight(int node) const;
  int add(int a, int b, double cost);
  int grow(const std::vector<int>& members, const Leaves& leaves, LinkageKind linkage);
  void sort_by_height();
  void join_groups(const Leaves& leaves, std::vector<std::vector<int>> members);

  int num_leaves_;
  std::vector<double> leaf_weight_;
  std::vector<Merge> merges_;
  std::vector<int> smallest_leaf_;  // [merge]
  std::vector<int> group_roots_;
};

/// Section 2.4, largest remainder: shares of `budget` clusters in proportion to `sizes`, each at
/// least 1 and at most its capacity; what capacities leave over goes where the share lags most.
///
/// Ties go to the larger group, then to the lower index. Sums to min(budget, sum of capacities).
///
/// @param budget  sizes.size() .. sum of sizes
[[nodiscard]] std::vector<int> largest_remainder(std::span<const int> sizes,
                                                 std::span<const int> capacities, int budget);

}  // namespace apo::clustering
