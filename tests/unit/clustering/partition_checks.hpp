#pragma once

/// @file
/// Properties that any clustering must have.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"

namespace apo::clustering::test {

/// Every client in exactly one cluster; ids in order; `assignment` agrees with the members.
inline void expect_partition(const std::vector<Point>& points, const Clustering& found) {
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
inline bool refines(const Clustering& fine, const Clustering& coarse) {
  std::map<ClusterId, ClusterId> home;
  for (std::size_t i = 0; i < fine.assignment.size(); ++i) {
    const auto [place, fresh] = home.emplace(fine.assignment[i], coarse.assignment[i]);
    if (!fresh && place->second != coarse.assignment[i]) {
      return false;
    }
  }
  return true;
}

/// sum_i W_i ||A_i - centroid of i's cluster||^2, from scratch.
inline double scatter(const std::vector<Point>& points, const Clustering& found) {
  std::map<ClusterId, std::pair<double, std::vector<double>>> sums;
  std::vector<std::vector<double>> adjustment;
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

inline std::size_t num_orders(const std::vector<Point>& points) {
  std::set<std::vector<int>> orders;
  for (const Point& point : points) {
    orders.insert(bottleneck_order(point.loss, point.preference));
  }
  return orders.size();
}

/// All that the order of the points may not change, bit for bit.
inline void expect_same(const Clustering& first, const Clustering& second) {
  ASSERT_EQ(first.clusters.size(), second.clusters.size());
  for (std::size_t n = 0; n < first.clusters.size(); ++n) {
    EXPECT_EQ(first.clusters[n].members, second.clusters[n].members);
    EXPECT_EQ(first.clusters[n].order, second.clusters[n].order);
    EXPECT_EQ(first.clusters[n].centroid, second.clusters[n].centroid);
    EXPECT_EQ(first.clusters[n].preference_centroid, second.clusters[n].preference_centroid);
    EXPECT_EQ(first.clusters[n].adjustment_variance, second.clusters[n].adjustment_variance);
    EXPECT_EQ(first.clusters[n].preference_diameter, second.clusters[n].preference_diameter);
  }
  ASSERT_EQ(first.dendrogram.size(), second.dendrogram.size());
  for (std::size_t k = 0; k < first.dendrogram.size(); ++k) {
    EXPECT_EQ(first.dendrogram[k].left, second.dendrogram[k].left);
    EXPECT_EQ(first.dendrogram[k].right, second.dendrogram[k].right);
    EXPECT_EQ(first.dendrogram[k].height, second.dendrogram[k].height);
    EXPECT_EQ(first.dendrogram[k].weight, second.dendrogram[k].weight);
  }
}

}  // namespace apo::clustering::test
