#include "local_round.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/optimizer.hpp"
#include "apo/federation/placement.hpp"

namespace apo::federation {
namespace {

/// One participant's part of the round's sum.
struct Contribution {
  int client = 0;
  std::vector<float> update;               ///< [P]
  std::optional<std::size_t> monitored{};  ///< its number in the monitor
};

/// [sum rho_i delta_i (P), the monitor's terms]; every participant is one term.
class RoundSum {
 public:
  RoundSum(std::size_t num_parameters, const TheoryMonitor* monitor)
      : p_(num_parameters), monitor_(monitor) {
    if (monitor_ != nullptr) {
      for (const std::size_t cut : monitor_->cuts()) {
        cuts_.push_back(p_ + cut);
      }
    }
  }

  [[nodiscard]] std::size_t size() const {
    return p_ + (monitor_ != nullptr ? monitor_->num_terms() : 0);
  }
  [[nodiscard]] std::span<const std::size_t> cuts() const { return cuts_; }

  /// @param rho  share of the client
  void add(const Contribution& client, double rho, std::size_t begin,
           std::span<double> slice) const {
    const std::size_t own = begin < p_ ? std::min(slice.size(), p_ - begin) : 0;
    const float* update = client.update.data() + begin;
    for (std::size_t k = 0; k < own; ++k) {
      slice[k] += rho * static_cast<double>(update[k]);
    }
    if (own < slice.size() && client.monitored) {
      monitor_->add_client_terms(*client.monitored, begin + own - p_, slice.subspan(own));
    }
  }

 private:
  std::size_t p_;
  const TheoryMonitor* monitor_;
  std::vector<std::size_t> cuts_;
};

/// @param delta  the client's update, [P]
/// @return the client's number in the monitor
std::size_t tell_monitor(const data::Client& client, double mass, double optimum,
                         std::span<const float> delta, LocalResult& result,
                         TheoryMonitor& monitor) {
  const StepRecord& step = result.steps.front();
  TheoryClient seen;
  seen.client = client.id.value;
  seen.num_pairs = mass;
  seen.chebyshev_optimum = optimum;
  seen.update_norm = norm(delta);
  seen.loss = step.loss;
  seen.preference = client.preference;
  seen.gram = step.gram;
  seen.direction = std::move(result.first.direction);
  seen.gradients = std::move(result.first.gradients);
  return monitor.add(std::move(seen));
}

}  // namespace

LocalRound run_local_round(const RoundPlan& plan, const RoundResources& resources,
                           const LocalOptions& options, std::span<const float> parameters,
                           const std::function<data::Pool(const data::Client&)>& pool,
                           TheoryMonitor* monitor) {
  comm::ClusterCommunicator& team = resources.team;
  const data::Partition& partition = resources.partition;
  LocalRound round;
  RoundReport& report = round.report;
  report = begin_report(plan);

  const bool uniform = resources.phase1.aggregation == "uniform";
  const auto mass_of = [&](int id) {
    return uniform
               ? 1.0
               : static_cast<double>(partition.clients[static_cast<std::size_t>(id)].num_pairs());
  };
  StepRecord row;
  row.phase = plan.phase;
  row.start_round = plan.start_round;
  row.cluster = plan.cluster;
  row.round = plan.round;
  Stopwatch watch;
  std::vector<Contribution> mine;
  std::vector<StepRecord> steps;
  const auto [begin, end] =
      block_of(static_cast<int>(plan.participants.size()), team.rank(), team.size());
  for (int i = begin; i < end; ++i) {
    const int id = plan.participants[static_cast<std::size_t>(i)];
    const data::Client& client = partition.clients[static_cast<std::size_t>(id)];
    LocalOptions local = options;
    local.keep_first = monitor != nullptr;
    local.was_uniform =
        !plan.was_uniform.empty() && plan.was_uniform[static_cast<std::size_t>(i)] != 0;
    LocalResult result = train_client(resources.objectives, resources.solver, client, pool(client),
                                      partition.text_of_pair, parameters, local,
                                      {resources.seed, Purpose::kBatch, plan.cluster_key,
                                       plan.round_key, static_cast<std::uint64_t>(id)},
                                      plan.round_key * kStepsPerRound, row);
    if (result.finite) {
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        result.parameters[k] -= parameters[k];
      }
      Contribution& own = mine.emplace_back(Contribution{id, std::move(result.parameters)});
      if (monitor != nullptr && !result.first.gradients.empty()) {
        own.monitored =
            tell_monitor(client, mass_of(id),
                         resources.objectives.chebyshev_optimum(client.id, client.preference),
                         own.update, result, *monitor);
      }
    }
    for (StepRecord& step : result.steps) {
      steps.push_back(std::move(step));
    }
  }
  share_seconds(team, watch.seconds(), report);

  report.steps = gather_steps(team, steps);
  std::set<int> failed;
  for (const StepRecord& step : report.steps) {
    if (!step.finite) {
      failed.insert(step.client);
    }
  }
  double mass = 0.0;  // over the participants whose numbers are finite (algorithms.md 1.6)
  for (const int id : plan.participants) {
    mass += failed.contains(id) ? 0.0 : mass_of(id);
  }
  report.num_failed = static_cast<int>(failed.size());
  report.mean_loss = weighted_mean_loss(report.steps, partition);
  if (mass == 0.0) {
    return round;  // nobody delivered: the round is logged as empty and the model kept
  }
  if (monitor != nullptr) {
    double monitored = 0.0;  // clients whose first step had all objectives
    for (const StepRecord& step : report.steps) {
      if (step.step == 0 && step.num_missing == 0 && !failed.contains(step.client)) {
        monitored += mass_of(step.client);
      }
    }
    monitor->set_total_pairs(monitored);
  }

  watch.restart();
  const std::size_t p = parameters.size();
  const RoundSum layout(p, monitor);
  std::vector<double> sum(layout.size());
  sum_over_team(
      team, resources.reproducible, sum, mine.size(), plan.participants.size(),
      [&](std::size_t i, std::size_t first, std::span<double> slice) {
        layout.add(mine[i], mass_of(mine[i].client) / mass, first, slice);
      },
      layout.cuts());
  report.seconds_reduction = watch.seconds();
  report.bytes_reduced = bytes_of_sum(sum.size(), resources.reproducible);
  if (monitor != nullptr) {
    double squares = 0.0;
    for (std::size_t k = 0; k < p; ++k) {
      squares += sum[k] * sum[k];
    }
    monitor->set_update_norm(std::sqrt(squares));
    monitor->finish(team, std::span<const double>(sum).subspan(p), report);
    sum.resize(p);
  }
  report.floats_up = static_cast<std::int64_t>(p);
  report.floats_down = static_cast<std::int64_t>(p);
  round.update = std::move(sum);
  round.delivered = true;
  return round;
}

void finish_report(std::span<const float> before, std::span<const float> after,
                   RoundReport& report) {
  std::vector<float> moved(after.size());
  for (std::size_t k = 0; k < moved.size(); ++k) {
    moved[k] = after[k] - before[k];
  }
  report.update_norm = norm(moved);
}

}  // namespace apo::federation
