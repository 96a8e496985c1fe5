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
  double weight = 1.0;             ///< W_i = N_i; not looked at with clustering.weights = equal
};

/// Indices of the objectives by descending lambda_j l_j; ties to the lower index (keys are
/// quantised to 1e-12 in the logarithm first).
[[nodiscard]] std::vector<int> bottleneck_order(std::span<const double> loss,
                                                std::span<const double> preference);

/// One merge of the dendrogram. Leaves are 0..n-1 (positions in the input sorted by client id), the
/// k-th merge makes node n + k, as in scipy. Heights never fall along the list; scipy's Ward
/// distance is sqrt(2 height) where all weights are 1, its other distances are the heights.
struct Merge {
  int left = 0;  ///< the node that holds the smaller leaf
  int right = 0;
  /// Ward: W_a W_b / (W_a + W_b) times the squared distance of the centroids. Other linkages: the
  /// average, largest or smallest distance. Infinity for merges across bottleneck orders.
  double height = 0.0;
  double weight = 0.0;  ///< sum of W_i below
};

struct Cluster {
  ClusterId id;
  std::vector<ClientId> members;  ///< ascending
  std::vector<int> order;         ///< bottleneck order; the common prefix where orders were merged
  std::vector<double> centroid;   ///< weighted mean adjustment, [m]
  std::vector<double> preference_centroid;  ///< weighted mean preference, [m]
  double weight = 0.0;                      ///< sum of W_i (clustering.weights = equal: of 1)
  double adjustment_variance = 0;           ///< weighted variance of A around the centroid
  double preference_diameter = 0;           ///< largest distance between two members' preferences
  bool bottleneck_mixed = false;  ///< members differ in the bottleneck itself: `order` is empty
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
  std::string method;   ///< bac | hc | none: what assign_client() measures by
  int requested = 0;    ///< the budget asked for
  std::string warning;  ///< empty, or why clusters.size() != requested
};

/// bac: groups by bottleneck order, then agglomerates the adjustments A inside each; hc:
/// agglomerates the preferences, all in one group (section 2.6). Cut to the budget by splitting the
/// highest merges (sections 2.3 and 2.4). The order of the points does not matter.
///
/// Always the pair of smallest cost is joined, ties by the smaller smallest leaf, then by the other
/// one's, as if all pairs were compared before every join. Costs are compared as computed: pairs
/// that tie in exact arithmetic only may be told apart by rounding, the same way in every run.
///
/// Ward finds nearest neighbours in a k-d tree: O(n log n) for few objectives, a million clients of
/// three objectives in seconds. The other linkages keep all distances: O(n^2) time and memory, at
/// most 20000 clients with different vectors per bottleneck order.
///
/// clustering.allocation = height gives nested clusters: those of a larger budget refine those of a
/// smaller one. largest_remainder need not: a bottleneck order's share may fall as the budget
/// rises.
///
/// Fewer clusters than the budget: n is smaller, or (without force_budget) the remaining splits
/// would part clients with equal vectors: heights up to 1e-15 of the smallest W_i times the largest
/// ||A_i||^2 or, for the other linkages, 3.2e-8 of the largest ||A_i||. More: budget_policy raise
/// with more bottleneck orders than budget. `warning` says so.
///
/// @throws Error(kInternal)  no points, sizes that disagree, a loss or weight that is not positive,
///                           a client that is invalid or occurs twice, an option with unknown text
/// @throws Error(kConfig)    too many different clients for the linkage
[[nodiscard]] Clustering cluster_clients(std::span<const Point> points,
                                         const ClusteringOptions& options);

/// Section 2.5: the cluster of a new client. Candidates are the clusters of its bottleneck order,
/// or those with the longest common prefix; the nearest centroid wins, ties to the lowest id. Under
/// hc all clusters are candidates, and distances are those of preferences.
struct Assignment {
  ClusterId cluster;
  double distance = 0.0;
  double margin = 0.0;  ///< second smallest distance minus smallest; infinity with one candidate
  bool order_matched = false;  ///< the cluster has exactly the new client's order
  ClusterId preference_only;   ///< cluster of the nearest preference centroid (HC, section 2.6)
};
/// @throws Error(kInternal)  no clusters, sizes that disagree, or an unknown method
[[nodiscard]] Assignment assign_client(const Clustering& clustering, std::span<const double> loss,
                                       std::span<const double> preference);

}  // namespace apo::clustering
