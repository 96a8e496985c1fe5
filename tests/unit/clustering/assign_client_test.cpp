#include <cmath>

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

Cluster cluster_at(int id, std::vector<int> order, Vector centroid) {
  Cluster cluster;
  cluster.id = ClusterId(id);
  cluster.order = std::move(order);
  cluster.preference_centroid.assign(centroid.size(), 1.0 / static_cast<double>(centroid.size()));
  cluster.centroid = std::move(centroid);
  return cluster;
}

TEST(AssignClient, NearestCentroidOfTheSameOrder) {
  const auto points = draw_points(61, 80, 3);
  const Clustering clustering = cluster_clients(points, budget_of(20));
  const auto fresh = draw_points(62, 200, 3);
  for (const Point& point : fresh) {
    const Assignment found = assign_client(clustering, point.loss, point.preference);
    const auto order = bottleneck_order(point.loss, point.preference);
    const Vector a = balance(point.loss, point.preference).adjustment;
    ASSERT_TRUE(found.order_matched);
    double nearest = 1e9;
    double second = std::numeric_limits<double>::infinity();
    for (const Cluster& cluster : clustering.clusters) {
      if (cluster.order == order) {
        double squared = 0.0;
        for (std::size_t j = 0; j < 3; ++j) {
          squared += (a[j] - cluster.centroid[j]) * (a[j] - cluster.centroid[j]);
        }
        const double distance = std::sqrt(squared);
        second = std::min(second, std::max(nearest, distance));
        if (distance < nearest) {
          nearest = distance;
        }
        EXPECT_LE(found.distance, distance + 1e-15);
      }
    }
    if (second > 1e8) {
      second = std::numeric_limits<double>::infinity();
    }
    EXPECT_EQ(clustering.clusters[found.cluster.index()].order, order);
    EXPECT_NEAR(found.distance, nearest, 1e-15);
    if (std::isinf(second)) {
      EXPECT_TRUE(std::isinf(found.margin));
    } else {
      EXPECT_NEAR(found.margin, second - nearest, 1e-15);
    }
  }
}

TEST(AssignClient, MembersOfSingletonsComeHome) {
  const auto points = draw_points(63, 25, 3);
  const Clustering clustering = cluster_clients(points, budget_of(25));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Assignment found = assign_client(clustering, points[i].loss, points[i].preference);
    EXPECT_EQ(found.cluster, clustering.assignment[i]);
    EXPECT_EQ(found.distance, 0.0);
    EXPECT_GT(found.margin, 0.0);
  }
}

TEST(AssignClient, LongestCommonPrefixWithoutTheSameOrder) {
  Clustering clustering;
  clustering.method = "bac";
  clustering.clusters = {cluster_at(0, {0, 1, 2}, {0, 0, 0}), cluster_at(1, {1, 0, 2}, {0, 0, 0}),
                         cluster_at(2, {1}, {.1, .1, .1})};
  // Order 1, 2, 0: clusters 1 and 2 share the bottleneck, cluster 1 is nearer.
  const Vector loss{1.00, 1.02, 1.01};
  const Vector preference{1.0 / 3, 1.0 / 3, 1.0 / 3};
  const Assignment found = assign_client(clustering, loss, preference);
  EXPECT_EQ(found.cluster, ClusterId(1));
  EXPECT_FALSE(found.order_matched);
  EXPECT_NEAR(found.margin, .1 * std::sqrt(3.0), .02);
  // Order 2, 1, 0 shares nothing with anybody: all are candidates, ties to the lowest id.
  const Assignment other = assign_client(clustering, Vector{1.00, 1.01, 1.02}, preference);
  EXPECT_EQ(other.cluster, ClusterId(0));
  EXPECT_EQ(other.margin, 0.0);
  EXPECT_FALSE(other.order_matched);
  // Order 0, 1, 2: one candidate, however far.
  const Assignment single = assign_client(clustering, Vector{9, 2, 1}, preference);
  EXPECT_EQ(single.cluster, ClusterId(0));
  EXPECT_TRUE(single.order_matched);
  EXPECT_TRUE(std::isinf(single.margin));
}

TEST(AssignClient, RefusesBadInput) {
  const auto refused = [](const Clustering& clustering, const Vector& loss) {
    EXPECT_THROW(static_cast<void>(assign_client(clustering, loss, Vector(loss.size(), .25))),
                 Error);
  };
  Clustering clustering;
  clustering.method = "bac";
  refused(clustering, {1, 1});
  clustering.clusters = {cluster_at(0, {0, 1, 2}, {0, 0, 0})};
  refused(clustering, {1, 1});
  EXPECT_EQ(assign_client(clustering, Vector(3, 1.0), Vector(3, .25)).cluster, ClusterId(0));
  clustering.method = "guess";
  refused(clustering, {1, 1, 1});
  clustering.method = "bac";
  clustering.clusters[0].preference_centroid.clear();
  refused(clustering, {1, 1, 1});
}

}  // namespace
}  // namespace apo::clustering
