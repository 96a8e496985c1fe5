#include "apo/clustering/clustering.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "dendrogram.hpp"
#include "diameter.hpp"
#include "prefix_linkage.hpp"
#include "ward.hpp"

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {

namespace {

// Of the smallest W_i times the largest ||x_i||^2. The smallest, so that a heavy client does not
// make light ones look equal; vectors that are equal up to rounding come out at 1e-31 W_i.
constexpr double kZeroHeight = 1e-15;

std::optional<LinkageKind> linkage_kind(const std::string& name) {
  static const std::map<std::string, LinkageKind> kKinds{{"ward", LinkageKind::kWard},
                                                         {"average", LinkageKind::kAverage},
                                                         {"complete", LinkageKind::kComplete},
                                                         {"single", LinkageKind::kSingle}};
  const auto found = kKinds.find(name);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

void check(const ClusteringOptions& options) {
  const auto one_of = [](const char* what, const std::string& value,
                         std::initializer_list<const char*> known) {
    std::string names;
    for (const char* name : known) {
      if (value == name) {
        return;
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    expects(false, "clustering: unknown " + std::string(what) + " '" + value +
                       "', expected one of " + names);
  };
  one_of("method", options.method, {"bac", "hc", "none"});
  one_of("linkage", options.linkage, {"ward", "average", "complete", "single"});
  one_of("weights", options.weights, {"pairs", "equal"});
  one_of("budget policy", options.budget_policy, {"merge", "raise"});
  one_of("allocation", options.allocation, {"height", "largest_remainder"});
  expects(options.budget >= 1, "clustering: expected a budget of at least 1 cluster, found " +
                                   std::to_string(options.budget));
}

void check(std::span<const Point> points) {
  expects(!points.empty(), "clustering: no clients");
  const std::size_t m = points.front().loss.size();
  for (const Point& point : points) {
    const auto who = [&] { return "clustering: client " + std::to_string(point.client.value); };
    if (!point.client.valid()) {
      expects(false, who() + " has an invalid id");
    }
    if (m == 0 || point.loss.size() != m || point.preference.size() != m) {
      expects(false, who() + " has " + std::to_string(point.loss.size()) + " losses and " +
                         std::to_string(point.preference.size()) + " preferences, expected " +
                         std::to_string(m) + " of each");
    }
    if (!std::isfinite(point.weight) || point.weight <= 0.0) {
      expects(false, who() + " has weight " + std::to_string(point.weight) +
                         ", expected a positive number");
    }
    for (const double loss : point.loss) {
      if (!std::isfinite(loss) || loss <= 0.0) {
        expects(false,
                who() + " has loss " + std::to_string(loss) + ", expected a positive number");
      }
    }
  }
}

/// Positions of the points in `points` by ascending client.
std::vector<int> by_client(std::span<const Point> points) {
  std::vector<int> rank(points.size());
  std::iota(rank.begin(), rank.end(), 0);
  const auto client = [&](int i) { return points[static_cast<std::size_t>(i)].client; };
  std::sort(rank.begin(), rank.end(), [&](int a, int b) { return client(a) < client(b); });
  const auto twice = std::adjacent_find(rank.begin(), rank.end(),
                                        [&](int a, int b) { return client(a) == client(b); });
  expects(twice == rank.end(), "clustering: client " +
                                   std::to_string(twice == rank.end() ? -1 : client(*twice).value) +
                                   " occurs twice");
  return rank;
}

Leaves make_leaves(std::span<const Point> points, const std::vector<int>& rank,
                   const Clustering& result, const ClusteringOptions& options) {
  Leaves leaves;
  leaves.dimension = static_cast<int>(points.front().loss.size());
  leaves.position.reserve(points.size() * points.front().loss.size());
  const bool grouped = options.method == "bac";
  std::map<std::vector<int>, int> group;
  if (grouped) {
    for (const std::vector<int>& order : result.order) {
      group.try_emplace(order, 0);
    }
  } else {
    group.try_emplace({}, 0);
  }
  for (auto& [order, index] : group) {
    index = static_cast<int>(leaves.orders.size());
    leaves.orders.push_back(order);
  }
  for (const int i : rank) {
    const auto at = static_cast<std::size_t>(i);
    const std::vector<double>& position =
        options.method == "hc" ? points[at].preference : result.adjustment[at];
    leaves.position.insert(leaves.position.end(), position.begin(), position.end());
    leaves.weight.push_back(options.weights == "equal" ? 1.0 : points[at].weight);
    leaves.group.push_back(grouped ? group.at(result.order[at]) : 0);
  }
  return leaves;
}

/// Up to this height, merges count as merges of equal vectors.
double zero_height(const Leaves& leaves, LinkageKind linkage) {
  const std::vector<double> origin(static_cast<std::size_t>(leaves.dimension), 0.0);
  double largest = 0.0;
  for (int leaf = 0; leaf < leaves.count(); ++leaf) {
    largest = std::max(largest, squared_distance(leaves.at(leaf), origin.data(), leaves.dimension));
  }
  return linkage == LinkageKind::kWard
             ? kZeroHeight * *std::min_element(leaves.weight.begin(), leaves.weight.end()) * largest
             : std::sqrt(kZeroHeight * largest);
}

std::vector<int> cut(const Dendrogram& tree, const Leaves& leaves, double zero,
                     const ClusteringOptions& options) {
  const int n = leaves.count();
  const auto num_groups = static_cast<int>(leaves.orders.size());
  const int count =
      std::max(options.budget_policy == "raise" ? num_groups : 1, std::min(options.budget, n));
  const double stop = options.force_budget ? -1.0 : zero;
  if (options.allocation == "height" || count < num_groups) {
    return tree.cut({tree.root()}, count, stop);
  }
  std::vector<int> sizes(leaves.orders.size(), 0);
  for (const int group : leaves.group) {
    ++sizes[static_cast<std::size_t>(group)];
  }
  const std::vector<int> shares = largest_remainder(sizes, tree.capacities(stop), count);
  std::vector<int> roots;
  for (std::size_t g = 0; g < shares.size(); ++g) {
    const std::vector<int> own = tree.cut({tree.group_roots()[g]}, shares[g], stop);
    roots.insert(roots.end(), own.begin(), own.end());
  }
  return roots;
}

std::string explain(const ClusteringOptions& options, int found, int num_clients, int num_orders) {
  const std::string asked = std::to_string(options.budget) + " clusters asked for, ";
  if (found == options.budget) {
    return "";
  }
  if (found > options.budget) {
    return asked + "raised to " + std::to_string(found) + ": clients have " +
           std::to_string(num_orders) + " bottleneck orders";
  }
  if (found == num_clients) {
    return asked + "only " + std::to_string(num_clients) + " clients";
  }
  return asked + std::to_string(found) + " made: the remaining splits would part clients with " +
         (options.method == "hc" ? "equal preferences" : "equal adjustment vectors") +
         " (clustering.force_budget does)";
}

/// @param members  positions in `points`, by ascending client
Cluster describe(const std::vector<int>& members, std::span<const Point> points,
                 const Clustering& result, bool equal_weights) {
  const auto m = static_cast<int>(points.front().loss.size());
  const auto weight_of = [&](std::size_t i) { return equal_weights ? 1.0 : points[i].weight; };
  Cluster cluster;
  std::vector<double> preferences;
  preferences.reserve(members.size() * static_cast<std::size_t>(m));
  cluster.members.reserve(members.size());
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    const Point& point = points[i];
    preferences.insert(preferences.end(), point.preference.begin(), point.preference.end());
    if (cluster.members.empty()) {
      cluster.order = result.order[i];
      cluster.centroid = result.adjustment[i];
      cluster.preference_centroid = point.preference;
      cluster.weight = weight_of(i);
    } else {
      cluster.order.resize(common_prefix(cluster.order, result.order[i]));
      double weight = cluster.weight;
      absorb(cluster.preference_centroid.data(), weight, point.preference.data(), weight_of(i), m);
      absorb(cluster.centroid.data(), cluster.weight, result.adjustment[i].data(), weight_of(i), m);
    }
    cluster.members.push_back(point.client);
  }
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    cluster.adjustment_variance +=
        weight_of(i) / cluster.weight *
        squared_distance(result.adjustment[i].data(), cluster.centroid.data(), m);
  }
  cluster.preference_diameter = diameter(preferences, m);
  cluster.bottleneck_mixed = cluster.order.empty();
  return cluster;
}

}  // namespace

Clustering cluster_clients(std::span<const Point> points, const ClusteringOptions& options) {
  check(options);
  check(points);
  const std::vector<int> rank = by_client(points);
  Clustering result;
  result.method = options.method;
  result.order.reserve(points.size());
  result.adjustment.reserve(points.size());
  for (const Point& point : points) {
    result.order.push_back(bottleneck_order(point.loss, point.preference));
    result.adjustment.push_back(balance(point.loss, point.preference).adjustment);
  }

  std::vector<int> labels(points.size(), 0);  // by rank
  int num_clusters = 1;
  int num_groups = 1;
  if (options.method == "none") {
    result.requested = 1;
  } else {
    result.requested = options.budget;
    const LinkageKind linkage = *linkage_kind(options.linkage);
    const Leaves leaves = make_leaves(points, rank, result, options);
    const Dendrogram tree(leaves, linkage);
    const std::vector<int> roots = cut(tree, leaves, zero_height(leaves, linkage), options);
    labels = tree.labels(roots);
    num_clusters = static_cast<int>(roots.size());
    num_groups = static_cast<int>(leaves.orders.size());
    result.dendrogram = tree.merges();
    result.warning = explain(options, num_clusters, leaves.count(), num_groups);
  }

  std::vector<std::vector<int>> members(static_cast<std::size_t>(num_clusters));
  for (std::size_t k = 0; k < rank.size(); ++k) {
    members[static_cast<std::size_t>(labels[k])].push_back(rank[k]);
  }
  for (const std::vector<int>& own : members) {
    result.clusters.push_back(describe(own, points, result, options.weights == "equal"));
  }
  std::vector<int> place(members.size());
  std::iota(place.begin(), place.end(), 0);
  const auto cluster = [&](int c) -> Cluster& {
    return result.clusters[static_cast<std::size_t>(c)];
  };
  std::sort(place.begin(), place.end(), [&](int a, int b) {
    return std::tie(cluster(a).order, cluster(a).members.front()) <
           std::tie(cluster(b).order, cluster(b).members.front());
  });
  result.assignment.resize(points.size());
  std::vector<Cluster> sorted;
  sorted.reserve(place.size());
  for (const int c : place) {
    const ClusterId id(static_cast<std::int32_t>(sorted.size()));
    cluster(c).id = id;
    for (const int member : members[static_cast<std::size_t>(c)]) {
      result.assignment[static_cast<std::size_t>(member)] = id;
    }
    sorted.push_back(std::move(cluster(c)));
  }
  result.clusters = std::move(sorted);
  return result;
}

}  // namespace apo::clustering
