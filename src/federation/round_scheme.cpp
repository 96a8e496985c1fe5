#include "apo/federation/round_scheme.hpp"

#include <algorithm>
#include <cmath>

#include "apo/core/error.hpp"

namespace apo::federation {

std::vector<float> RoundScheme::personal(const data::Client& /*client*/,
                                         std::span<const float> parameters) {
  return {parameters.begin(), parameters.end()};
}

void sum_over_team(comm::ClusterCommunicator& team, bool reproducible, std::span<double> sum,
                   std::size_t num_terms, std::size_t max_terms, const comm::AddTerm& add,
                   std::span<const std::size_t> cuts) {
  if (reproducible) {
    comm::exact_sum(team, sum, num_terms, max_terms, add, cuts);
    return;
  }
  std::fill(sum.begin(), sum.end(), 0.0);
  team.run_and_agree([&] {
    for (std::size_t t = 0; t < num_terms; ++t) {
      add(t, 0, sum);
    }
  });
  // float32 travels: this is the mode for speed.
  std::vector<float> local(sum.begin(), sum.end());
  team.all_reduce(std::span<float>(local), comm::Reduction::kSum);
  std::copy(local.begin(), local.end(), sum.begin());
}

std::int64_t bytes_of_sum(std::size_t size, bool reproducible) {
  return static_cast<std::int64_t>(size * (reproducible ? sizeof(std::int64_t) : sizeof(float)));
}

void share_seconds(comm::ClusterCommunicator& team, double seconds, RoundReport& report) {
  const std::vector<double> mine = {seconds};
  std::vector<double> all(static_cast<std::size_t>(team.size()));
  team.all_gather(mine, all);
  double sum = 0.0;
  for (const double x : all) {
    report.seconds_clients = std::max(report.seconds_clients, x);
    sum += x;
  }
  report.imbalance =
      sum > 0.0 ? report.seconds_clients * static_cast<double>(all.size()) / sum : 1.0;
}

std::vector<StepRecord> gather_steps(comm::ClusterCommunicator& team,
                                     const std::vector<StepRecord>& steps) {
  std::vector<StepRecord> all;
  for (const std::string& bytes : team.all_gather(pack(steps))) {
    for (StepRecord& step : unpack(bytes)) {
      all.push_back(std::move(step));
    }
  }
  return all;
}

std::vector<double> weighted_mean_loss(const std::vector<StepRecord>& steps,
                                       const data::Partition& partition) {
  std::vector<double> sum;
  std::vector<double> mass;
  for (const StepRecord& row : steps) {
    if (row.step != 0 || !row.finite) {
      continue;
    }
    sum.resize(row.loss.size(), 0.0);
    mass.resize(row.loss.size(), 0.0);
    const auto weight =
        static_cast<double>(partition.clients[static_cast<std::size_t>(row.client)].num_pairs());
    for (std::size_t j = 0; j < row.loss.size(); ++j) {
      if (!std::isnan(row.loss[j])) {
        sum[j] += weight * row.loss[j];
        mass[j] += weight;
      }
    }
  }
  for (std::size_t j = 0; j < sum.size(); ++j) {
    sum[j] /= mass[j];  // NaN when no participant has the objective
  }
  return sum;
}

RoundReport begin_report(const RoundPlan& plan) {
  RoundReport report;
  report.phase = plan.phase;
  report.start_round = plan.start_round;
  report.cluster = plan.cluster;
  report.round = plan.round;
  report.participants = plan.participants;
  report.learning_rate = plan.learning_rate;
  return report;
}

}  // namespace apo::federation
