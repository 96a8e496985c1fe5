#pragma once

/// @file
/// What the tests of the theory monitor and of its audits share: heterogeneous clients on float32
/// quadratics, the same clients as float64 vectors, and access to the tables.

#include <algorithm>
#include <cmath>
#include <vector>

#include "quadratic_objectives.hpp"
#include "support/mpi_world.hpp"
#include "theory_cluster.hpp"
#include <gtest/gtest.h>

#include "apo/federation/local_training.hpp"
#include "apo/federation/placement.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation::testing {

/// Clients with random centres, everything different, on unit quadratics.
struct Population {
  Population(int n, int m, int p, double spread, bool common_preference = false) {
    CounterRng rng({31, Purpose::kTest});
    std::vector<std::vector<float>> shared(static_cast<std::size_t>(m));
    for (auto& center : shared) {
      for (int k = 0; k < p; ++k) {
        center.push_back(static_cast<float>(rng.normal() / std::sqrt(p)));
      }
    }
    std::vector<int> pairs;
    for (int i = 0; i < n; ++i) {
      centers.push_back(shared);
      for (auto& center : centers.back()) {
        for (float& x : center) {
          x += static_cast<float>(spread * rng.normal() / std::sqrt(p));
        }
      }
      preferences.push_back(common_preference && i > 0
                                ? preferences.front()
                                : random_preference(rng, static_cast<std::size_t>(m)));
      pairs.push_back(2 + i % 3);
    }
    // Near the centres' mean, where the objectives conflict and the LP's weights are no vertices.
    for (int k = 0; k < p; ++k) {
      double mean = 0.3 * rng.normal() / std::sqrt(p);
      for (const auto& center : shared) {
        mean += static_cast<double>(center[static_cast<std::size_t>(k)]) / m;
      }
      w.push_back(static_cast<float>(mean));
    }
    partition = make_clients(preferences, pairs);
  }

  [[nodiscard]] QuadraticObjectives objectives() const { return {centers, 1.0, 0.1}; }

  std::vector<std::vector<std::vector<float>>> centers;  // [N][m][P]
  std::vector<Vec> preferences;
  std::vector<float> w;
  data::Partition partition;
};

/// LP (4) with a tolerance that leaves some of the clients uniform.
inline direction::DirectionOptions mixed_modes() {
  direction::DirectionOptions options;
  options.beta_tolerance = 0.15;
  return options;
}

inline std::vector<int> all_clients(int n) {
  std::vector<int> ids;
  for (int i = 0; i < n; ++i) {
    ids.push_back(i);
  }
  return ids;
}

/// The clients as float64 vectors, from the same float32 gradients.
inline ExplicitCluster explicit_cluster(const Population& people,
                                        direction::DirectionSolver& solver) {
  QuadraticObjectives objectives = people.objectives();
  const std::size_t p = people.w.size();
  std::vector<ExplicitClient> clients;
  double mass = 0.0;
  for (const data::Client& client : people.partition.clients) {
    const std::size_t m = client.preference.size();
    std::vector<float> g(m * p);
    ExplicitClient c;
    c.loss = objectives.gradients(people.w, {client.id, client.train}, {}, g).loss;
    c.preference = client.preference;
    c.rho = static_cast<double>(client.num_pairs());
    mass += c.rho;
    for (std::size_t j = 0; j < m; ++j) {
      c.gradients.emplace_back(g.begin() + static_cast<std::ptrdiff_t>(j * p),
                               g.begin() + static_cast<std::ptrdiff_t>((j + 1) * p));
    }
    clients.push_back(std::move(c));
  }
  for (ExplicitClient& c : clients) {
    c.rho /= mass;
  }
  return testing::solve_cluster(std::move(clients), solver);
}

/// One rank per team: everybody computes alone.
inline comm::ClusterCommunicator alone() {
  return comm::ClusterCommunicator::split(test::world(), test::world().rank(), comm::Backend::kMpi);
}

inline TheorySetting setting() {
  TheorySetting s;
  s.cluster = 2;
  s.start_round = 7;
  s.round = 5;
  s.learning_rate = 0.05;
  s.local_steps = 2;
  s.smoothness = 1.0;
  return s;
}

inline std::vector<double> reals(const Table& table, const char* name) {
  return std::get<std::vector<double>>(table.find(name)->values);
}
inline std::vector<std::int64_t> wholes(const Table& table, const char* name) {
  return std::get<std::vector<std::int64_t>>(table.find(name)->values);
}

/// Whether some weight is neither 0 nor 1: only then do sums depend on their order.
inline bool has_mixed_weights(const RoundReport& report) {
  const std::vector<double> mu = reals(report.theory_clients, "mu");
  return std::any_of(mu.begin(), mu.end(), [](double x) { return x > 0.01 && x < 0.99; });
}

inline void expect_same_bits(const RoundReport& a, const RoundReport& b) {
  EXPECT_EQ(pack(a.theory_round), pack(b.theory_round));
  EXPECT_EQ(pack(a.theory_clients), pack(b.theory_clients));
  EXPECT_EQ(pack(a.theory_pairs), pack(b.theory_pairs));
}

/// What both the monitor and the audit must report of the cluster.
inline void expect_cluster(const RoundReport& report, const ExplicitCluster& cluster) {
  const Table& rows = report.theory_clients;
  ASSERT_EQ(rows.num_rows(), static_cast<std::int64_t>(cluster.clients.size()));
  const std::vector<double> product = reals(rows, "product");
  double dispersion = 0.0;
  double balancing = 0.0;
  for (const ExplicitClient& c : cluster.clients) {
    balancing += c.direction.mode == direction::Mode::kBalancing ? c.rho : 0.0;
  }
  ASSERT_GT(balancing, 0.0);
  ASSERT_LT(balancing, 1.0);  // a mixed cluster
  EXPECT_NEAR(reals(report.theory_round, "balancing_mass")[0], balancing, 1e-14);
  for (std::size_t i = 0; i < cluster.clients.size(); ++i) {
    const ExplicitClient& c = cluster.clients[i];
    const std::size_t m = c.gradients.size();
    EXPECT_NEAR(reals(rows, "weight")[i], c.rho, 1e-14);
    EXPECT_NEAR(reals(rows, "deviation")[i], length(difference(cluster.mean, c.d)), 1e-9);
    EXPECT_NEAR(reals(rows, "deviation_split")[i],
                balancing * length(difference(cluster.balancing, c.d)) +
                    (1.0 - balancing) * length(difference(cluster.uniform, c.d)),
                1e-9);
    EXPECT_NEAR(reals(rows, "margin")[i], inner(c.d, c.d_bal), 1e-12);
    EXPECT_NEAR(reals(rows, "balancing_product")[i], inner(cluster.mean, c.d_bal), 1e-12);
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_NEAR(product[i * m + j], inner(cluster.mean, c.gradients[j]), 1e-12);
    }
    const Vec x = difference(cluster.mean, c.d);
    dispersion += c.rho * inner(x, x);
  }
  EXPECT_NEAR(reals(report.theory_round, "dispersion")[0], dispersion, 1e-12);
  EXPECT_NEAR(reals(report.theory_round, "dispersion_from_norms")[0], dispersion, 1e-12);
  EXPECT_NEAR(reals(report.theory_round, "aggregate_norm")[0], length(cluster.mean), 1e-12);
  EXPECT_NEAR(reals(report.theory_round, "gradient_bound")[0], cluster.bound(), 1e-12);
}

}  // namespace apo::federation::testing
