#include "apo/federation/local_training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/optimizer.hpp"
#include "apo/federation/round_activity.hpp"

namespace apo::federation {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double dot(std::span<const float> a, std::span<const float> b) {
  // Eight independent partial sums: a fixed order that the compiler can keep in registers.
  std::array<double, 8> partial{};
  std::size_t k = 0;
  for (; k + 8 <= a.size(); k += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      partial[lane] += static_cast<double>(a[k + lane]) * static_cast<double>(b[k + lane]);
    }
  }
  for (; k < a.size(); ++k) {
    partial[0] += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  }
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

bool all_finite(const objective::Evaluation& evaluation, std::span<const double> gram) {
  for (std::size_t j = 0; j < evaluation.loss.size(); ++j) {
    if (evaluation.num_pairs[j] > 0 && !std::isfinite(evaluation.loss[j])) {
      return false;
    }
  }
  return std::all_of(gram.begin(), gram.end(), [](double x) { return std::isfinite(x); });
}

/// The preference on the objectives that the batch holds, renormalised; 0 elsewhere.
std::vector<double> present_preference(const data::Client& client, const objective::Batch& batch) {
  std::vector<double> weights(client.preference.size(), 0.0);
  double mass = 0.0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (!batch.pairs[j].empty()) {
      weights[j] = client.preference[j];
      mass += weights[j];
    }
  }
  for (double& x : weights) {
    x /= mass;
  }
  return weights;
}

/// Gram entries of absent objectives are not zeros that were measured.
void blank_absent(const objective::Evaluation& evaluation, std::vector<double>& gram) {
  const std::size_t m = evaluation.loss.size();
  for (std::size_t j = 0; j < m; ++j) {
    if (evaluation.num_pairs[j] > 0) {
      continue;
    }
    for (std::size_t i = 0; i < m; ++i) {
      gram[j * m + i] = kNaN;
      gram[i * m + j] = kNaN;
    }
  }
}

}  // namespace

std::vector<double> gram_matrix(std::span<const float> gradients, int m) {
  const auto rows = static_cast<std::size_t>(m);
  const std::size_t p = gradients.size() / rows;
  std::vector<double> gram(rows * rows);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = i; j < rows; ++j) {
      gram[i * rows + j] = dot(gradients.subspan(i * p, p), gradients.subspan(j * p, p));
      gram[j * rows + i] = gram[i * rows + j];
    }
  }
  return gram;
}

void combine(std::span<const float> gradients, std::span<const double> weight,
             std::span<float> direction) {
  const std::size_t p = direction.size();
  std::fill(direction.begin(), direction.end(), 0.0F);
  for (std::size_t j = 0; j < weight.size(); ++j) {
    const auto factor = static_cast<float>(weight[j]);
    if (factor == 0.0F) {
      continue;
    }
    const float* row = gradients.data() + j * p;
    for (std::size_t k = 0; k < p; ++k) {
      direction[k] += factor * row[k];
    }
  }
}

direction::Direction solve_direction(direction::DirectionSolver& solver,
                                     const objective::Evaluation& evaluation,
                                     std::span<const double> gram,
                                     std::span<const double> preference,
                                     const SolveOptions& options, StepRecord& record) {
  const std::size_t m = preference.size();
  std::vector<std::size_t> present;
  double mass = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    if (evaluation.num_pairs[j] > 0) {
      present.push_back(j);
      mass += preference[j];
    }
  }
  expects(!present.empty(), "solve_direction: a batch without pairs");
  const std::size_t k = present.size();
  std::vector<double> loss(k);
  std::vector<double> lambda(k);
  std::vector<double> standard_error(k, 0.0);
  std::vector<double> c(k * k);
  for (std::size_t a = 0; a < k; ++a) {
    loss[a] = evaluation.loss[present[a]];
    lambda[a] = preference[present[a]] / mass;
    if (!evaluation.loss_variance.empty()) {
      standard_error[a] =
          std::sqrt(evaluation.loss_variance[present[a]] / evaluation.num_pairs[present[a]]);
    }
    for (std::size_t b = 0; b < k; ++b) {
      c[a * k + b] = gram[present[a] * m + present[b]];
    }
  }
  direction::Problem problem{loss, c, lambda, options.force_balancing};
  problem.noise_uniformity = direction::beta_noise(loss, standard_error);
  problem.was_uniform = options.was_uniform;
  problem.random_key = options.random_key;
  direction::Direction d = solver.solve(problem);
  record.mu.assign(m, 0.0);
  record.weight.assign(m, 0.0);
  record.adjustment.assign(m, 0.0);
  for (std::size_t a = 0; a < k; ++a) {
    record.mu[present[a]] = d.mu[a];
    record.weight[present[a]] = d.weight[a];
    record.adjustment[present[a]] = d.adjustment[a];
  }
  record.uniformity = d.uniformity;
  record.mode = static_cast<int>(d.mode);
  record.gamma = d.gamma;
  record.chebyshev = d.chebyshev;
  record.direction_norm = d.direction_norm;
  record.lp_status = static_cast<int>(d.lp_status);
  record.nonunique = d.nonunique;
  record.min_slack = d.min_slack;
  record.num_ascending = d.num_ascending;
  record.num_aligned = d.num_aligned;
  record.num_aligned_ascending = d.num_aligned_ascending;
  record.losses_floored = d.losses_floored;
  record.num_missing = static_cast<int>(m - k);
  record.kappa_lp = d.kappa_lp;
  record.basis_id = d.basis_id;
  return d;
}

LocalResult train_client(objective::ObjectiveSet& objectives, direction::DirectionSolver& solver,
                         const data::Client& client, const data::Pool& pool,
                         std::span<const int> text_of_pair, std::span<const float> start,
                         const LocalOptions& options, const StreamKey& batches,
                         std::uint64_t step_key, const StepRecord& record) {
  const auto activity = client_activity(record.phase, record.round, record.cluster, client);
  const int m = objectives.num_objectives();
  const std::size_t p = start.size();
  LocalResult result;
  result.parameters.assign(start.begin(), start.end());
  const bool one_by_one = !solver.weighs_by_preference();
  std::vector<float> gradients(one_by_one ? static_cast<std::size_t>(m) * p : 0);
  std::vector<float> direction(p);
  AdamWState adam;
  BatchSampler sampler(pool, batches, text_of_pair);
  bool was_uniform = options.was_uniform;
  for (int k = 0; k < options.steps; ++k) {
    comm::note_progress();
    const Stopwatch watch;
    StepRecord row = record;
    row.client = client.id.value;
    row.step = k;
    const objective::Batch batch{
        client.id,
        sampler.next(options.fresh_shots > 0 ? options.fresh_shots : options.batch_pairs)};
    const objective::StepKey key{batches.seed, static_cast<std::uint64_t>(client.id.value),
                                 step_key + static_cast<std::uint64_t>(k)};
    objective::Evaluation evaluation;
    if (one_by_one) {
      evaluation = objectives.gradients(result.parameters, batch, key, gradients);
      row.gram = gram_matrix(gradients, m);
    } else {
      evaluation = objectives.weighted_gradient(result.parameters, batch, key,
                                                present_preference(client, batch), direction);
      row.gram.assign(static_cast<std::size_t>(m) * static_cast<std::size_t>(m), 0.0);
    }
    row.loss = evaluation.loss;
    row.accuracy = evaluation.accuracy;
    row.finite = all_finite(evaluation, row.gram) && std::isfinite(norm(direction));
    if (!row.finite) {
      // The client leaves the round: a half-taken update would poison the cluster's mean.
      row.mu.assign(static_cast<std::size_t>(m), 0.0);
      row.weight.assign(static_cast<std::size_t>(m), 0.0);
      row.adjustment.assign(static_cast<std::size_t>(m), 0.0);
      result.steps.push_back(std::move(row));
      result.finite = false;
      result.parameters.assign(start.begin(), start.end());
      return result;
    }
    if (!one_by_one) {
      row.gram.assign(row.gram.size(), kNaN);
    }
    const SolveOptions solve{
        options.force_balancing, was_uniform,
        CounterRng({batches.seed, Purpose::kDirection, key.client, key.step}).next_u64()};
    direction::Direction solution =
        solve_direction(solver, evaluation, row.gram, client.preference, solve, row);
    was_uniform = solution.mode == direction::Mode::kUniform;
    if (one_by_one) {
      blank_absent(evaluation, row.gram);
      combine(gradients, row.weight, direction);
      if (k == 0 && options.keep_first && row.num_missing == 0) {
        result.first = {gradients, std::move(solution)};
      }
    } else {
      row.direction_norm = norm(direction);
    }
    if (options.optimizer == "adamw") {
      clip_by_norm(direction, options.clip);
      adamw_step(result.parameters, direction, adam, {.learning_rate = options.learning_rate});
    } else {
      sgd_step(result.parameters, direction, options.learning_rate);
    }
    row.seconds = watch.seconds();
    result.steps.push_back(std::move(row));
  }
  return result;
}

}  // namespace apo::federation
