#include "apo/metrics/pareto.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::metrics {
namespace {

using Points = std::vector<ScorePoint>;

/// Inclusion-exclusion over all subsets: the volume of a union of boxes.
double hypervolume_oracle(const Points& points) {
  double volume = 0.0;
  for (unsigned mask = 1; mask < (1U << points.size()); ++mask) {
    ScorePoint corner(points.front().size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < points.size(); ++i) {
      if ((mask >> i & 1U) != 0) {
        for (std::size_t j = 0; j < corner.size(); ++j) {
          corner[j] = std::min(corner[j], std::max(0.0, points[i][j]));
        }
      }
    }
    double box = 1.0;
    for (const double side : corner) {
      box *= side;
    }
    volume += __builtin_popcount(mask) % 2 == 1 ? box : -box;
  }
  return volume;
}

/// WFG: each point adds its box without what the later points, limited to that box, take of it.
double hypervolume_by_exclusion(const Points& points) {
  double volume = 0.0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double box = 1.0;
    for (const double side : points[i]) {
      box *= std::max(0.0, side);
    }
    Points limited;
    for (std::size_t k = i + 1; k < points.size(); ++k) {
      ScorePoint corner;
      for (std::size_t j = 0; j < points[i].size(); ++j) {
        corner.push_back(std::min(points[i][j], points[k][j]));
      }
      limited.push_back(std::move(corner));
    }
    volume += box - hypervolume_by_exclusion(limited);
  }
  return volume;
}

/// Sweep over the first of two objectives.
double area_by_sweep(Points points) {
  std::sort(points.begin(), points.end(), std::greater<>());
  double area = 0.0;
  double height = 0.0;
  for (const ScorePoint& point : points) {
    area += std::max(0.0, point[0]) * std::max(0.0, point[1] - height);
    height = std::max(height, point[1]);
  }
  return area;
}

/// Coordinates from a coarse grid now and then, so that some repeat.
Points draw(CounterRng& rng, int n, int m) {
  Points points;
  for (int i = 0; i < n; ++i) {
    ScorePoint point;
    for (int j = 0; j < m; ++j) {
      const double u = rng.uniform();
      point.push_back(rng.below(3) == 0 ? std::floor(4.0 * u) / 4.0 : u);
    }
    points.push_back(std::move(point));
  }
  return points;
}

Points negated(Points points) {
  for (ScorePoint& point : points) {
    for (double& score : point) {
      score = -score;
    }
  }
  return points;
}

TEST(Hypervolume, KnownVolumes) {
  EXPECT_DOUBLE_EQ(hypervolume(Points{{.5, .25, 2}}), .25);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{2, 1}, {1, 3}}), 2 + 3 - 1);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{5, 5}, {4, 6}, {2, 7}, {7, 4}}), 39.0);
  // The same set to be minimised from (10, 10) is this one to be maximised from the origin.
  EXPECT_DOUBLE_EQ(hypervolume(Points{{5, 5}, {6, 4}, {8, 3}, {3, 6}}), 38.0);
  for (const int n : {1, 2, 7, 100}) {
    Points staircase;
    for (int i = 1; i <= n; ++i) {
      staircase.push_back({static_cast<double>(i) / n, static_cast<double>(n + 1 - i) / n});
    }
    EXPECT_NEAR(hypervolume(staircase), (n + 1.0) / (2.0 * n), 1e-14);
  }
}

TEST(Hypervolume, EdgeCases) {
  EXPECT_EQ(hypervolume(Points{}), 0.0);
  EXPECT_EQ(hypervolume(Points{{0, 5}, {-1, 7}}), 0.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{0, 5}, {2, 3}, {-1, 7}}), 6.0);
  EXPECT_EQ(hypervolume(Points{{-3}, {2}, {.5}}), 2.0);
  EXPECT_EQ(hypervolume(Points{{-3}}), 0.0);
}

/// The same set with further objectives in which all are 1 has the same volume, computed by another
/// algorithm: m = 2 by sweep, 3 by HV3D, 4 and more by WFG.
TEST(Hypervolume, AlgorithmsAgree) {
  CounterRng rng({.seed = 71});
  for (int k = 0; k < 300; ++k) {
    const int m = 2 + k % 5;
    const Points points = draw(rng, 1 + k % 12, m);
    const double expected = hypervolume_oracle(points);
    EXPECT_NEAR(hypervolume_by_exclusion(points), expected, 1e-12);
    if (m == 2) {
      EXPECT_NEAR(area_by_sweep(points), expected, 1e-12);
    }
    Points raised = points;
    for (int size = m; size <= 6; ++size) {
      EXPECT_NEAR(hypervolume(raised), expected, 1e-12) << "m=" << m << " raised to " << size;
      for (ScorePoint& point : raised) {
        point.push_back(1.0);
      }
    }
  }
}

TEST(Hypervolume, SeesTheNondominatedPointsOnly) {
  CounterRng rng({.seed = 74});
  for (int k = 0; k < 200; ++k) {
    const int m = 2 + k % 5;
    const Points points = draw(rng, 1 + k % 12, m);
    const double volume = hypervolume(points);
    Points more = points;
    more.push_back(points.front());
    more.push_back(points.back());
    for (double& score : more.back()) {
      score *= .5;
    }
    EXPECT_NEAR(hypervolume(more), volume, 1e-12);
    Points front;
    for (const int i : nondominated_front(more)) {
      front.push_back(more[static_cast<std::size_t>(i)]);
    }
    EXPECT_NEAR(hypervolume(front), volume, 1e-12);
    std::reverse(more.begin(), more.end());
    EXPECT_NEAR(hypervolume(more), volume, 1e-12) << "order";
  }
}

TEST(Hypervolume, NeverShrinksWhenPointsAreAdded) {
  CounterRng rng({.seed = 75});
  for (int k = 0; k < 60; ++k) {
    const Points points = draw(rng, 12, 2 + k % 5);
    double before = 0.0;
    for (std::size_t n = 1; n <= points.size(); ++n) {
      const Points some(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(n));
      const double volume = hypervolume(some);
      EXPECT_GE(volume, before - 1e-12);
      // A point that beats all others on all objectives adds what they leave of its box.
      Points with_best = some;
      with_best.emplace_back(points[0].size(), 1.5);
      EXPECT_NEAR(hypervolume(with_best), std::pow(1.5, static_cast<double>(points[0].size())),
                  1e-12);
      before = volume;
    }
  }
}

TEST(NondominatedFront, AgreesWithTheDefinition) {
  CounterRng rng({.seed = 72});
  for (int k = 0; k < 300; ++k) {
    const Points points = draw(rng, 1 + k % 40, 1 + k % 5);
    std::vector<int> expected;
    for (std::size_t i = 0; i < points.size(); ++i) {
      bool kept = true;
      for (std::size_t o = 0; o < points.size(); ++o) {
        const bool no_worse = std::equal(points[o].begin(), points[o].end(), points[i].begin(),
                                         [](double a, double b) { return a >= b; });
        kept = kept && !(no_worse && (points[o] != points[i] || o < i));
      }
      if (kept) {
        expected.push_back(static_cast<int>(i));
      }
    }
    EXPECT_EQ(nondominated_front(points), expected) << k;
  }
  EXPECT_TRUE(nondominated_front(Points{}).empty());
  EXPECT_EQ(nondominated_front(Points{{1, 2}, {2, 1}, {1, 2}, {1, 1}}), (std::vector{0, 1}));
}

/// The published examples minimise; both distances only see differences, so the sign turns.
TEST(Igd, PublishedExamples) {
  const Points reference = negated({{10, 0}, {6, 1}, {2, 2}, {1, 6}, {0, 10}});
  const Points better = negated({{4, 2}, {3, 3}, {2, 4}});
  const Points worse = negated({{8, 2}, {4, 4}, {2, 8}});
  EXPECT_NEAR(igd(better, reference), 3.707, 5e-4);
  EXPECT_NEAR(igd(worse, reference), 2.591, 5e-4);
  EXPECT_NEAR(igd_plus(better, reference), 1.483, 5e-4);
  EXPECT_NEAR(igd_plus(worse, reference), 2.260, 5e-4);
  const Points points = negated({{3.5, 5.5}, {3.6, 4.1}, {4.1, 3.2}, {5.5, 1.5}});
  const Points line = negated({{1, 6}, {2, 5}, {3, 4}, {4, 3}, {5, 2}, {6, 1}});
  EXPECT_NEAR(igd(points, line), 1.0627908666722465, 1e-15);
  EXPECT_NEAR(igd_plus(points, line), 0.9855036468106652, 1e-15);
}

TEST(Igd, EdgeCases) {
  CounterRng rng({.seed = 73});
  const Points points = draw(rng, 12, 3);
  for (int m = 1; m <= 6; ++m) {
    const Points set = draw(rng, 12, m);
    EXPECT_EQ(igd(set, set), 0.0);
    EXPECT_EQ(igd_plus(set, set), 0.0);
  }
  EXPECT_TRUE(std::isinf(igd(Points{}, points)));
  EXPECT_TRUE(std::isinf(igd_plus(Points{}, points)));
  EXPECT_EQ(igd_plus(Points{{2, 2}}, Points{{1, 1}}), 0.0) << "ahead of the reference is no fault";
  EXPECT_THROW(static_cast<void>(igd(points, Points{})), Error);
}

TEST(Pareto, RefusesBadInput) {
  const double nan = std::nan("");
  EXPECT_THROW(static_cast<void>(hypervolume(Points{{1, 2}, {1}})), Error);
  EXPECT_THROW(static_cast<void>(hypervolume(Points{{1, nan}})), Error);
  EXPECT_THROW(static_cast<void>(nondominated_front(Points{{1, nan}})), Error);
  EXPECT_THROW(static_cast<void>(igd(Points{{1, 2}}, Points{{1, 2, 3}})), Error);
}

}  // namespace
}  // namespace apo::metrics
