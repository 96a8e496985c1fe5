#pragma once

#include "apo/clustering/clustering.hpp"
#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace apo::clustering::test {

/// Clients in general position: Dirichlet preferences, losses in [0.1, 1.1), weights 1 to 50.
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

/// `copies` clients at each of `distinct` places, client ids shuffled; points by ascending client.
inline std::vector<Point> draw_repeated(std::uint64_t seed, int distinct, int copies, int m) {
  const std::vector<Point> places = draw_points(seed, distinct, m);
  std::vector<Point> points;
  for (int copy = 0; copy < copies; ++copy) {
    points.insert(points.end(), places.begin(), places.end());
  }
  CounterRng rng({.seed = seed, .a = 1});
  rng.shuffle(std::span(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].client = ClientId(static_cast<int>(i));
    points[i].weight = 1.0 + static_cast<double>(rng.below(9));
  }
  return points;
}

/// Preferences on the lattice of multiples of 1 / steps, which is full of ties, in random order and
/// all of weight 1. Exact numbers where `steps` is a power of two.
inline std::vector<Point> draw_lattice(std::uint64_t seed, int steps) {
  std::vector<Point> points;
  for (int a = 1; a < steps; ++a) {
    for (int b = 1; a + b < steps; ++b) {
      Point point;
      for (const int part : {a, b, steps - a - b}) {
        point.preference.push_back(static_cast<double>(part) / steps);
      }
      point.loss.assign(3, 0.5);
      points.push_back(std::move(point));
    }
  }
  CounterRng rng({.seed = seed});
  rng.shuffle(std::span(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].client = ClientId(static_cast<int>(i));
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
