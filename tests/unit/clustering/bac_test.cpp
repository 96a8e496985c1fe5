#include <algorithm>
#include <cmath>
#include <set>

#include "partition_checks.hpp"
#include "random_points.hpp"
#include <gtest/gtest.h>

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

using test::budget_of;
using test::draw_points;
using test::expect_partition;
using test::num_orders;
using test::refines;
using test::scatter;
using Vector = std::vector<double>;
using Order = std::vector<int>;

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
    test::expect_same(first, second);
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
  Clustering coarser;
  double last_scatter = 0.0;
  for (const int budget : {1, 2, 6, 7, 64, 500, 2999, 3000}) {
    const Clustering found = cluster_clients(points, budget_of(budget));
    EXPECT_EQ(static_cast<int>(found.clusters.size()), budget);
    expect_partition(points, found);
    const double now = scatter(points, found);
    if (budget > 1) {
      EXPECT_TRUE(refines(found, coarser));
      EXPECT_LE(now, last_scatter * (1 + 1e-12));
    }
    coarser = found;
    last_scatter = now;
  }
}

/// Every split of a Ward tree lowers the scatter by the height of the node that it splits.
TEST(Bac, ASplitLowersTheScatterByItsHeight) {
  const auto points = draw_points(52, 35, 3);
  const auto groups = static_cast<int>(num_orders(points));
  Clustering coarser = cluster_clients(points, budget_of(groups));
  for (int budget = groups + 1; budget <= 35; ++budget) {
    const Clustering found = cluster_clients(points, budget_of(budget));
    const auto undone = static_cast<std::size_t>(35 - budget);  // the highest finite one left
    EXPECT_NEAR(scatter(points, coarser) - scatter(points, found), found.dendrogram[undone].height,
                1e-12 * scatter(points, cluster_clients(points, budget_of(1))));
    coarser = found;
  }
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
  bad = good;
  bad[0].client = ClientId();
  refused(bad, budget_of(1));
  for (const auto field :
       {&ClusteringOptions::method, &ClusteringOptions::linkage, &ClusteringOptions::weights,
        &ClusteringOptions::budget_policy, &ClusteringOptions::allocation}) {
    ClusteringOptions options;
    options.*field = "guess";
    refused(good, options);
  }
}

}  // namespace
}  // namespace apo::clustering
