#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "random_points.hpp"
#include <gtest/gtest.h>

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

using test::budget_of;
using test::draw_points;
using Vector = std::vector<double>;
using Order = std::vector<int>;

std::size_t num_orders(const std::vector<Point>& points) {
  std::set<Order> orders;
  for (const Point& point : points) {
    orders.insert(bottleneck_order(point.loss, point.preference));
  }
  return orders.size();
}

/// sum_i W_i ||A_i - centroid of i's cluster||^2, from scratch.
double scatter(const std::vector<Point>& points, const Clustering& found) {
  std::map<ClusterId, std::pair<double, Vector>> sums;
  std::vector<Vector> adjustment;
  for (std::size_t i = 0; i < points.size(); ++i) {
    adjustment.push_back(balance(points[i].loss, points[i].preference).adjustment);
    auto& [weight, sum] = sums[found.assignment[i]];
    sum.resize(adjustment[i].size(), 0.0);
    weight += points[i].weight;
    for (std::size_t j = 0; j < sum.size(); ++j) {
      sum[j] += points[i].weight * adjustment[i][j];
    }
  }
  double total = 0.0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [weight, sum] = sums[found.assignment[i]];
    for (std::size_t j = 0; j < sum.size(); ++j) {
      const double difference = adjustment[i][j] - sum[j] / weight;
      total += points[i].weight * difference * difference;
    }
  }
  return total;
}

void expect_partition(const std::vector<Point>& points, const Clustering& found) {
  std::multiset<ClientId> members;
  for (std::size_t n = 0; n < found.clusters.size(); ++n) {
    const Cluster& cluster = found.clusters[n];
    EXPECT_EQ(cluster.id.index(), n);
    EXPECT_FALSE(cluster.members.empty());
    EXPECT_TRUE(std::is_sorted(cluster.members.begin(), cluster.members.end()));
    members.insert(cluster.members.begin(), cluster.members.end());
    if (n > 0) {
      const Cluster& before = found.clusters[n - 1];
      EXPECT_LT(std::tie(before.order, before.members.front()),
                std::tie(cluster.order, cluster.members.front()));
    }
  }
  EXPECT_EQ(members.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(members.count(points[i].client), 1U);
    const auto& home = found.clusters.at(found.assignment[i].index()).members;
    EXPECT_TRUE(std::binary_search(home.begin(), home.end(), points[i].client));
  }
}

/// Whether every cluster of `fine` lies in one cluster of `coarse`.
bool refines(const Clustering& fine, const Clustering& coarse) {
  std::map<ClusterId, ClusterId> home;
  for (std::size_t i = 0; i < fine.assignment.size(); ++i) {
    const auto [place, fresh] = home.emplace(fine.assignment[i], coarse.assignment[i]);
    if (!fresh && place->second != coarse.assignment[i]) {
      return false;
    }
  }
  return true;
}

TEST(Bac, EveryBudgetIsMetAndCutsAreNested) {
  for (const int m : {2, 3, 4}) {
    const auto points = draw_points(41, 40, m);
    const auto groups = static_cast<int>(num_orders(points));
    Clustering coarser;
    double last_scatter = 0.0;
    for (int budget = 1; budget <= 40; ++budget) {
      const Clustering found = cluster_clients(points, budget_of(budget));
      EXPECT_EQ(static_cast<int>(found.clusters.size()), budget);
      EXPECT_EQ(found.requested, budget);
      EXPECT_EQ(found.warning, "");
      expect_partition(points, found);
      const double now = scatter(points, found);
      double reported = 0.0;
      for (const Cluster& cluster : found.clusters) {
        reported += cluster.adjustment_variance * cluster.weight;
        if (budget >= groups) {
          EXPECT_EQ(cluster.order.size(), static_cast<std::size_t>(m));
          EXPECT_FALSE(cluster.bottleneck_mixed);
        }
      }
      EXPECT_NEAR(reported, now, 1e-12 * (1.0 + now));
      if (budget > 1) {
        EXPECT_TRUE(refines(found, coarser)) << "m=" << m << " b=" << budget;
        EXPECT_LE(now, last_scatter * (1 + 1e-12)) << "splitting never adds variance";
      }
      coarser = found;
      last_scatter = now;
    }
    EXPECT_NEAR(last_scatter, 0.0, 1e-20);
  }
}

TEST(Bac, DendrogramIsAWholeMonotoneTree) {
  const auto points = draw_points(42, 131, 3);
  const Clustering found = cluster_clients(points, budget_of(6));
  const int n = 131;
  ASSERT_EQ(found.dendrogram.size(), 130U);
  std::vector<double> height(n, 0.0);
  std::vector<double> weight;
  for (const Point& point : points) {
    weight.push_back(point.weight);
  }
  std::set<int> used;
  double finite_sum = 0.0;
  for (const Merge& merge : found.dendrogram) {
    const auto left = static_cast<std::size_t>(merge.left);
    const auto right = static_cast<std::size_t>(merge.right);
    ASSERT_LT(std::max(left, right), height.size()) << "children before parents";
    EXPECT_TRUE(used.insert(merge.left).second && used.insert(merge.right).second);
    EXPECT_GE(merge.height, std::max(height[left], height[right]));
    EXPECT_GE(merge.height, height.back()) << "ascending";
    EXPECT_DOUBLE_EQ(merge.weight, weight[left] + weight[right]);
    height.push_back(merge.height);
    weight.push_back(merge.weight);
    finite_sum += std::isfinite(merge.height) ? merge.height : 0.0;
  }
  const auto groups = num_orders(points);
  EXPECT_EQ(static_cast<std::size_t>(
                std::count(height.begin(), height.end(), std::numeric_limits<double>::infinity())),
            groups - 1);
  // Ward's costs add up to the scatter inside the bottleneck orders.
  const double inside =
      scatter(points, cluster_clients(points, budget_of(static_cast<int>(groups))));
  EXPECT_NEAR(finite_sum, inside, 1e-11 * inside);
}

TEST(Bac, OrderOfThePointsDoesNotMatter) {
  auto points = draw_points(43, 60, 3);
  CounterRng rng({.seed = 44});
  for (const int budget : {2, 5, 9, 33}) {
    const Clustering first = cluster_clients(points, budget_of(budget));
    auto shuffled = points;
    rng.shuffle(std::span(shuffled));
    const Clustering second = cluster_clients(shuffled, budget_of(budget));
    ASSERT_EQ(first.clusters.size(), second.clusters.size());
    for (std::size_t n = 0; n < first.clusters.size(); ++n) {
      EXPECT_EQ(first.clusters[n].members, second.clusters[n].members);
      EXPECT_EQ(first.clusters[n].centroid, second.clusters[n].centroid);
      EXPECT_EQ(first.clusters[n].order, second.clusters[n].order);
    }
    for (std::size_t k = 0; k < first.dendrogram.size(); ++k) {
      EXPECT_EQ(first.dendrogram[k].height, second.dendrogram[k].height);
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(second.assignment[i], first.assignment[shuffled[i].client.index()]);
      EXPECT_EQ(second.adjustment[i], first.adjustment[shuffled[i].client.index()]);
    }
  }
}

/// Section 2.2: at the untrained adapter all losses are log 2, so only the preferences count.
TEST(Bac, UntrainedAdapterClustersByPreferenceAlone) {
  auto points = draw_points(45, 50, 3);
  for (Point& point : points) {
    point.loss.assign(3, std::log(2.0));
  }
  const Clustering found = cluster_clients(points, budget_of(8));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Vector& lambda = points[i].preference;
    double beta = 0.0;
    for (const double l : lambda) {
      beta += l * std::log(3.0 * l);
    }
    Order by_preference{0, 1, 2};
    std::sort(by_preference.begin(), by_preference.end(), [&](int a, int b) {
      return lambda[static_cast<std::size_t>(a)] > lambda[static_cast<std::size_t>(b)];
    });
    EXPECT_EQ(found.order[i], by_preference);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(found.adjustment[i][j], lambda[j] * (std::log(3.0 * lambda[j]) - beta), 1e-14);
    }
  }
  for (Point& point : points) {
    point.loss.assign(3, 7.5);  // any common loss
  }
  EXPECT_EQ(cluster_clients(points, budget_of(8)).assignment, found.assignment);
}

TEST(Bac, BudgetAboveTheNumberOfClients) {
  const auto points = draw_points(46, 5, 3);
  const Clustering found = cluster_clients(points, budget_of(9));
  EXPECT_EQ(found.clusters.size(), 5U);
  EXPECT_EQ(found.requested, 9);
  EXPECT_NE(found.warning.find("only 5 clients"), std::string::npos) << found.warning;
}

TEST(Bac, DuplicatesAreNotSplit) {
  auto points = draw_points(47, 6, 3);
  std::vector<Point> repeated;
  for (int copy = 0; copy < 3; ++copy) {
    for (const Point& point : points) {
      repeated.push_back(point);
      repeated.back().client = ClientId(static_cast<int>(repeated.size()));
    }
  }
  const Clustering found = cluster_clients(repeated, budget_of(10));
  EXPECT_EQ(found.clusters.size(), 6U);
  EXPECT_EQ(found.requested, 10);
  EXPECT_NE(found.warning.find("equal adjustment"), std::string::npos) << found.warning;
  for (const Cluster& cluster : found.clusters) {
    EXPECT_EQ(cluster.members.size(), 3U);
    EXPECT_NEAR(cluster.adjustment_variance, 0.0, 1e-30);
    EXPECT_EQ(cluster.preference_diameter, 0.0);
  }
  // All alike, and balanced, so that A = 0: one cluster, no division by anything.
  for (Point& point : repeated) {
    point.preference = {.25, .25, .5};
    point.loss = {2, 2, 1};
  }
  EXPECT_EQ(cluster_clients(repeated, budget_of(4)).clusters.size(), 1U);
}

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

TEST(Bac, MergesOrdersByLongestCommonPrefix) {
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

TEST(Bac, EqualPrefixesMergeByWardCost) {
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

TEST(Bac, WeightsPullTheCentroid) {
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

TEST(Bac, MethodNoneIsOneCluster) {
  const auto points = draw_points(48, 12, 3);
  ClusteringOptions options;
  options.method = "none";
  const Clustering found = cluster_clients(points, options);
  ASSERT_EQ(found.clusters.size(), 1U);
  EXPECT_EQ(found.requested, 1);
  EXPECT_EQ(found.warning, "");
  EXPECT_TRUE(found.dendrogram.empty());
  expect_partition(points, found);
}

TEST(Bac, OneClientOneObjective) {
  std::vector<Point> points{{ClientId(7), {.4}, {1.0}, 2.0}};
  const Clustering found = cluster_clients(points, budget_of(1));
  EXPECT_EQ(found.clusters.size(), 1U);
  EXPECT_EQ(found.clusters[0].members, std::vector{ClientId(7)});
  EXPECT_EQ(found.clusters[0].order, Order{0});
}

TEST(Bac, ThousandsOfClients) {
  const auto points = draw_points(49, 3000, 3);
  const Clustering found = cluster_clients(points, budget_of(64));
  EXPECT_EQ(found.clusters.size(), 64U);
  expect_partition(points, found);
}

TEST(Bac, RefusesBadInput) {
  const auto refused = [](std::vector<Point> points, const ClusteringOptions& options) {
    EXPECT_THROW(static_cast<void>(cluster_clients(points, options)), Error);
  };
  const auto good = draw_points(50, 3, 2);
  refused({}, budget_of(1));
  refused(good, budget_of(0));
  auto bad = good;
  bad[1].loss[0] = 0.0;
  refused(bad, budget_of(1));
  bad = good;
  bad[1].loss.pop_back();
  refused(bad, budget_of(1));
  bad = good;
  bad[2].client = bad[0].client;
  refused(bad, budget_of(1));
  bad = good;
  bad[0].weight = 0.0;
  refused(bad, budget_of(1));
  ClusteringOptions options;
  options.method = "guess";
  refused(good, options);
}

}  // namespace
}  // namespace apo::clustering
