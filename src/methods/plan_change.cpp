#include <algorithm>
#include <functional>
#include <optional>

#include "plan_parts.hpp"
#include <fmt/format.h>

#include "apo/methods/plan.hpp"

namespace apo::methods {
namespace {

struct Trial {
  PlanInputs inputs;
  MemoryBasis basis;
};

void set_adapter_rank(Trial& trial, int rank) {
  const double before = trial.inputs.adapter_rank;
  for (std::int64_t* count : {&trial.inputs.num_parameters, &trial.inputs.scheme_parameters}) {
    *count = static_cast<std::int64_t>(static_cast<double>(*count) * rank / before);
  }
  trial.inputs.adapter_rank = rank;
}

/// bfloat16 in place of float32.
void narrow_weights(MemoryBasis& basis) {
  basis.weights /= 2.0;
  basis.activations /= 2.0;
  basis.forward /= 2.0;
}

constexpr const char* kLowerRank = "a smaller adapter: results change";
constexpr const char* kNarrower = "other rounding: results change";

/// The largest rank of the adapters below the present one with bytes(trial) <= limit.
template <class Bytes>
Change lower_rank(const Trial& start, double limit, const Bytes& bytes) {
  for (int rank = start.inputs.adapter_rank - 1; rank >= 1; --rank) {
    Trial trial = start;
    set_adapter_rank(trial, rank);
    if (const double needed = bytes(trial); needed <= limit) {
      return {fmt::format("lora.rank = {}", rank), kLowerRank, needed};
    }
  }
  return {};
}

double node_bytes(const Trial& trial, const RowBytes& rows) {
  const WorkPlan work = plan_work(trial.inputs);
  return plan_memory(trial.inputs, work, plan_disk(trial.inputs, work, rows), trial.basis).node;
}

/// One knob: what it is set to, with `value` between its present one and `least`.
struct Knob {
  std::function<void(Trial&, int value)> set;
  std::function<std::string(int value)> name;
  std::string effect;
  int present = 0;
  int least = 1;
};

/// The largest value below the present one that fits; memory grows with every knob.
std::optional<int> largest_fitting(const Knob& knob, const Trial& start, const RowBytes& rows,
                                   double limit) {
  const auto fits = [&](int value) {
    Trial trial = start;
    knob.set(trial, value);
    return node_bytes(trial, rows) <= limit;
  };
  if (knob.present <= knob.least || !fits(knob.least)) {
    return std::nullopt;
  }
  int low = knob.least;
  int high = knob.present;  // does not fit
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::vector<Knob> knobs_of(const PlanInputs& inputs) {
  const federation::TrainingOptions& training = inputs.options.training;
  std::vector<Knob> knobs;
  knobs.push_back({[](Trial& trial, int value) { trial.inputs.ranks_per_node = value; },
                   [](int value) { return fmt::format("--ranks-per-node {}", value); },
                   fmt::format("the {} ranks take more nodes; results stay", inputs.num_ranks),
                   std::min(inputs.ranks_per_node, inputs.num_ranks), 1});
  if (training.monitor.theory && training.monitor.audit_every > 0) {
    knobs.push_back(
        {[](Trial& trial, int value) { trial.inputs.options.training.monitor.memory_mib = value; },
         [](int value) { return fmt::format("monitor.memory_mib = {}", value); },
         "audits compute gradients twice; rounds that do not fit are not monitored",
         training.monitor.memory_mib, 1});
    knobs.push_back(
        {[](Trial& trial, int /*value*/) { trial.inputs.options.training.monitor.audit_every = 0; },
         [](int /*value*/) { return std::string("monitor.audit_every = 0"); }, "no audits", 1, 0});
  }
  if (training.monitor.theory) {
    knobs.push_back(
        {[](Trial& trial, int /*value*/) { trial.inputs.options.training.monitor.theory = false; },
         [](int /*value*/) { return std::string("monitor.theory = false"); },
         "no theory quantities", 1, 0});
  }
  knobs.push_back({[](Trial& trial, int value) {
                     trial.inputs.options.training.phase1.clients_per_round = value;
                     auto& meta = trial.inputs.options.training.phase2.clients_per_round;
                     meta = std::min(meta, value);
                   },
                   [](int value) { return fmt::format("phase1.clients_per_round = {}", value); },
                   "other clients are sampled: results change", training.phase1.clients_per_round,
                   1});
  return knobs;
}

}  // namespace

Change smallest_change(const PlanInputs& inputs, const MemoryBasis& basis, const RowBytes& rows,
                       double limit) {
  const Trial start{inputs, basis};
  for (const Knob& knob : knobs_of(inputs)) {
    if (const auto value = largest_fitting(knob, start, rows, limit)) {
      Trial trial = start;
      knob.set(trial, *value);
      return {knob.name(*value), knob.effect, node_bytes(trial, rows)};
    }
  }
  const auto bytes = [&](const Trial& trial) { return node_bytes(trial, rows); };
  if (Change change = lower_rank(start, limit, bytes); !change.what.empty()) {
    return change;
  }
  if (inputs.wide_weights) {
    Trial trial = start;
    trial.inputs.ranks_per_node = 1;
    narrow_weights(trial.basis);
    if (const double needed = bytes(trial); needed <= limit) {
      return {"model.dtype = bfloat16 with --ranks-per-node 1", kNarrower, needed};
    }
  }
  return {};
}

Change smallest_device_change(const PlanInputs& inputs, const MemoryBasis& model, double limit) {
  const auto bytes = [](const Trial& trial) {
    return plan_device(trial.inputs, trial.basis).total;
  };
  const Trial start{inputs, model};
  if (inputs.wide_weights) {
    Trial trial = start;
    narrow_weights(trial.basis);
    if (const double needed = bytes(trial); needed <= limit) {
      return {"model.dtype = bfloat16", kNarrower, needed};
    }
  }
  return lower_rank(start, limit, bytes);
}

}  // namespace apo::methods
