#pragma once

/// @file
/// A cluster of clients with explicit float64 gradient vectors: the oracle of the theory tests.
/// Everything here is computed from the vectors, never from Gram matrices.

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "apo/core/balance.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/theory_conditions.hpp"

namespace apo::federation::testing {

using Vec = std::vector<double>;

inline double inner(const Vec& a, const Vec& b) {
  long double sum = 0.0L;
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += static_cast<long double>(a[k]) * static_cast<long double>(b[k]);
  }
  return static_cast<double>(sum);
}
inline double length(const Vec& a) { return std::sqrt(inner(a, a)); }
inline Vec combine(const std::vector<Vec>& columns, const Vec& weight) {
  Vec sum(columns[0].size(), 0.0);
  for (std::size_t j = 0; j < columns.size(); ++j) {
    for (std::size_t k = 0; k < sum.size(); ++k) {
      sum[k] += weight[j] * columns[j][k];
    }
  }
  return sum;
}
inline Vec difference(const Vec& a, const Vec& b) {
  Vec result = a;
  for (std::size_t k = 0; k < a.size(); ++k) {
    result[k] -= b[k];
  }
  return result;
}

/// Losses l_j(w) = scale/2 ||w - r e_j - shift||^2 + offset (T-D, T-I).
struct Quadratics {
  double scale = 1.0;
  double radius = 1.0;
  double offset = 0.1;
  int m = 3;
  Vec shift;

  [[nodiscard]] Vec away(const Vec& w, int j) const {
    Vec x = difference(w, shift);
    x[static_cast<std::size_t>(j)] -= radius;
    return x;
  }
  [[nodiscard]] Vec losses(const Vec& w) const {
    Vec l;
    for (int j = 0; j < m; ++j) {
      const Vec x = away(w, j);
      l.push_back(0.5 * scale * inner(x, x) + offset);
    }
    return l;
  }
  [[nodiscard]] std::vector<Vec> gradients(const Vec& w) const {
    std::vector<Vec> g;
    for (int j = 0; j < m; ++j) {
      g.push_back(away(w, j));
      for (double& x : g.back()) {
        x *= scale;
      }
    }
    return g;
  }
};

/// One client as vectors.
struct ExplicitClient {
  Vec preference;
  double rho = 0.0;
  Vec loss;
  std::vector<Vec> gradients;  ///< [m][P]
  direction::Direction direction;
  Vec d;      ///< the client's direction
  Vec d_bal;  ///< sum_j A_j g_j
};

struct ExplicitCluster {
  std::vector<ExplicitClient> clients;
  Vec mean;       ///< dbar
  Vec uniform;    ///< dbar0; empty without uniform clients
  Vec balancing;  ///< dbar+

  [[nodiscard]] double bound() const {
    double b = 0.0;
    for (const ExplicitClient& c : clients) {
      for (const Vec& g : c.gradients) {
        b = std::max(b, length(g));
      }
    }
    return b;
  }
};

inline Vec gram_of(const std::vector<Vec>& gradients) {
  Vec gram;
  for (const Vec& a : gradients) {
    for (const Vec& b : gradients) {
      gram.push_back(inner(a, b));
    }
  }
  return gram;
}

/// Solves every client's direction and averages.
inline ExplicitCluster solve_cluster(std::vector<ExplicitClient> clients,
                                     direction::DirectionSolver& solver) {
  ExplicitCluster cluster;
  const std::size_t p = clients[0].gradients[0].size();
  cluster.mean.assign(p, 0.0);
  Vec blocks[2] = {Vec(p, 0.0), Vec(p, 0.0)};
  double mass[2] = {0.0, 0.0};
  for (ExplicitClient& c : clients) {
    const Vec gram = gram_of(c.gradients);
    c.direction = solver.solve({c.loss, gram, c.preference});
    c.d = combine(c.gradients, c.direction.weight);
    c.d_bal = combine(c.gradients, c.direction.adjustment);
    const std::size_t block = c.direction.mode == direction::Mode::kUniform ||
                                      c.direction.mode == direction::Mode::kStationary
                                  ? 1
                                  : 0;
    mass[block] += c.rho;
    for (std::size_t k = 0; k < p; ++k) {
      cluster.mean[k] += c.rho * c.d[k];
      blocks[block][k] += c.rho * c.d[k];
    }
  }
  for (std::size_t b = 0; b < 2; ++b) {
    for (double& x : blocks[b]) {
      x /= mass[b] > 0.0 ? mass[b] : 1.0;
    }
  }
  cluster.balancing = mass[0] > 0.0 ? blocks[0] : Vec();
  cluster.uniform = mass[1] > 0.0 ? blocks[1] : Vec();
  cluster.clients = std::move(clients);
  return cluster;
}

/// What the conditions are given of a cluster; deviations by the formula from products.
inline std::vector<ClientTerms> terms_of(const ExplicitCluster& cluster) {
  std::vector<ClientTerms> all;
  for (const ExplicitClient& c : cluster.clients) {
    ClientTerms t;
    t.client = static_cast<int>(all.size());
    t.rho = c.rho;
    t.loss = c.loss;
    t.preference = c.preference;
    t.gram = gram_of(c.gradients);
    t.direction = c.direction;
    const auto products = [&](const Vec& a) {
      Vec v;
      for (const Vec& g : c.gradients) {
        v.push_back(inner(g, a));
      }
      return v;
    };
    const auto deviation = [&](const Vec& a) {
      return a.empty() ? kUndefined
                       : deviation_from_products(length(a), products(a), c.direction.weight, t.gram)
                             .value;
    };
    t.product = products(cluster.mean);
    t.deviation = deviation(cluster.mean);
    t.deviation_uniform = deviation(cluster.uniform);
    t.deviation_balancing = deviation(cluster.balancing);
    all.push_back(std::move(t));
  }
  return all;
}

/// Adds the losses after the step w - eta dbar.
inline void add_step(std::vector<ClientTerms>& terms, const ExplicitCluster& cluster, const Vec& w,
                     double eta, const std::function<Vec(std::size_t client, const Vec& w)>& losses,
                     SharedTerms& shared) {
  Vec after = w;
  for (std::size_t k = 0; k < w.size(); ++k) {
    after[k] -= eta * cluster.mean[k];
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i].loss_after = losses(i, after);
    terms[i].product_taken = terms[i].product;
  }
  shared.norm = shared.norm_taken = length(cluster.mean);
  shared.learning_rate = eta;
}

inline Vec random_preference(CounterRng& rng, std::size_t m) {
  const Vec alpha(m, 1.5);
  Vec lambda = rng.dirichlet(alpha);
  double sum = 0.0;
  for (double& x : lambda) {
    x = std::max(x, 0.02);
    sum += x;
  }
  for (double& x : lambda) {
    x /= sum;
  }
  return lambda;
}

/// n clients of shifted T-D quadratics at a random point.
struct QuadraticCase {
  std::vector<Quadratics> problems;
  Vec w;
  ExplicitCluster cluster;

  [[nodiscard]] Vec losses(std::size_t client, const Vec& x) const {
    return problems[client].losses(x);
  }
};

inline QuadraticCase random_quadratics(CounterRng& rng, int n, int m, double spread,
                                       direction::DirectionSolver& solver,
                                       bool common_preference = false) {
  QuadraticCase result;
  const std::size_t p = static_cast<std::size_t>(m) + 3;
  for (std::size_t k = 0; k < p; ++k) {
    result.w.push_back(0.7 * rng.normal());
  }
  std::vector<ExplicitClient> clients;
  double mass = 0.0;
  const Vec shared_preference = random_preference(rng, static_cast<std::size_t>(m));
  for (int i = 0; i < n; ++i) {
    Quadratics q;
    q.m = m;
    for (std::size_t k = 0; k < p; ++k) {
      q.shift.push_back(spread * rng.normal());
    }
    ExplicitClient c;
    c.preference =
        common_preference ? shared_preference : random_preference(rng, static_cast<std::size_t>(m));
    c.rho = 0.2 + rng.uniform();
    mass += c.rho;
    c.loss = q.losses(result.w);
    c.gradients = q.gradients(result.w);
    clients.push_back(std::move(c));
    result.problems.push_back(std::move(q));
  }
  for (ExplicitClient& c : clients) {
    c.rho /= mass;
  }
  result.cluster = solve_cluster(std::move(clients), solver);
  return result;
}

inline std::unique_ptr<direction::DirectionSolver> lp(double beta_tolerance = 1e-10) {
  direction::DirectionOptions options;
  options.beta_tolerance = beta_tolerance;
  options.ascent_tolerance = 1e-12;
  return direction::make_solver(options);
}

/// Quadratics, their terms with the losses after the step, and what all clients share.
struct Round {
  QuadraticCase quadratics;
  std::vector<ClientTerms> terms;
  SharedTerms shared;
};

inline Round make_round(CounterRng& rng, int n, int m, double spread, double eta,
                        direction::DirectionSolver& solver, bool common_preference = false) {
  Round round;
  round.quadratics = random_quadratics(rng, n, m, spread, solver, common_preference);
  round.terms = terms_of(round.quadratics.cluster);
  round.shared.smoothness = 1.0;
  add_step(
      round.terms, round.quadratics.cluster, round.quadratics.w, eta,
      [&](std::size_t i, const Vec& x) { return round.quadratics.losses(i, x); }, round.shared);
  return round;
}

}  // namespace apo::federation::testing
