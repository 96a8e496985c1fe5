#pragma once

/// @file
/// Bottleneck-adjustment clustering (spec algorithms.md, section 2). Numbers only.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/clustering/options.hpp"
#include "apo/core/ids.hpp"

namespace apo::clustering {

/// One client as the clustering sees it.
struct Point {
  ClientId client;
  std::vector<double> loss;        ///< l at w_ref, [m], positive
  std::vector<double> preference;  ///< lambda, [m]
  double weight = 1.0;             ///< W_i = N_i
};

/// Indices of the objectives by descending lambda_j l_j; ties to the lower index (keys are
/// quantised to 1e-12 in the logarithm first).
[[nodiscard]] std::vector<int> bottleneck_order(std::span<const double> loss,
                                                std::span<const double> preference);

/// One merge of the dendrogram. Leaves are 0..n-1 (positions in the input sorted by client id), the
/// k-th merge makes node n + k, as in scipy. Heights never fall along the list; scipy's Ward
/// distance is sqrt(2 height) where all weights are 1.
struct Merge {
  int left = 0;  ///< the node that holds the smaller leaf
  int right = 0;
  double height = 0.0;  ///< weighted Ward cost, or infinity for merges across bottleneck orders
  double weight = 0.0;  ///< sum of W_i below
};

struct Cluster {
  ClusterId id;
  std::vector<ClientId> members;   ///< ascending
  std::vector<int> order;          ///< bottleneck order; the common prefix where orders were merged
  std::vector<double> centroid;    ///< weighted mean adjustment, [m]
  double weight = 0.0;             ///< sum of W_i
  double adjustment_variance = 0;  ///< weighted variance of A around the centroid
  double preference_diameter = 0;  ///< largest distance between two members' preferences
  bool bottleneck_mixed = false;   ///< members differ in the bottleneck itself: `order` is empty
};

struct Clustering {
  std::vector<Cluster> clusters;                ///< ordered by (order, smallest client id)
  std::vector<ClusterId> assignment;            ///< parallel to the input points
  std::vector<std::vector<int>> order;          ///< bottleneck order of every point
  std::vector<std::vector<double>> adjustment;  ///< A of every point
  /// All n - 1 merges: inside the bottleneck orders by ascending height, then those across orders
  /// in the order in which a falling budget asks for them. Undoing the last b - 1 infinite ones, or
  /// all and then the highest nodes, gives every budget. Empty for method none.
  std::vector<Merge> dendrogram;
  int requested = 0;    ///< the budget asked for
  std::string warning;  ///< empty, or why clusters.size() != requested
};

/// Groups by bottleneck order, then weighted Ward inside each (cost W_a W_b / (W_a + W_b) times the
/// squared distance of the centroids of A, sections 2.1 to 2.4), cut to the budget. The order of
/// the points does not matter. O(n^2 m) time and O(n m) memory unless many points tie.
///
/// Fewer clusters than the budget: n is smaller, or the remaining splits would part clients with
/// equal A. More: budget_policy raise with more bottleneck orders than budget. `warning` says so.
///
/// @throws Error(kInternal)  no points, sizes that disagree, a loss or weight that is not positive,
/// a
///                           client that is invalid or occurs twice, an unknown method or policy
[[nodiscard]] Clustering cluster_clients(std::span<const Point> points,
                                         const ClusteringOptions& options);

/// Section 2.5: the cluster of a new client. Candidates are the clusters of its bottleneck order,
/// or those with the longest common prefix; the nearest centroid wins, ties to the lowest id.
struct Assignment {
  ClusterId cluster;
  double distance = 0.0;
  double margin = 0.0;  ///< second smallest distance minus smallest; infinity with one candidate
  bool order_matched = false;  ///< the candidates have exactly the new client's order
};
/// @throws Error(kInternal)  no clusters, or sizes that disagree
[[nodiscard]] Assignment assign_client(const Clustering& clustering, std::span<const double> loss,
                                       std::span<const double> preference);

}  // namespace apo::clustering
