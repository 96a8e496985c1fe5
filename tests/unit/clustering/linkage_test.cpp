/// The stored dendrogram against agglomeration by definition (naive_oracle.hpp).

#include <cmath>
#include <set>

#include "naive_oracle.hpp"
#include "partition_checks.hpp"
#include "random_points.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

using test::budget_of;
using test::draw_lattice;
using test::draw_points;
using test::draw_repeated;
using Members = std::vector<int>;

constexpr const char* kLinkages[] = {"ward", "average", "complete", "single"};

ClusteringOptions options_of(const char* method, const char* linkage, const char* weights) {
  ClusteringOptions options;
  options.method = method;
  options.linkage = linkage;
  options.weights = weights;
  return options;
}

TEST(Linkage, DendrogramEqualsTheNaiveOne) {
  std::uint64_t seed = 100;
  for (const char* method : {"bac", "hc"}) {
    for (const char* linkage : kLinkages) {
      for (const char* weights : {"pairs", "equal"}) {
        for (const int m : {2, 3, 4}) {
          const auto points = draw_points(++seed, 45, m);
          const ClusteringOptions options = options_of(method, linkage, weights);
          const Clustering found = cluster_clients(points, options);
          const std::vector<test::NaiveMerge> expected = test::naive_merges(points, options);
          const auto members = test::node_members(found.dendrogram);
          ASSERT_EQ(found.dendrogram.size(), 44U);
          const double scale = expected.back().height;
          for (std::size_t k = 0; k < found.dendrogram.size(); ++k) {
            const Merge& merge = found.dendrogram[k];
            const std::string where =
                std::string(method) + " " + linkage + " " + weights + " merge " + std::to_string(k);
            if (k >= expected.size()) {
              EXPECT_TRUE(std::isinf(merge.height)) << where;
              continue;
            }
            EXPECT_NEAR(merge.height, expected[k].height, 1e-12 * scale) << where;
            EXPECT_EQ(members[static_cast<std::size_t>(merge.left)], expected[k].left) << where;
            EXPECT_EQ(members[static_cast<std::size_t>(merge.right)], expected[k].right) << where;
          }
        }
      }
    }
  }
}

/// Nodes at least this high, as sets of members.
std::set<Members> nodes_above(const std::vector<Merge>& merges, double height) {
  const auto members = test::node_members(merges);
  std::set<Members> nodes;
  for (std::size_t k = 0; k < merges.size(); ++k) {
    if (merges[k].height > height && std::isfinite(merges[k].height)) {
      nodes.insert(members[merges.size() + 1 + k]);
    }
  }
  return nodes;
}

TEST(Linkage, DuplicatesJoinFirstAndTheRestIsTheNaiveTree) {
  for (const char* method : {"bac", "hc"}) {
    for (const char* linkage : kLinkages) {
      const auto points = draw_repeated(7, 12, 4, 3);
      const ClusteringOptions options = options_of(method, linkage, "pairs");
      const Clustering found = cluster_clients(points, options);
      const auto members = test::node_members(found.dendrogram);
      // Places in the order of their first client; clients of a place join the first in turn.
      std::size_t k = 0;
      std::map<std::vector<double>, Members> places;
      for (std::size_t i = 0; i < points.size(); ++i) {
        places[points[i].preference].push_back(static_cast<int>(i));
      }
      std::vector<Members> sets;
      for (const auto& [preference, own] : places) {
        sets.push_back(own);
      }
      std::sort(sets.begin(), sets.end());
      ASSERT_EQ(sets.size(), 12U);
      std::set<Members> zero;
      std::set<Members> expected_zero;
      for (; found.dendrogram[k].height == 0.0; ++k) {
        zero.insert(members[points.size() + k]);
        EXPECT_EQ(members[static_cast<std::size_t>(found.dendrogram[k].right)].size(), 1U);
      }
      for (const Members& own : sets) {
        for (std::size_t count = 2; count <= own.size(); ++count) {
          expected_zero.emplace(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(count));
        }
      }
      EXPECT_EQ(k, 36U);
      EXPECT_EQ(zero, expected_zero);

      const std::vector<test::NaiveMerge> naive = test::naive_merges(points, options);
      const double tiny = 1e-9 * naive.back().height;
      std::set<Members> expected;
      std::vector<double> heights;
      for (const test::NaiveMerge& merge : naive) {
        if (merge.height > tiny) {
          Members both = merge.left;
          both.insert(both.end(), merge.right.begin(), merge.right.end());
          std::sort(both.begin(), both.end());
          expected.insert(both);
          heights.push_back(merge.height);
        }
      }
      EXPECT_EQ(nodes_above(found.dendrogram, tiny), expected) << method << " " << linkage;
      for (std::size_t i = 0; i < heights.size(); ++i) {
        EXPECT_NEAR(found.dendrogram[k + i].height, heights[i], 1e-12 * naive.back().height);
      }
    }
  }
}

TEST(Linkage, EveryBudgetIsMetAndCutsAreNested) {
  for (const char* method : {"bac", "hc"}) {
    for (const char* linkage : kLinkages) {
      for (const char* allocation : {"height", "largest_remainder"}) {
        const auto points = draw_points(51, 30, 3);
        Clustering coarser;
        for (int budget = 1; budget <= 33; ++budget) {
          ClusteringOptions options = options_of(method, linkage, "pairs");
          options.budget = budget;
          options.allocation = allocation;
          const Clustering found = cluster_clients(points, options);
          EXPECT_EQ(static_cast<int>(found.clusters.size()), std::min(budget, 30));
          EXPECT_EQ(found.warning.empty(), budget <= 30) << found.warning;
          test::expect_partition(points, found);
          if (budget > 1 && options.allocation == "height") {
            EXPECT_TRUE(test::refines(found, coarser)) << linkage << " b=" << budget;
          }
          coarser = found;
        }
      }
    }
  }
}

TEST(Linkage, DuplicatesArePartedOnlyByForce) {
  const auto points = draw_repeated(53, 9, 3, 3);
  for (const char* method : {"bac", "hc"}) {
    for (const char* linkage : kLinkages) {
      for (const char* allocation : {"height", "largest_remainder"}) {
        for (int budget = 1; budget <= 27; ++budget) {
          ClusteringOptions options = options_of(method, linkage, "pairs");
          options.budget = budget;
          options.allocation = allocation;
          const Clustering found = cluster_clients(points, options);
          EXPECT_EQ(static_cast<int>(found.clusters.size()), std::min(budget, 9));
          EXPECT_EQ(found.warning.empty(), budget <= 9) << found.warning;
          options.force_budget = true;
          const Clustering forced = cluster_clients(points, options);
          EXPECT_EQ(static_cast<int>(forced.clusters.size()), budget);
          EXPECT_EQ(forced.warning, "");
          test::expect_partition(points, forced);
          if (budget <= 9) {
            EXPECT_EQ(forced.assignment, found.assignment);
          }
        }
      }
    }
  }
}

/// Equal up to rounding is equal; different is different, however heavy others are.
TEST(Linkage, WhatCountsAsEqual) {
  auto points = draw_points(59, 20, 3);
  for (std::size_t i = 10; i < 20; ++i) {  // common factors leave A as it is, but for its last bits
    points[i].preference = points[i - 10].preference;
    points[i].loss = points[i - 10].loss;
    for (double& loss : points[i].loss) {
      loss *= 1.7;
    }
  }
  int rounded = 0;
  for (const char* linkage : kLinkages) {
    ClusteringOptions options = options_of("bac", linkage, "pairs");
    options.budget = 20;
    const Clustering found = cluster_clients(points, options);
    EXPECT_EQ(found.clusters.size(), 10U);
    for (std::size_t i = 10; i < 20; ++i) {
      rounded += found.adjustment[i] != found.adjustment[i - 10] ? 1 : 0;
    }
  }
  EXPECT_GT(rounded, 0) << "the test needs some that are not the same bits";
  auto uneven = draw_points(60, 200, 3);
  uneven[17].weight = 1e12;
  EXPECT_EQ(cluster_clients(uneven, budget_of(200)).clusters.size(), 200U);
}

TEST(Linkage, OrderOfThePointsDoesNotMatter) {
  CounterRng rng({.seed = 54});
  std::vector<std::vector<Point>> sets{draw_points(55, 40, 3), draw_repeated(56, 12, 3, 3),
                                       draw_lattice(57, 16)};
  for (const std::vector<Point>& points : sets) {
    for (const char* method : {"bac", "hc"}) {
      for (const char* linkage : kLinkages) {
        ClusteringOptions options = options_of(method, linkage, "pairs");
        options.budget = 9;
        const Clustering first = cluster_clients(points, options);
        auto shuffled = points;
        rng.shuffle(std::span(shuffled));
        const Clustering second = cluster_clients(shuffled, options);
        test::expect_same(first, second);
        for (std::size_t i = 0; i < points.size(); ++i) {
          EXPECT_EQ(second.assignment[i], first.assignment[shuffled[i].client.index()]);
        }
      }
    }
  }
}

/// On a lattice many pairs tie; single and complete linkage only compare distances, so the naive
/// rule decides every tie, whatever the rounding.
TEST(Linkage, TiesAreBrokenAsByTheNaiveRule) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto points = draw_lattice(seed, 16);  // 105 places
    for (const char* linkage : {"single", "complete"}) {
      const ClusteringOptions options = options_of("hc", linkage, "equal");
      const Clustering found = cluster_clients(points, options);
      const auto expected = test::naive_merges(points, options);
      const auto members = test::node_members(found.dendrogram);
      ASSERT_EQ(found.dendrogram.size(), expected.size());
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const Merge& merge = found.dendrogram[k];
        ASSERT_EQ(merge.height, expected[k].height) << linkage << " merge " << k;
        ASSERT_EQ(members[static_cast<std::size_t>(merge.left)], expected[k].left) << linkage << k;
        ASSERT_EQ(members[static_cast<std::size_t>(merge.right)], expected[k].right)
            << linkage << k;
      }
    }
  }
}

TEST(Linkage, WeightsEqualIgnoresTheNumbersOfPairs) {
  const auto points = draw_points(58, 30, 3);
  auto unit = points;
  for (Point& point : unit) {
    point.weight = 1.0;
  }
  ClusteringOptions options = budget_of(7);
  const Clustering expected = cluster_clients(unit, options);
  EXPECT_NE(cluster_clients(points, options).dendrogram.back().weight, 30.0);
  options.weights = "equal";
  const Clustering found = cluster_clients(points, options);
  test::expect_same(found, expected);
  EXPECT_EQ(found.assignment, expected.assignment);
  double weight = 0.0;
  for (const Cluster& cluster : found.clusters) {
    weight += cluster.weight;
    EXPECT_EQ(cluster.weight, static_cast<double>(cluster.members.size()));
  }
  EXPECT_EQ(weight, 30.0);
}

TEST(Linkage, TooManyPointsForATableOfDistances) {
  std::vector<Point> points;
  for (int i = 0; i <= 20000; ++i) {
    const double share = .1 + .3 * i / 20001.0;
    points.push_back({ClientId(i), {1.0, 1.0}, {share, 1.0 - share}, 1.0});
  }
  try {
    static_cast<void>(cluster_clients(points, options_of("hc", "average", "pairs")));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_NE(std::string(error.what()).find("20001"), std::string::npos) << error.what();
  }
  EXPECT_EQ(cluster_clients(points, options_of("hc", "ward", "pairs")).clusters.size(), 4U);
}

}  // namespace
}  // namespace apo::clustering
