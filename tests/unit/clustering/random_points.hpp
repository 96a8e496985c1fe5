#pragma once

#include "apo/clustering/clustering.hpp"
#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace apo::clustering::test {

inline std::vector<Point> draw_points(std::uint64_t seed, int n, int m) {
  CounterRng rng({.seed = seed});
  const auto size = static_cast<std::size_t>(m);
  std::vector<Point> points;
  for (int i = 0; i < n; ++i) {
    Point point;
    point.client = ClientId(i);
    point.preference = normalised_preference(rng.dirichlet(std::vector<double>(size, 1.0)), "test");
    for (std::size_t j = 0; j < size; ++j) {
      point.loss.push_back(0.1 + rng.uniform());
    }
    point.weight = 1.0 + static_cast<double>(rng.below(50));
    points.push_back(std::move(point));
  }
  return points;
}

inline ClusteringOptions budget_of(int budget, const char* policy = "merge") {
  ClusteringOptions options;
  options.budget = budget;
  options.budget_policy = policy;
  return options;
}

}  // namespace apo::clustering::test
