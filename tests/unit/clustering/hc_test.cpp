/// Hierarchical clustering of preferences (algorithms.md 2.6), and new clients under each method.

#include <cmath>

#include "partition_checks.hpp"
#include "random_points.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

using test::budget_of;
using test::draw_points;
using Vector = std::vector<double>;

ClusteringOptions hc(int budget) {
  ClusteringOptions options = budget_of(budget);
  options.method = "hc";
  return options;
}

double distance(const Vector& a, const Vector& b) {
  double squared = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    squared += (a[j] - b[j]) * (a[j] - b[j]);
  }
  return std::sqrt(squared);
}

TEST(Hc, OnlyPreferencesCount) {
  auto points = draw_points(71, 60, 3);
  const Clustering found = cluster_clients(points, hc(6));
  EXPECT_EQ(found.method, "hc");
  EXPECT_EQ(found.clusters.size(), 6U);
  test::expect_partition(points, found);
  for (const Merge& merge : found.dendrogram) {
    EXPECT_TRUE(std::isfinite(merge.height)) << "no bottleneck orders, nothing across them";
  }
  CounterRng rng({.seed = 72});
  for (Point& point : points) {
    for (double& loss : point.loss) {
      loss = 0.1 + rng.uniform();
    }
  }
  const Clustering other = cluster_clients(points, hc(6));
  std::set<std::vector<ClientId>> before;
  std::set<std::vector<ClientId>> after;
  for (std::size_t n = 0; n < 6; ++n) {  // ids may change: they go by bottleneck order
    before.insert(found.clusters[n].members);
    after.insert(other.clusters[n].members);
  }
  EXPECT_EQ(before, after);
  EXPECT_NE(cluster_clients(points, budget_of(6)).assignment, other.assignment);
}

TEST(Hc, BudgetBelowTheNumberOfOrdersNeedsNoPolicy) {
  const auto points = draw_points(73, 60, 3);
  ClusteringOptions options = hc(2);
  options.budget_policy = "raise";
  const Clustering found = cluster_clients(points, options);
  EXPECT_EQ(found.clusters.size(), 2U);
  EXPECT_EQ(found.warning, "");
  for (const Cluster& cluster : found.clusters) {
    EXPECT_EQ(cluster.bottleneck_mixed, cluster.order.empty());
  }
}

/// Three tight bunches of preferences, whatever the losses.
TEST(Hc, FindsBunches) {
  std::vector<Point> points;
  CounterRng rng({.seed = 74});
  const std::vector<Vector> centres{{.8, .1, .1}, {.1, .8, .1}, {.3, .3, .4}};
  for (int i = 0; i < 45; ++i) {
    Point point{ClientId(i), {}, centres[static_cast<std::size_t>(i % 3)], 1.0};
    const double shift = .01 * (rng.uniform() - .5);
    point.preference[0] += shift;
    point.preference[1] -= shift;
    for (int j = 0; j < 3; ++j) {
      point.loss.push_back(std::exp(rng.normal()));
    }
    points.push_back(point);
  }
  const Clustering found = cluster_clients(points, hc(3));
  for (int i = 3; i < 45; ++i) {
    EXPECT_EQ(found.assignment[static_cast<std::size_t>(i)],
              found.assignment[static_cast<std::size_t>(i % 3)]);
  }
  EXPECT_EQ(found.clusters.size(), 3U);
  for (std::size_t c = 0; c < 3; ++c) {
    const Assignment assigned = assign_client(found, Vector{1, 2, 3}, centres[c]);
    EXPECT_EQ(assigned.cluster, found.assignment[c]);
    EXPECT_EQ(assigned.preference_only, found.assignment[c]);
    EXPECT_LT(assigned.distance, .01);
    EXPECT_GT(assigned.margin, .2);
  }
}

TEST(PreferenceCentroid, IsTheWeightedMean) {
  const auto points = draw_points(75, 50, 4);
  for (const char* method : {"bac", "hc", "none"}) {
    for (const char* weights : {"pairs", "equal"}) {
      ClusteringOptions options = budget_of(5);
      options.method = method;
      options.weights = weights;
      const Clustering found = cluster_clients(points, options);
      EXPECT_EQ(found.method, method);
      for (const Cluster& cluster : found.clusters) {
        Vector mean(4, 0.0);
        double weight = 0.0;
        for (const ClientId id : cluster.members) {
          const Point& point = points[id.index()];
          const double own = options.weights == "equal" ? 1.0 : point.weight;
          weight += own;
          for (std::size_t j = 0; j < 4; ++j) {
            mean[j] += own * point.preference[j];
          }
        }
        EXPECT_NEAR(cluster.weight, weight, 1e-12 * weight);
        for (std::size_t j = 0; j < 4; ++j) {
          EXPECT_NEAR(cluster.preference_centroid[j], mean[j] / weight, 1e-14);
        }
      }
    }
  }
}

TEST(PreferenceOnly, IsTheNearestPreferenceCentroidWhateverTheMethod) {
  const auto points = draw_points(76, 80, 3);
  const auto fresh = draw_points(77, 150, 3);
  for (const char* method : {"bac", "hc", "none"}) {
    ClusteringOptions options = budget_of(12);
    options.method = method;
    const Clustering clustering = cluster_clients(points, options);
    int differ = 0;
    for (const Point& point : fresh) {
      const Assignment found = assign_client(clustering, point.loss, point.preference);
      ClusterId nearest;
      Vector distances;
      for (const Cluster& cluster : clustering.clusters) {
        distances.push_back(distance(cluster.preference_centroid, point.preference));
        if (distances.back() < distances[nearest.valid() ? nearest.index() : 0] ||
            !nearest.valid()) {
          nearest = cluster.id;
        }
      }
      EXPECT_EQ(found.preference_only, nearest);
      differ += found.preference_only != found.cluster ? 1 : 0;
      if (options.method == "hc") {
        std::sort(distances.begin(), distances.end());
        EXPECT_EQ(found.cluster, nearest);
        EXPECT_NEAR(found.distance, distances[0], 1e-15);
        EXPECT_NEAR(found.margin, distances[1] - distances[0], 1e-15);
        EXPECT_EQ(found.order_matched, clustering.clusters[found.cluster.index()].order ==
                                           bottleneck_order(point.loss, point.preference));
      }
    }
    EXPECT_EQ(differ > 0, options.method == "bac");
  }
}

TEST(MethodNone, EverybodyGoesToTheOnlyCluster) {
  const auto points = draw_points(78, 20, 3);
  ClusteringOptions options;
  options.method = "none";
  const Clustering clustering = cluster_clients(points, options);
  for (const Point& point : draw_points(79, 20, 3)) {
    const Assignment found = assign_client(clustering, point.loss, point.preference);
    EXPECT_EQ(found.cluster, ClusterId(0));
    EXPECT_EQ(found.preference_only, ClusterId(0));
    EXPECT_TRUE(std::isinf(found.margin));
  }
}

}  // namespace
}  // namespace apo::clustering
