#pragma once

/// @file
/// Rounds of the server-centric methods in plain float64, from algorithms.md 3.6.

#include <string>

#include "baseline_fixture.hpp"
#include <gtest/gtest.h>

namespace apo::federation::testing {

/// Mean gradients at w over the participants that have each objective.
inline std::vector<Vector> mean_gradients(const Federation& f, const Vector& w) {
  std::vector<Vector> mean(f.m(), Vector(f.p(), 0.0));
  for (std::size_t j = 0; j < f.m(); ++j) {
    double count = 0.0;
    for (const int id : f.participants) {
      count += has(f, id, j) ? 1.0 : 0.0;
    }
    for (const int id : f.participants) {
      if (has(f, id, j)) {
        axpy(1.0 / count, gradient_of(f, id, j, w), mean[j]);
      }
    }
  }
  return mean;
}

/// All clients along the same weights, then the plain mean of their deltas.
inline void server_centric_round(const Federation& f, const Vector& weights, Vector& w) {
  Vector mean(f.p(), 0.0);
  for (const int id : f.participants) {
    axpy(1.0 / static_cast<double>(f.participants.size()), local_delta(f, id, weights, w), mean);
  }
  axpy(f.phase1.server_learning_rate, mean, w);
}

/// FedCMOO's weights: the Gram matrix over (mean_j sqrt(C_jj + 1e-4))^2, then plain projected
/// steps.
inline Vector tracked(const Federation& f, const std::vector<Vector>& gram, Vector weights) {
  double mean_norm = 0.0;
  for (std::size_t j = 0; j < gram.size(); ++j) {
    mean_norm += std::sqrt(gram[j][j] + 1e-4) / static_cast<double>(gram.size());
  }
  for (int step = 0; step < f.baseline.weight_steps; ++step) {
    Vector moved = weights;
    for (std::size_t j = 0; j < gram.size(); ++j) {
      moved[j] -= f.baseline.weight_learning_rate * dot(gram[j], weights) / (mean_norm * mean_norm);
    }
    weights = project(moved, Vector(gram.size(), 0.0), Vector(gram.size(), 1.0));
  }
  return weights;
}

inline void expect_near(const std::vector<double>& actual, const Vector& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(actual[k], expected[k], tolerance) << what << ", entry " << k;
  }
}

}  // namespace apo::federation::testing
