#include "apo/federation/round_scheme.hpp"

#include <algorithm>
#include <cmath>

#include "apo/core/error.hpp"

namespace apo::federation {

std::vector<float> RoundScheme::personal(const data::Client& /*client*/,
                                         std::span<const float> parameters) {
  return {parameters.begin(), parameters.end()};
}

void sum_over_team(comm::ClusterCommunicator& team, bool ordered, std::span<double> sum,
                   const std::function<void(std::size_t begin, std::span<double> slice)>& add) {
  std::fill(sum.begin(), sum.end(), 0.0);
  if (ordered) {
    team.ordered_sum(sum, add);
    return;
  }
  add(0, sum);
  // float32 travels: this is the mode for speed.
  std::vector<float> local(sum.begin(), sum.end());
  team.all_reduce(std::span<float>(local), comm::Reduction::kSum);
  std::copy(local.begin(), local.end(), sum.begin());
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
