/// Cuts to a budget (algorithms.md 2.4): orders merged below their number, ties, shares.

#include <cmath>
#include <map>
#include <set>

#include "random_points.hpp"
#include <gtest/gtest.h>

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"

namespace apo::clustering {
namespace {

using test::budget_of;
using Vector = std::vector<double>;
using Order = std::vector<int>;

/// Clients with a chosen bottleneck order.
Point ordered(int client, const Order& order, double spread = 0.0) {
  Point point;
  point.client = ClientId(client);
  point.preference.assign(order.size(), 1.0 / static_cast<double>(order.size()));
  point.loss.resize(order.size());
  double level = 2.0 + spread;
  for (const int objective : order) {
    point.loss[static_cast<std::size_t>(objective)] = level;
    level *= 0.5;
  }
  return point;
}

TEST(Cut, MergesOrdersByLongestCommonPrefix) {
  const std::vector<Point> points{ordered(0, {0, 1, 2, 3}), ordered(1, {0, 1, 3, 2}),
                                  ordered(2, {0, 2, 1, 3}), ordered(3, {3, 2, 1, 0}),
                                  ordered(4, {3, 2, 0, 1})};
  const Clustering four = cluster_clients(points, budget_of(4));
  ASSERT_EQ(four.clusters.size(), 4U);
  std::set<Order> prefixes;
  for (const Cluster& cluster : four.clusters) {
    EXPECT_FALSE(cluster.bottleneck_mixed);
    prefixes.insert(cluster.order);
  }
  EXPECT_TRUE(prefixes.contains(Order{0, 1}) || prefixes.contains(Order{3, 2}));

  const Clustering three = cluster_clients(points, budget_of(3));
  ASSERT_EQ(three.clusters.size(), 3U);
  EXPECT_EQ(three.clusters[0].order, (Order{0, 1}));
  EXPECT_EQ(three.clusters[1].order, (Order{0, 2, 1, 3}));
  EXPECT_EQ(three.clusters[2].order, (Order{3, 2}));

  const Clustering two = cluster_clients(points, budget_of(2));
  EXPECT_EQ(two.clusters[0].order, (Order{0}));
  EXPECT_EQ(two.clusters[0].members.size(), 3U);
  EXPECT_EQ(two.clusters[1].order, (Order{3, 2}));
  EXPECT_FALSE(two.clusters[0].bottleneck_mixed);

  const Clustering one = cluster_clients(points, budget_of(1));
  EXPECT_TRUE(one.clusters[0].order.empty());
  EXPECT_TRUE(one.clusters[0].bottleneck_mixed);
  EXPECT_EQ(one.warning, "");
  EXPECT_EQ(one.dendrogram.size(), 4U);
  EXPECT_TRUE(std::isinf(one.dendrogram.front().height));

  const Clustering raised = cluster_clients(points, budget_of(2, "raise"));
  EXPECT_EQ(raised.clusters.size(), 5U);
  EXPECT_EQ(raised.requested, 2);
  EXPECT_NE(raised.warning.find("raised to 5"), std::string::npos) << raised.warning;
}

TEST(Cut, EqualPrefixesMergeByWardCost) {
  // Two pairs share a prefix of one; the pair {2, 3} is nearer in A than {0, 1}.
  std::vector<Point> points{ordered(0, {0, 1, 2}, 9.0), ordered(1, {0, 2, 1}, 9.0),
                            ordered(2, {1, 0, 2}), ordered(3, {1, 2, 0})};
  points[2].loss = {1.0, 1.2, 0.99};
  points[3].loss = {0.99, 1.2, 1.0};
  const Clustering found = cluster_clients(points, budget_of(3));
  ASSERT_EQ(found.clusters.size(), 3U);
  EXPECT_EQ(found.clusters[0].order, (Order{0, 1, 2}));
  EXPECT_EQ(found.clusters[1].order, (Order{0, 2, 1}));
  EXPECT_EQ(found.clusters[2].order, (Order{1}));
  // Weights count: a light pair is cheaper to merge.
  points[0].weight = points[1].weight = 1e-9;
  EXPECT_EQ(cluster_clients(points, budget_of(3)).clusters[0].order, (Order{0}));
}

TEST(Cut, WeightsPullTheCentroid) {
  std::vector<Point> points{ordered(3, {0, 1}), ordered(9, {0, 1}, 1.0)};
  points[0].weight = 3.0;
  const Clustering found = cluster_clients(points, budget_of(1));
  ASSERT_EQ(found.clusters.size(), 1U);
  const Vector a = balance(points[0].loss, points[0].preference).adjustment;
  const Vector b = balance(points[1].loss, points[1].preference).adjustment;
  double squared = 0.0;
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(found.clusters[0].centroid[j], .75 * a[j] + .25 * b[j], 1e-16);
    squared += (a[j] - b[j]) * (a[j] - b[j]);
  }
  EXPECT_NEAR(found.dendrogram[0].height, .75 * squared, 1e-16);
  EXPECT_NEAR(found.clusters[0].adjustment_variance, .75 * .25 * squared, 1e-16);
  EXPECT_EQ(found.clusters[0].weight, 4.0);
}

/// Equal heights: the heavier node is split first, then the one with the smaller client.
TEST(Cut, TiesOfTheCut) {
  const auto pair_at = [](double share, int first, int second, double weight) {
    std::vector<Point> pair;
    for (const int client : {first, second}) {
      const double own = client == first ? share : share + .0625;
      pair.push_back({ClientId(client), {1.0, 1.0}, {own, 1.0 - own}, weight});
    }
    return pair;
  };
  ClusteringOptions options = budget_of(3);
  options.method = "hc";
  options.linkage = "single";
  for (const double heavy : {1.0, 2.0}) {
    std::vector<Point> points = pair_at(.125, 3, 1, 1.0);
    for (const Point& point : pair_at(.75, 0, 2, 1.0)) {
      points.push_back(point);
    }
    points[0].weight = heavy;
    const Clustering found = cluster_clients(points, options);
    ASSERT_EQ(found.clusters.size(), 3U);
    const bool heavy_pair_is_whole = found.assignment[0] == found.assignment[1];
    EXPECT_EQ(heavy_pair_is_whole, heavy == 1.0);
    EXPECT_NE(heavy_pair_is_whole, found.assignment[2] == found.assignment[3]);
  }
}

/// Shares follow the numbers of clients, not the heights.
TEST(Cut, LargestRemainder) {
  std::vector<Point> points;
  for (int i = 0; i < 40; ++i) {  // 30 close together under one bottleneck, 10 far apart
    Point point = ordered(i, i < 30 ? Order{0, 1} : Order{1, 0});
    point.loss[i < 30 ? 0 : 1] *= 1.0 + (i < 30 ? 1e-3 * i : 1.0 * (i - 29));
    points.push_back(point);
  }
  ClusteringOptions options = budget_of(8);
  const auto shares = [&] {
    std::map<Order, int> count;
    for (const Cluster& cluster : cluster_clients(points, options).clusters) {
      ++count[cluster.order];
    }
    return count;
  };
  EXPECT_EQ(shares(), (std::map<Order, int>{{{0, 1}, 1}, {{1, 0}, 7}}));
  options.allocation = "largest_remainder";
  EXPECT_EQ(shares(), (std::map<Order, int>{{{0, 1}, 6}, {{1, 0}, 2}}));
  options.budget = 7;  // quotas 5.25 and 1.75
  EXPECT_EQ(shares(), (std::map<Order, int>{{{0, 1}, 5}, {{1, 0}, 2}}));
  options.budget = 1;  // below the number of orders: merged, as always
  EXPECT_EQ(shares(), (std::map<Order, int>{{{}, 1}}));
  // 30 clients at 2 places cannot use 5 clusters.
  for (std::size_t i = 0; i < 30; ++i) {
    points[i].loss = points[i % 2].loss;
  }
  options.budget = 7;
  EXPECT_EQ(shares(), (std::map<Order, int>{{{0, 1}, 2}, {{1, 0}, 5}}));
  options.force_budget = true;
  EXPECT_EQ(shares(), (std::map<Order, int>{{{0, 1}, 5}, {{1, 0}, 2}}));
}

}  // namespace
}  // namespace apo::clustering
