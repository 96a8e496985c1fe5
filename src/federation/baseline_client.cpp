#include "baseline_client.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/local_training.hpp"
#include "apo/federation/round_activity.hpp"

namespace apo::federation {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool present_losses_are_finite(const objective::Evaluation& evaluation) {
  for (std::size_t j = 0; j < evaluation.loss.size(); ++j) {
    if (evaluation.num_pairs[j] > 0 && !std::isfinite(evaluation.loss[j])) {
      return false;
    }
  }
  return true;
}

comm::Activity activity_of(const RoundPlan& plan, const data::Client& client) {
  return client_activity(plan.phase, plan.round, plan.cluster, client);
}

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

std::vector<bool> present_objectives(const std::vector<std::vector<int>>& pairs) {
  std::vector<bool> present;
  for (const auto& list : pairs) {
    present.push_back(!list.empty());
  }
  return present;
}

}  // namespace

data::Pool only_objective(const data::Pool& pool, std::size_t objective) {
  data::Pool result(pool.size());
  result[objective] = pool[objective];
  return result;
}

std::vector<double> restricted_to(std::span<const double> values,
                                  const std::vector<bool>& present) {
  std::vector<double> result(values.size(), 0.0);
  double mass = 0.0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    mass += present[j] ? values[j] : 0.0;
  }
  for (std::size_t j = 0; j < values.size(); ++j) {
    result[j] = present[j] && mass > 0.0 ? values[j] / mass : 0.0;
  }
  return result;
}

LocalRun::LocalRun(const LocalSetting& setting, const data::Client& client, const data::Pool& pool,
                   std::span<const float> start, int first_step)
    : setting_(setting),
      client_(client),
      start_(start),
      parameters_(start.begin(), start.end()),
      sampler_(pool,
               {setting.resources.seed, Purpose::kBatch, setting.plan.cluster_key,
                setting.plan.round_key, static_cast<std::uint64_t>(client.id.value)},
               setting.resources.partition.text_of_pair),
      direction_(start.size()),
      next_step_(first_step) {}

objective::Batch LocalRun::next_batch() {
  const Phase1Options& phase1 = setting_.resources.phase1;
  objective::Batch batch{client_.id,
                         sampler_.next(phase1.batch_size * phase1.gradient_accumulation)};
  present_ = present_objectives(batch.pairs);
  return batch;
}

objective::StepKey LocalRun::step_key() const {
  return {setting_.resources.seed, static_cast<std::uint64_t>(client_.id.value),
          setting_.plan.round_key * kStepsPerRound + static_cast<std::uint64_t>(open_.step)};
}

void LocalRun::open_record() {
  watch_.restart();
  open_ = StepRecord{};
  open_.phase = setting_.plan.phase;
  open_.start_round = setting_.plan.start_round;
  open_.cluster = setting_.plan.cluster;
  open_.round = setting_.plan.round;
  open_.client = client_.id.value;
  open_.step = next_step_++;
  open_.mode = static_cast<int>(direction::Mode::kFixed);
}

bool LocalRun::close_if_not_finite(const objective::Evaluation& evaluation,
                                   bool numbers_are_finite) {
  open_.loss = evaluation.loss;
  open_.accuracy = evaluation.accuracy;
  if (numbers_are_finite && present_losses_are_finite(evaluation)) {
    return false;
  }
  close_failed();
  return true;
}

void LocalRun::fail(std::vector<double> loss) {
  open_record();
  open_.loss = std::move(loss);
  open_.accuracy.assign(open_.loss.size(), kNaN);
  close_failed();
}

void LocalRun::close_failed() {
  const std::size_t m = open_.loss.size();
  open_.finite = false;
  open_.mu.assign(m, 0.0);
  open_.weight.assign(m, 0.0);
  open_.adjustment.assign(m, 0.0);
  open_.gram.assign(m * m, kNaN);
  open_.seconds = watch_.seconds();
  records_.push_back(std::move(open_));
  open_ = StepRecord{};
  finite_ = false;
}

void LocalRun::begin_step() {
  if (!finite_) {
    return;
  }
  const auto activity = activity_of(setting_.plan, client_);
  const int m = setting_.resources.objectives.num_objectives();
  open_record();
  gradients_.resize(static_cast<std::size_t>(m) * parameters_.size());
  const objective::Evaluation evaluation =
      setting_.resources.objectives.gradients(parameters_, next_batch(), step_key(), gradients_);
  open_.gram = gram_matrix(gradients_, m);
  if (!close_if_not_finite(evaluation, all_finite(open_.gram))) {
    open_.seconds = watch_.seconds();
  }
}

void LocalRun::end_step(std::span<const double> weights) {
  if (!finite_) {
    return;
  }
  watch_.restart();
  const std::vector<double> used = restricted_to(weights, present_);
  combine(gradients_, used, direction_);
  const double before = open_.seconds;
  move(used);
  records_.back().seconds += before;
}

void LocalRun::step(std::span<const double> weights) {
  if (!finite_) {
    return;
  }
  const auto activity = activity_of(setting_.plan, client_);
  open_record();
  const objective::Batch batch = next_batch();
  const std::vector<double> used = restricted_to(weights, present_);
  const objective::Evaluation evaluation = setting_.resources.objectives.weighted_gradient(
      parameters_, batch, step_key(), used, direction_);
  if (!close_if_not_finite(evaluation, std::isfinite(norm(direction_)))) {
    move(used);
  }
}

/// The optimiser's step along direction_, and the end of the record.
void LocalRun::move(std::span<const double> weights) {
  describe(weights);
  const Phase1Options& phase1 = setting_.resources.phase1;
  const double rate = setting_.plan.learning_rate;
  if (setting_.unit_gradients && open_.direction_norm > 0.0) {
    const auto factor = static_cast<float>(1.0 / open_.direction_norm);
    for (float& x : direction_) {
      x *= factor;
    }
  }
  if (phase1.optimizer == "adamw") {
    clip_by_norm(direction_, phase1.gradient_clip);
    adamw_step(parameters_, direction_, adam_, {.learning_rate = rate});
  } else {
    sgd_step(parameters_, direction_, rate);
  }
  open_.seconds = watch_.seconds();
  records_.push_back(std::move(open_));
  open_ = StepRecord{};
}

void LocalRun::describe(std::span<const double> weights) {
  const std::size_t m = weights.size();
  open_.mu.assign(weights.begin(), weights.end());
  open_.weight = open_.mu;
  std::vector<double> loss;
  std::vector<double> lambda;
  const std::vector<double> preference = restricted_to(client_.preference, present_);
  for (std::size_t j = 0; j < m; ++j) {
    if (present_[j]) {
      loss.push_back(open_.loss[j]);
      lambda.push_back(preference[j]);
    }
  }
  const double floor = setting_.resources.direction.loss_floor;
  const Balance quantities = balance(loss, lambda, floor);
  open_.uniformity = quantities.uniformity;
  open_.losses_floored = quantities.losses_floored;
  open_.num_missing = static_cast<int>(m - loss.size());
  open_.direction_norm = norm(direction_);
  open_.adjustment.assign(m, 0.0);
  for (std::size_t j = 0, k = 0; j < m; ++j) {
    if (present_[j]) {
      open_.adjustment[j] = quantities.adjustment[k];
      open_.chebyshev = std::max(open_.chebyshev, lambda[k] * std::max(loss[k], floor));
      ++k;
    }
  }
  if (open_.gram.empty()) {  // the gradients were not computed one by one
    open_.gram.assign(m * m, kNaN);
    open_.gamma = kNaN;
    return;
  }
  open_.gamma = 0.0;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      open_.gamma += open_.adjustment[i] * open_.gram[i * m + j] * weights[j];
      if (!present_[i] || !present_[j]) {
        open_.gram[i * m + j] = kNaN;  // not a zero that was measured
      }
    }
  }
}

std::vector<float> LocalRun::delta() {
  std::vector<float> result = parameters_;
  for (std::size_t k = 0; k < result.size(); ++k) {
    result[k] -= start_[k];
  }
  if (finite_ && !std::isfinite(norm(result))) {
    finite_ = false;
    records_.back().finite = false;
  }
  return result;
}

}  // namespace apo::federation
