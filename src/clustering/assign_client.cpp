#include <cmath>
#include <limits>
#include <string>

#include "prefix_linkage.hpp"
#include "ward.hpp"

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  return std::sqrt(squared_distance(a.data(), b.data(), static_cast<int>(a.size())));
}

/// The two smallest distances, and whose the smallest is; of equals the first one offered.
struct Nearest {
  ClusterId cluster;
  double first = kInfinity;
  double second = kInfinity;

  void offer(ClusterId candidate, double found) {
    if (!cluster.valid() || found < first) {
      second = first;
      first = found;
      cluster = candidate;
    } else if (found < second) {
      second = found;
    }
  }
};

void check(const Clustering& clustering, std::size_t m) {
  expects(!clustering.clusters.empty(), "assign_client: no clusters");
  expects(clustering.method == "bac" || clustering.method == "hc" || clustering.method == "none",
          "assign_client: unknown method '" + clustering.method + "', expected bac, hc or none");
  for (const Cluster& cluster : clustering.clusters) {
    expects(cluster.centroid.size() == m && cluster.preference_centroid.size() == m,
            "assign_client: cluster " + std::to_string(cluster.id.value) + " has centroids of " +
                std::to_string(cluster.centroid.size()) + " adjustments and " +
                std::to_string(cluster.preference_centroid.size()) +
                " preferences, the client has " + std::to_string(m) + " objectives");
  }
}

}  // namespace

Assignment assign_client(const Clustering& clustering, std::span<const double> loss,
                         std::span<const double> preference) {
  const std::vector<int> order = bottleneck_order(loss, preference);
  check(clustering, order.size());
  const std::vector<double> adjustment = balance(loss, preference).adjustment;
  const std::vector<double> own_preference(preference.begin(), preference.end());
  const bool by_order = clustering.method == "bac";
  std::size_t longest = 0;
  if (by_order) {
    for (const Cluster& cluster : clustering.clusters) {
      longest = std::max(longest, common_prefix(cluster.order, order));
    }
  }
  Nearest by_adjustment;
  Nearest by_preference;
  for (const Cluster& cluster : clustering.clusters) {
    by_preference.offer(cluster.id, distance(cluster.preference_centroid, own_preference));
    if (!by_order || common_prefix(cluster.order, order) == longest) {
      by_adjustment.offer(cluster.id, distance(cluster.centroid, adjustment));
    }
  }
  const Nearest& chosen = clustering.method == "hc" ? by_preference : by_adjustment;
  Assignment result;
  result.cluster = chosen.cluster;
  result.distance = chosen.first;
  result.margin = chosen.second - chosen.first;
  result.preference_only = by_preference.cluster;
  for (const Cluster& cluster : clustering.clusters) {
    if (cluster.id == chosen.cluster) {
      result.order_matched = cluster.order == order;
    }
  }
  return result;
}

}  // namespace apo::clustering
