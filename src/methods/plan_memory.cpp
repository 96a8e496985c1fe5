#include <algorithm>
#include <cmath>

#include "plan_parts.hpp"

#include "apo/methods/plan.hpp"

namespace apo::methods {
namespace {

constexpr double kFloat = sizeof(float);
constexpr double kNumber = sizeof(double);
/// A growing vector leaves smaller blocks behind, which are not all used again.
constexpr double kGrowth = 1.2;
/// One entry of the reference log-probabilities: key, value and node of a map.
constexpr double kReferenceEntry = 96.0;

/// What a client's steps hold beside the pass through the model: gradients, direction, optimiser
/// state, parameters and their copies on the way to the model and back.
double step_buffers(const PlanInputs& inputs) {
  const double vectors = (inputs.one_by_one ? inputs.num_objectives : 1) + 6.0;
  return vectors * static_cast<double>(inputs.num_parameters) * kFloat;
}

/// A sum over the team; MPI needs as much again when there is somebody to send it to.
double sum_buffers(double numbers, int team_ranks) {
  return numbers * kNumber * (team_ranks > 1 ? 2.0 : 1.0);
}

int largest_team(const WorkPlan& work) {
  int ranks = 1;
  for (const federation::Team& team : work.placement.teams) {
    ranks = std::max(ranks, team.num_ranks);
  }
  return ranks;
}

/// Of the participants of a round: updates, and gradients for the theory monitor.
double kept_bytes(const PlanInputs& inputs, const WorkPlan& work) {
  const double gradients =
      inputs.num_objectives * static_cast<double>(inputs.num_parameters) * kFloat;
  return work.max_participants_per_rank * (static_cast<double>(inputs.scheme_parameters) * kFloat +
                                           (work.keeps_gradients ? gradients : 0.0));
}

double round_bytes(const PlanInputs& inputs, const WorkPlan& work, double pass) {
  const auto p = static_cast<double>(inputs.scheme_parameters);
  const double numbers = p + (work.keeps_gradients ? 2.0 * p : 0.0);
  // After the sum: the mean directions, and the parameters before the step.
  const double after = (work.keeps_gradients ? 3.0 * p * kNumber : 0.0) + 2.0 * p * kFloat;
  return std::max(pass + step_memory(inputs, work),
                  kept_bytes(inputs, work) + sum_buffers(numbers, largest_team(work)) + after);
}

double audit_bytes(const PlanInputs& inputs, const WorkPlan& work, double pass) {
  const auto p = static_cast<double>(inputs.num_parameters);
  const double m = inputs.num_objectives;
  const double numbers = (2.0 + m) * p;
  std::size_t members = 0;
  for (const auto& group : inputs.groups) {
    members = std::max(members, group.size());
  }
  const int groups = plan::audit_groups(inputs, static_cast<int>(members));
  const double share = static_cast<double>(work.max_members_per_rank) /
                       static_cast<double>(std::max<std::size_t>(1, members));
  const double blocks = inputs.options.training.reproducible ? std::ceil(groups * share) : 2.0;
  const double sums = blocks * numbers * kNumber;
  const double kept = std::min(inputs.options.training.monitor.memory_mib * plan::kMib,
                               work.max_members_per_rank * m * p * kFloat);
  const double after = 6.0 * p * kNumber;  // mean directions, the step, the parameters after it
  return kept + std::max(sums + pass + (m + 3.0) * p * kFloat,
                         std::max(sums, after + pass) + sum_buffers(numbers, largest_team(work)));
}

}  // namespace

double step_memory(const PlanInputs& inputs, const WorkPlan& work) {
  return kept_bytes(inputs, work) + step_buffers(inputs);
}

double adapter_memory(const PlanInputs& inputs) {
  const federation::Phase2Options& phase2 = inputs.options.training.phase2;
  const double variants = plan::num_variants(inputs);
  // Phase II: parameters, AdamW's two moments, and what earlier start rounds ended with.
  const double meta =
      phase2.rounds > 0 ? variants + (phase2.server_optimizer == "adamw" ? 2.0 : 0.0) : variants;
  const double copies = 1.0 + variants + meta;
  return static_cast<double>(inputs.groups.size()) * static_cast<double>(inputs.scheme_parameters) *
         kFloat * copies;
}

DeviceMemory plan_device(const PlanInputs& inputs, const MemoryBasis& model) {
  // What the driver and the libraries of linear algebra keep for a process on a GPU.
  constexpr double kContext = 600.0 * plan::kMib;
  DeviceMemory result;
  result.parts = {{"driver and libraries", kContext},
                  {"model weights", model.weights},
                  {"adapter, gradients, optimiser", step_buffers(inputs)},
                  {"largest pass", std::max({model.activations, model.forward, model.generation})}};
  for (const MemoryPart& part : result.parts) {
    result.total += part.bytes;
  }
  return result;
}

MemoryPlan plan_memory(const PlanInputs& inputs, const WorkPlan& work, const DiskPlan& disk,
                       const MemoryBasis& basis) {
  const federation::TrainingOptions& training = inputs.options.training;
  double num_pairs = 0.0;
  for (const ClientWork& client : inputs.clients) {
    num_pairs += static_cast<double>(client.num_pairs);
  }

  MemoryPlan result;
  const auto resident = [&result](const char* name, double bytes) {
    result.resident.push_back({name, bytes});
    return bytes;
  };
  const auto stage = [&result](const char* name, double bytes) {
    result.stages.push_back({name, bytes});
  };
  double always = resident("libraries", basis.libraries) + resident("process", basis.process) +
                  resident("model weights", basis.weights);
  always += resident("adapters and server optimisers", adapter_memory(inputs));
  always += resident("reference log-probabilities", num_pairs / inputs.num_ranks * kReferenceEntry);
  always += resident("MPI", basis.per_rank_of_node * inputs.ranks_per_node);
  const double history = resident("tables of the run file (rank 0)", kGrowth * disk.history_bytes);

  stage("loading the model", basis.loading);
  stage("reference losses", basis.forward);
  if (inputs.traits.trains) {
    stage("Phase I", round_bytes(inputs, work, basis.activations));
  }
  if (work.num_audits > 0) {
    stage("audits", audit_bytes(inputs, work, basis.activations));
  }
  if (training.phase2.rounds > 0) {
    WorkPlan meta = work;
    meta.keeps_gradients = false;
    stage("Phase II", round_bytes(inputs, meta, basis.activations));
  }
  if (inputs.traits.adapts) {
    stage("adaptation", basis.activations + step_buffers(inputs));
  }
  stage("evaluation", std::max(basis.generation, basis.forward));
  double others = 0.0;
  for (const MemoryPart& part : result.stages) {
    others = std::max(others, part.bytes);
  }
  // A checkpoint is a copy of the tables and of the state.
  stage("checkpoint (rank 0)", disk.history_bytes + disk.state_bytes + basis.first_rank);
  const auto largest =
      std::max_element(result.stages.begin(), result.stages.end(),
                       [](const MemoryPart& a, const MemoryPart& c) { return a.bytes < c.bytes; });
  result.peak_stage = largest->name;
  result.peak = always + history + largest->bytes;
  result.peak_others = always + others;
  const double own = result.peak_others - basis.libraries;
  const int on_node = std::min(inputs.ranks_per_node, inputs.num_ranks);
  result.node = basis.libraries + (result.peak - basis.libraries) + own * (on_node - 1);
  return result;
}

TrafficPlan plan_traffic(const PlanInputs& inputs, const WorkPlan& work) {
  const std::int64_t number = inputs.options.training.reproducible
                                  ? static_cast<std::int64_t>(sizeof(std::int64_t))
                                  : static_cast<std::int64_t>(sizeof(float));
  const std::int64_t p = inputs.num_parameters;
  TrafficPlan traffic;
  // Update, and with the monitor the two blocks of the mean direction and three masses.
  traffic.round_bytes = number * (p + (work.keeps_gradients ? 2 * p + 3 : 0));
  traffic.audit_bytes = work.num_audits > 0 ? number * (2 + inputs.num_objectives) * p : 0;
  traffic.meta_round_bytes = inputs.options.training.phase2.rounds > 0 ? number * p : 0;
  return traffic;
}

}  // namespace apo::methods
