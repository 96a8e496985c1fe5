#pragma once

/// @file
/// Rounds of the comparison methods on federated quadratics, and plain float64 re-implementations
/// of their parts that share no code with them.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quadratic_objectives.hpp"
#include "support/mpi_world.hpp"

#include "apo/core/rng.hpp"
#include "apo/federation/round_scheme.hpp"

namespace apo::federation::testing {

using Vector = std::vector<double>;

/// Losses of another set, NaN where `poisoned` says so: a client that fails in the middle.
class FailingObjectives final : public objective::ObjectiveSet {
 public:
  using Predicate = std::function<bool(int client, std::span<const float> parameters)>;
  FailingObjectives(objective::ObjectiveSet& inner, Predicate poisoned)
      : inner_(inner), poisoned_(std::move(poisoned)) {}

  [[nodiscard]] int num_objectives() const override { return inner_.num_objectives(); }
  [[nodiscard]] std::int64_t num_parameters() const override { return inner_.num_parameters(); }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const override {
    return inner_.initial_parameters(seed);
  }
  [[nodiscard]] objective::Evaluation evaluate(std::span<const float> w,
                                               const objective::Batch& batch) override {
    return poison(inner_.evaluate(w, batch), w, batch);
  }
  [[nodiscard]] objective::Evaluation gradients(std::span<const float> w,
                                                const objective::Batch& batch,
                                                const objective::StepKey& key,
                                                std::span<float> gradients) override {
    return poison(inner_.gradients(w, batch, key, gradients), w, batch);
  }
  [[nodiscard]] objective::Evaluation weighted_gradient(std::span<const float> w,
                                                        const objective::Batch& batch,
                                                        const objective::StepKey& key,
                                                        std::span<const double> weights,
                                                        std::span<float> gradient) override {
    return poison(inner_.weighted_gradient(w, batch, key, weights, gradient), w, batch);
  }

 private:
  [[nodiscard]] objective::Evaluation poison(objective::Evaluation evaluation,
                                             std::span<const float> w,
                                             const objective::Batch& batch) const {
    if (poisoned_(batch.client.value, w)) {
      evaluation.loss.assign(evaluation.loss.size(), std::nan(""));
    }
    return evaluation;
  }

  objective::ObjectiveSet& inner_;
  Predicate poisoned_;
};

/// Clients of l_i^(j)(w) = scale/2 ||w - c_ij||^2 + offset and the options of their training.
struct Federation {
  std::vector<std::vector<std::vector<float>>> centers;  ///< [N][m][P]
  double scale = 1.0;
  double offset = 0.2;
  data::Partition partition;
  Phase1Options phase1;
  BaselineOptions baseline;
  direction::DirectionOptions direction;
  bool ordered = true;
  std::vector<int> participants;
  double learning_rate = 0.125;

  [[nodiscard]] std::size_t m() const { return centers[0].size(); }
  [[nodiscard]] std::size_t p() const { return centers[0][0].size(); }
};

inline constexpr std::uint64_t kSeed = 42;

/// Seven clients with random centres and preferences and 2 to 10 pairs per objective; client 3
/// lacks objective 1. Five of them take part.
inline Federation random_federation(int m, int p, std::uint64_t seed = 11) {
  Federation f;
  CounterRng rng({seed, Purpose::kTest});
  std::vector<std::vector<double>> preferences;
  f.centers.resize(7);
  for (auto& client : f.centers) {
    for (int j = 0; j < m; ++j) {
      client.emplace_back();
      for (int k = 0; k < p; ++k) {
        client.back().push_back(static_cast<float>(rng.normal() + (k == j ? 2.0 : 0.0)));
      }
    }
    preferences.push_back(rng.dirichlet(Vector(static_cast<std::size_t>(m), 2.0)));
  }
  f.partition = make_clients(preferences, {3, 5, 4, 10, 6, 7, 2});
  if (m > 1) {
    f.partition.clients[3].train[1].clear();
  }
  f.phase1.local_steps = 3;
  f.phase1.batch_size = 4;
  f.phase1.gradient_accumulation = 1;
  f.phase1.optimizer = "sgd";
  f.participants = {0, 2, 3, 4, 6};
  return f;
}

struct Outcome {
  std::vector<float> parameters;
  std::vector<double> memory;
  std::vector<RoundReport> reports;
};

inline RoundPlan plan_of(const Federation& f, int round) {
  RoundPlan plan;
  plan.round = round;
  plan.cluster_key = 77;
  plan.round_key = (std::uint64_t{1} << 56) | static_cast<std::uint64_t>(round);
  plan.learning_rate = f.learning_rate;
  plan.participants = f.participants;
  for (const data::Client& client : f.partition.clients) {
    plan.members.push_back(client.id.value);
  }
  return plan;
}

/// A scheme with everything that it holds references to.
class Session {
 public:
  /// @param alone  a team of this rank only, instead of all ranks
  Session(const Federation& f, const std::string& name, bool alone = false,
          FailingObjectives::Predicate poisoned = nullptr)
      : federation_(f),
        quadratics_(f.centers, f.scale, f.offset),
        failing_(
            quadratics_,
            poisoned ? std::move(poisoned) : [](int, std::span<const float>) { return false; }),
        solver_(direction::make_solver(f.direction)),
        team_(comm::ClusterCommunicator::split(test::world(), alone ? test::world().rank() : 0,
                                               comm::Backend::kMpi)) {
    MonitorOptions monitor;
    monitor.theory = false;
    RoundResources resources{
        federation_.partition, failing_, *solver_, team_,    f.phase1, f.baseline,
        f.direction,           monitor,  kSeed,    f.ordered};
    scheme_ = name == "local_steps" ? make_local_steps_scheme(std::move(resources))
                                    : make_baseline_scheme(name, std::move(resources));
  }

  [[nodiscard]] RoundScheme& scheme() { return *scheme_; }

  [[nodiscard]] Outcome run(int rounds, std::optional<std::vector<float>> start = std::nullopt) {
    Outcome outcome;
    outcome.parameters = start ? *start : scheme_->initial_parameters(77);
    for (int r = 0; r < rounds; ++r) {
      outcome.reports.push_back(
          scheme_->run(plan_of(federation_, r), outcome.parameters, outcome.memory));
    }
    return outcome;
  }

 private:
  Federation federation_;
  QuadraticObjectives quadratics_;
  FailingObjectives failing_;
  std::unique_ptr<direction::DirectionSolver> solver_;
  comm::ClusterCommunicator team_;
  std::unique_ptr<RoundScheme> scheme_;
};

// ---- the plain re-implementation
// -----------------------------------------------------------------

inline Vector gradient_of(const Federation& f, int client, std::size_t j, const Vector& w) {
  Vector g(w.size());
  for (std::size_t k = 0; k < w.size(); ++k) {
    const double c = f.centers[static_cast<std::size_t>(client)][j][k];
    g[k] = f.scale * (w[k] - c);
  }
  return g;
}

inline double loss_of(const Federation& f, int client, std::size_t j, const Vector& w) {
  double loss = f.offset;
  for (std::size_t k = 0; k < w.size(); ++k) {
    const double x = w[k] - f.centers[static_cast<std::size_t>(client)][j][k];
    loss += 0.5 * f.scale * x * x;
  }
  return loss;
}

inline bool has(const Federation& f, int client, std::size_t j) {
  return !f.partition.clients[static_cast<std::size_t>(client)].train[j].empty();
}

inline double dot(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// The client's delta after all local steps on sum_j w_j l_j, w renormalised on what it has.
/// @param unit  gradients scaled to norm 1
inline Vector local_delta(const Federation& f, int client, const Vector& weights,
                          const Vector& start, bool unit = false) {
  double mass = 0.0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    mass += has(f, client, j) ? weights[j] : 0.0;
  }
  Vector w = start;
  Vector first(w.size(), 0.0);
  Vector second(w.size(), 0.0);
  for (int t = 1; t <= f.phase1.local_steps; ++t) {
    Vector d(w.size(), 0.0);
    for (std::size_t j = 0; j < weights.size() && mass > 0.0; ++j) {
      if (has(f, client, j)) {
        const Vector g = gradient_of(f, client, j, w);
        for (std::size_t k = 0; k < w.size(); ++k) {
          d[k] += weights[j] / mass * g[k];
        }
      }
    }
    const double length = std::sqrt(dot(d, d));
    for (double& x : d) {
      x /= unit && length > 0.0 ? length : 1.0;
    }
    if (f.phase1.optimizer == "sgd") {
      for (std::size_t k = 0; k < w.size(); ++k) {
        w[k] -= f.learning_rate * d[k];
      }
      continue;
    }
    const double clip = f.phase1.gradient_clip;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (std::sqrt(dot(d, d)) + 1e-6)) : 1.0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const double g = factor * d[k];
      first[k] = 0.9 * first[k] + 0.1 * g;
      second[k] = 0.999 * second[k] + 0.001 * g * g;
      w[k] -= f.learning_rate * (first[k] / (1.0 - std::pow(0.9, t))) /
              (std::sqrt(second[k] / (1.0 - std::pow(0.999, t))) + 1e-8);
    }
  }
  for (std::size_t k = 0; k < w.size(); ++k) {
    w[k] -= start[k];
  }
  return w;
}

/// Projection onto { sum x = 1, low <= x <= high } by bisection on the shift.
inline Vector project(const Vector& values, const Vector& low, const Vector& high) {
  double a = *std::min_element(values.begin(), values.end()) - 1.0;  // everything at its bound
  double b = *std::max_element(values.begin(), values.end());
  const auto at = [&](double shift) {
    Vector x(values.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::clamp(values[i] - shift, low[i], high[i]);
    }
    return x;
  };
  for (int step = 0; step < 52; ++step) {
    const double middle = 0.5 * (a + b);
    const Vector x = at(middle);
    (std::accumulate(x.begin(), x.end(), 0.0) > 1.0 ? a : b) = middle;
  }
  return at(0.5 * (a + b));
}

/// argmin x'Kx over a box on the simplex, by projected gradients.
inline Vector box_oracle(const std::vector<Vector>& k, const Vector& low, const Vector& high,
                         int steps = 3000) {
  const std::size_t n = k.size();
  double bound = 0.0;  // of the largest eigenvalue
  for (std::size_t i = 0; i < n; ++i) {
    bound += k[i][i];
  }
  Vector x = project(Vector(n, 1.0 / static_cast<double>(n)), low, high);
  for (int step = 0; step < steps; ++step) {
    Vector moved(n);
    for (std::size_t i = 0; i < n; ++i) {
      moved[i] = x[i] - dot(k[i], x) / bound;
    }
    x = project(moved, low, high);
  }
  return x;
}

inline std::vector<Vector> gram_of_rows(const std::vector<Vector>& rows) {
  std::vector<Vector> gram(rows.size(), Vector(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) {
      gram[i][j] = dot(rows[i], rows[j]);
    }
  }
  return gram;
}

inline Vector min_norm_oracle(const std::vector<Vector>& rows) {
  return box_oracle(gram_of_rows(rows), Vector(rows.size(), 0.0), Vector(rows.size(), 1.0));
}

inline void axpy(double a, const Vector& x, Vector& y) {
  for (std::size_t k = 0; k < y.size(); ++k) {
    y[k] += a * x[k];
  }
}

inline Vector widen(const std::vector<float>& values) {
  return Vector(values.begin(), values.end());
}

}  // namespace apo::federation::testing
