#include "apo/clustering/clustering.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "ward.hpp"

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {

namespace {

using Order = std::vector<int>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kZeroHeight = 1e-15;  // of the largest W_i ||A_i||^2

std::size_t common_prefix(const Order& a, const Order& b) {
  const std::size_t end = std::min(a.size(), b.size());
  std::size_t length = 0;
  while (length < end && a[length] == b[length]) {
    ++length;
  }
  return length;
}

double distance(const std::vector<double>& x, std::span<const double> y) {
  double squared = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    squared += (x[j] - y[j]) * (x[j] - y[j]);
  }
  return std::sqrt(squared);
}

/// A client by ascending id: a leaf of the dendrogram.
struct Leaf {
  const Point* point = nullptr;
  Order order;
  std::vector<double> adjustment;
};

/// A node of the dendrogram while it is built and cut.
struct Node {
  int left = -1;
  int right = -1;
  double height = 0.0;
  Centroid centroid;
  int smallest_leaf = 0;
  Order order;  // common prefix of the leaves' orders
};

void check(std::span<const Point> points, const ClusteringOptions& options) {
  expects(!points.empty(), "clustering: no clients");
  expects(options.method == "bac" || options.method == "none",
          "clustering: unknown method '" + options.method + "', expected bac or none");
  expects(
      options.budget_policy == "merge" || options.budget_policy == "raise",
      "clustering: unknown budget policy '" + options.budget_policy + "', expected merge or raise");
  expects(options.budget >= 1, "clustering: expected a budget of at least 1 cluster, found " +
                                   std::to_string(options.budget));
  const std::size_t m = points.front().loss.size();
  std::set<ClientId> seen;
  for (const Point& point : points) {
    const std::string who = "clustering: client " + std::to_string(point.client.value);
    expects(point.client.valid() && seen.insert(point.client).second,
            who + " has an invalid id or occurs twice");
    expects(m > 0 && point.loss.size() == m && point.preference.size() == m,
            who + " has " + std::to_string(point.loss.size()) + " losses and " +
                std::to_string(point.preference.size()) + " preferences, expected " +
                std::to_string(m) + " of each");
    expects(std::isfinite(point.weight) && point.weight > 0.0,
            who + " has weight " + std::to_string(point.weight) + ", expected a positive number");
    for (const double loss : point.loss) {
      expects(std::isfinite(loss) && loss > 0.0,
              who + " has loss " + std::to_string(loss) + ", expected a positive number");
    }
  }
}

/// The whole tree: leaves, then one node per merge in the order of Clustering::dendrogram.
class Tree {
 public:
  explicit Tree(const std::vector<Leaf>& leaves) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      nodes_.push_back({-1,
                        -1,
                        0.0,
                        {leaves[i].adjustment, leaves[i].point->weight},
                        static_cast<int>(i),
                        leaves[i].order});
    }
    std::map<Order, std::vector<int>> groups;  // lexicographic, members ascending
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      groups[leaves[i].order].push_back(static_cast<int>(i));
    }
    for (const auto& [order, members] : groups) {
      group_roots_.push_back(grow(members));
    }
    sort_by_height(static_cast<int>(leaves.size()));
    join_groups();
  }

  [[nodiscard]] const Node& node(int index) const {
    return nodes_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int num_groups() const { return static_cast<int>(group_roots_.size()); }

  /// Roots of `count` clusters, or of fewer where only splits of zero height are left.
  [[nodiscard]] std::vector<int> cut(int count, double zero_height) const {
    std::vector<int> roots{size() - 1};
    while (static_cast<int>(roots.size()) < count) {
      const auto next = std::max_element(roots.begin(), roots.end(),
                                         [&](int a, int b) { return splits_later(a, b); });
      const Node& parent = node(*next);
      if (parent.left < 0 || parent.height <= zero_height) {
        break;
      }
      *next = parent.left;
      roots.push_back(parent.right);
    }
    return roots;
  }

  [[nodiscard]] std::vector<int> leaves_below(int index) const {
    if (node(index).left < 0) {
      return {index};
    }
    std::vector<int> result;
    std::vector<int> pending{index};
    while (!pending.empty()) {
      const Node& next = node(pending.back());
      if (next.left < 0) {
        result.push_back(pending.back());
        pending.pop_back();
      } else {
        pending.back() = next.left;
        pending.push_back(next.right);
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  /// Strict weak order: leaves last; then by height; of the infinite ones the latest merge first;
  /// then the heavier node, then the one with the smaller leaf.
  [[nodiscard]] bool splits_later(int a, int b) const {
    const Node& x = node(a);
    const Node& y = node(b);
    if ((x.left < 0) != (y.left < 0)) {
      return x.left < 0;
    }
    if (x.height != y.height) {
      return x.height < y.height;
    }
    if (x.height == kInfinity) {
      return a < b;
    }
    if (x.centroid.weight != y.centroid.weight) {
      return x.centroid.weight < y.centroid.weight;
    }
    return x.smallest_leaf > y.smallest_leaf;
  }

  int add(int a, int b, double height) {
    const int left = node(a).smallest_leaf < node(b).smallest_leaf ? a : b;
    const int right = left == a ? b : a;
    const Node& x = node(left);
    const Node& y = node(right);
    Order order = x.order;
    order.resize(common_prefix(x.order, y.order));
    // Ward's costs rise along the tree in exact arithmetic; rounding may not undo that.
    nodes_.push_back({left, right, std::max({height, x.height, y.height}),
                      joined(x.centroid, y.centroid), x.smallest_leaf, std::move(order)});
    return size() - 1;
  }

  /// Weighted Ward inside one bottleneck order.
  int grow(std::vector<int> slots) {
    const auto at = [&](int slot) -> int& { return slots[static_cast<std::size_t>(slot)]; };
    agglomerate(
        static_cast<int>(slots.size()),
        [&](int a, int b) {
          return JoinCost{0, ward_cost(node(at(a)).centroid, node(at(b)).centroid)};
        },
        [&](const Join& join) {
          const double height =
              ward_cost(node(at(join.slot)).centroid, node(at(join.other)).centroid);
          at(join.slot) = add(at(join.slot), at(join.other), height);
        });
    return slots.front();
  }

  /// Renumbers the merges of all groups by ascending height; children stay before their parents.
  void sort_by_height(int num_leaves) {
    std::vector<int> merges(nodes_.size() - static_cast<std::size_t>(num_leaves));
    std::iota(merges.begin(), merges.end(), num_leaves);
    std::stable_sort(merges.begin(), merges.end(),
                     [&](int a, int b) { return node(a).height < node(b).height; });
    std::vector<int> place(nodes_.size());
    std::iota(place.begin(), place.end(), 0);
    for (std::size_t k = 0; k < merges.size(); ++k) {
      place[static_cast<std::size_t>(merges[k])] = num_leaves + static_cast<int>(k);
    }
    std::vector<Node> sorted(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& moved = sorted[static_cast<std::size_t>(place[i])] = std::move(nodes_[i]);
      if (moved.left >= 0) {
        moved.left = place[static_cast<std::size_t>(moved.left)];
        moved.right = place[static_cast<std::size_t>(moved.right)];
      }
    }
    nodes_ = std::move(sorted);
    for (int& root : group_roots_) {
      root = place[static_cast<std::size_t>(root)];
    }
  }

  /// Bottleneck orders down to one: longest common prefix first, then the smallest Ward cost, then
  /// lexicographically (the slots are sorted so).
  void join_groups() {
    std::vector<int> slots = group_roots_;
    const auto at = [&](int slot) -> int& { return slots[static_cast<std::size_t>(slot)]; };
    agglomerate(
        static_cast<int>(slots.size()),
        [&](int a, int b) {
          const Node& x = node(at(a));
          const Node& y = node(at(b));
          return JoinCost{-static_cast<int>(common_prefix(x.order, y.order)),
                          ward_cost(x.centroid, y.centroid)};
        },
        [&](const Join& join) { at(join.slot) = add(at(join.slot), at(join.other), kInfinity); });
  }

  std::vector<Node> nodes_;
  std::vector<int> group_roots_;  // lexicographic by order
};

Cluster describe(const std::vector<int>& members, const std::vector<Leaf>& leaves) {
  Cluster cluster;
  cluster.order = leaves[static_cast<std::size_t>(members.front())].order;
  Centroid centroid;
  for (const int index : members) {
    const Leaf& leaf = leaves[static_cast<std::size_t>(index)];
    cluster.members.push_back(leaf.point->client);
    cluster.order.resize(common_prefix(cluster.order, leaf.order));
    const Centroid own{leaf.adjustment, leaf.point->weight};
    centroid = centroid.mean.empty() ? own : joined(centroid, own);
  }
  cluster.centroid = centroid.mean;
  cluster.weight = centroid.weight;
  cluster.bottleneck_mixed = cluster.order.empty();
  for (const int index : members) {
    const Leaf& leaf = leaves[static_cast<std::size_t>(index)];
    const double to_centroid = distance(leaf.adjustment, centroid.mean);
    cluster.adjustment_variance += leaf.point->weight / centroid.weight * to_centroid * to_centroid;
    for (const int other : members) {
      if (other < index) {
        cluster.preference_diameter =
            std::max(cluster.preference_diameter,
                     distance(leaf.point->preference,
                              leaves[static_cast<std::size_t>(other)].point->preference));
      }
    }
  }
  return cluster;
}

std::string explain(int requested, int found, int num_clients, int num_orders) {
  const std::string asked = std::to_string(requested) + " clusters asked for, ";
  if (found == requested) {
    return "";
  }
  if (found > requested) {
    return asked + "raised to " + std::to_string(found) + ": clients have " +
           std::to_string(num_orders) + " bottleneck orders";
  }
  if (found == num_clients) {
    return asked + "only " + std::to_string(num_clients) + " clients";
  }
  return asked + std::to_string(found) +
         " made: the remaining splits would part clients with equal adjustment vectors";
}

}  // namespace

Clustering cluster_clients(std::span<const Point> points, const ClusteringOptions& options) {
  check(points, options);
  Clustering result;
  std::vector<Leaf> leaves;
  double largest_energy = 0.0;
  for (const Point& point : points) {
    Leaf leaf{&point, bottleneck_order(point.loss, point.preference),
              balance(point.loss, point.preference).adjustment};
    double energy = 0.0;
    for (const double a : leaf.adjustment) {
      energy += point.weight * a * a;
    }
    largest_energy = std::max(largest_energy, energy);
    result.order.push_back(leaf.order);
    result.adjustment.push_back(leaf.adjustment);
    leaves.push_back(std::move(leaf));
  }
  std::sort(leaves.begin(), leaves.end(),
            [](const Leaf& a, const Leaf& b) { return a.point->client < b.point->client; });
  const int num_clients = static_cast<int>(leaves.size());

  if (options.method == "none") {
    result.requested = 1;
    std::vector<int> everyone(leaves.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    result.clusters.push_back(describe(everyone, leaves));
  } else {
    result.requested = options.budget;
    const Tree tree(leaves);
    for (int index = num_clients; index < tree.size(); ++index) {
      const Node& node = tree.node(index);
      result.dendrogram.push_back({node.left, node.right, node.height, node.centroid.weight});
    }
    const int least = options.budget_policy == "raise" ? tree.num_groups() : 1;
    const int count = std::max(least, std::min(options.budget, num_clients));
    for (const int root : tree.cut(count, kZeroHeight * largest_energy)) {
      result.clusters.push_back(describe(tree.leaves_below(root), leaves));
    }
    result.warning = explain(options.budget, static_cast<int>(result.clusters.size()), num_clients,
                             tree.num_groups());
  }

  std::sort(result.clusters.begin(), result.clusters.end(), [](const Cluster& a, const Cluster& b) {
    return std::tie(a.order, a.members.front()) < std::tie(b.order, b.members.front());
  });
  std::map<ClientId, ClusterId> home;
  for (std::size_t n = 0; n < result.clusters.size(); ++n) {
    result.clusters[n].id = ClusterId(static_cast<std::int32_t>(n));
    for (const ClientId client : result.clusters[n].members) {
      home[client] = result.clusters[n].id;
    }
  }
  for (const Point& point : points) {
    result.assignment.push_back(home.at(point.client));
  }
  return result;
}

Assignment assign_client(const Clustering& clustering, std::span<const double> loss,
                         std::span<const double> preference) {
  expects(!clustering.clusters.empty(), "assign_client: no clusters");
  const Order order = bottleneck_order(loss, preference);
  const std::vector<double> adjustment = balance(loss, preference).adjustment;
  std::size_t longest = 0;
  for (const Cluster& cluster : clustering.clusters) {
    expects(cluster.centroid.size() == adjustment.size(),
            "assign_client: the clusters have " + std::to_string(cluster.centroid.size()) +
                " objectives, the client " + std::to_string(adjustment.size()));
    longest = std::max(longest, common_prefix(cluster.order, order));
  }
  Assignment result;
  result.order_matched = longest == order.size();
  double nearest = kInfinity;
  double second = kInfinity;
  for (const Cluster& cluster : clustering.clusters) {
    if (common_prefix(cluster.order, order) != longest) {
      continue;
    }
    const double found = distance(cluster.centroid, adjustment);
    if (!result.cluster.valid() || found < nearest) {
      second = nearest;
      nearest = found;
      result.cluster = cluster.id;
    } else {
      second = std::min(second, found);
    }
  }
  result.distance = nearest;
  result.margin = second - nearest;
  return result;
}

}  // namespace apo::clustering
