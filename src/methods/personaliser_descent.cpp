#include "personaliser_descent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "apo/core/balance.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/round_activity.hpp"

namespace apo::methods {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Balance quantities over the objectives that are present, against the client's preference.
void add_balance(const objective::Evaluation& evaluation, const data::Client& client,
                 federation::StepRecord& row) {
  std::vector<double> loss;
  std::vector<double> preference;
  double mass = 0.0;
  for (std::size_t j = 0; j < evaluation.loss.size(); ++j) {
    if (evaluation.num_pairs[j] > 0) {
      loss.push_back(evaluation.loss[j]);
      preference.push_back(client.preference[j]);
      mass += client.preference[j];
    }
  }
  for (std::size_t k = 0; k < loss.size(); ++k) {
    preference[k] /= mass;
    row.chebyshev = std::max(row.chebyshev, preference[k] * loss[k]);
  }
  const Balance balanced = balance(loss, preference);
  row.uniformity = balanced.uniformity;
  row.losses_floored = balanced.losses_floored;
  std::size_t k = 0;
  for (std::size_t j = 0; j < evaluation.loss.size(); ++j) {
    row.adjustment[j] = evaluation.num_pairs[j] > 0 ? balanced.adjustment[k++] : 0.0;
  }
}

}  // namespace

void rmsprop_step(std::span<float> parameters, std::span<const float> gradient,
                  std::vector<float>& v, double learning_rate) {
  expects(parameters.size() == gradient.size(), "rmsprop_step: sizes differ");
  if (v.empty()) {
    v.assign(parameters.size(), 0.0F);
  }
  expects(v.size() == parameters.size(), "rmsprop_step: state of another size");
  const auto rate = static_cast<float>(learning_rate);
  const auto keep = static_cast<float>(0.99);
  const auto add = static_cast<float>(1.0 - 0.99);
  const auto epsilon = static_cast<float>(1e-8);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    v[k] = keep * v[k] + add * gradient[k] * gradient[k];
    parameters[k] -= rate * gradient[k] / (std::sqrt(v[k]) + epsilon);
  }
}

WeightedDescent::WeightedDescent(objective::ObjectiveSet& objectives, const data::Client& client,
                                 std::span<const float> start, const DescentOptions& options,
                                 federation::StepRecord record)
    : objectives_(objectives),
      client_(client),
      options_(options),
      record_(std::move(record)),
      parameters_(start.begin(), start.end()),
      gradient_(start.size()) {
  expects(options.optimizer == "adamw" || options.optimizer == "rmsprop",
          "WeightedDescent: an optimizer other than adamw and rmsprop");
  record_.client = client.id.value;
}

bool WeightedDescent::step(const data::Pool& pairs, std::span<const double> weights,
                           double learning_rate, std::vector<federation::StepRecord>& steps) {
  const Stopwatch watch;
  const auto activity = federation::client_activity(record_.phase, -1, record_.cluster, client_);
  const std::size_t m = weights.size();
  std::vector<double> used(m, 0.0);
  double mass = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    used[j] = pairs[j].empty() ? 0.0 : weights[j];
    mass += used[j];
  }
  expects(mass > 0.0, "WeightedDescent: a batch without weight");
  for (double& x : used) {
    x /= mass;
  }
  // The upper half, as in the few-shot adaptation: apart from the rounds of both phases.
  const objective::StepKey key{options_.seed, static_cast<std::uint64_t>(client_.id.value),
                               (~std::uint64_t{0} << 32) + static_cast<std::uint64_t>(record_.step),
                               options_.dropout};
  const objective::Evaluation evaluation =
      objectives_.weighted_gradient(parameters_, {client_.id, pairs}, key, used, gradient_);

  federation::StepRecord row = record_;
  row.loss = evaluation.loss;
  row.accuracy = evaluation.accuracy;
  row.adjustment.assign(m, 0.0);
  row.mu = row.weight = used;
  row.gram.assign(m * m, kNaN);
  row.gamma = kNaN;
  row.mode = static_cast<int>(direction::Mode::kFixed);
  row.direction_norm = federation::norm(gradient_);
  row.finite = std::isfinite(row.direction_norm);
  last_loss_ = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    if (evaluation.num_pairs[j] > 0) {
      last_loss_ += used[j] * evaluation.loss[j];
    } else {
      ++row.num_missing;
    }
  }
  row.finite = row.finite && std::isfinite(last_loss_);
  if (row.finite) {
    add_balance(evaluation, client_, row);
    federation::clip_by_norm(gradient_, options_.gradient_clip);
    if (options_.optimizer == "adamw") {
      federation::adamw_step(parameters_, gradient_, adam_, {.learning_rate = learning_rate});
    } else {
      rmsprop_step(parameters_, gradient_, squares_, learning_rate);
    }
  }
  row.seconds = watch.seconds();
  steps.push_back(std::move(row));
  ++record_.step;
  return steps.back().finite;
}

}  // namespace apo::methods
