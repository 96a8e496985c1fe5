#include "consistency.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo::config {
namespace {

/// What the demo domain's rules score (configs/demo).
constexpr std::array<std::string_view, 4> kRuleObjectives = {"helpfulness", "harmlessness",
                                                             "brevity", "courtesy"};

class Conflicts {
 public:
  void refuse_if(bool bad, std::vector<std::string> keys, std::string message) {
    if (bad) {
      found_.push_back({std::move(keys), std::move(message)});
    }
  }
  std::vector<Conflict> take() { return std::move(found_); }

 private:
  std::vector<Conflict> found_;
};

void check_data(const RunConfig& config, Conflicts& conflicts) {
  const auto& data = config.data;
  conflicts.refuse_if(
      data.max_prompt_length >= data.max_length, {"data.max_prompt_length", "data.max_length"},
      fmt::format("data.max_prompt_length = {} leaves no room for a response: expected less than "
                  "data.max_length = {}",
                  data.max_prompt_length, data.max_length));
  conflicts.refuse_if(
      config.adapt.shots > data.adapt_pairs, {"adapt.shots", "data.adapt_pairs"},
      fmt::format("adapt.shots = {} asks for more pairs than data.adapt_pairs = {} sets aside",
                  config.adapt.shots, data.adapt_pairs));
  conflicts.refuse_if(
      data.pairs_per_client > 0 && data.pairs_per_client <= data.adapt_pairs &&
          data.test_fraction > 0.0,
      {"data.pairs_per_client", "data.adapt_pairs", "data.test_fraction"},
      fmt::format("data.pairs_per_client = {} leaves test clients nothing to be evaluated on: "
                  "expected more than data.adapt_pairs = {}, or 0 for all",
                  data.pairs_per_client, data.adapt_pairs));
}

void check_analytic(const RunConfig& config, Conflicts& conflicts) {
  const int shots = config.analytic.num_objectives * config.analytic.pairs_per_objective;
  conflicts.refuse_if(
      config.adapt.shots > shots,
      {"adapt.shots", "task.analytic.num_objectives", "task.analytic.pairs_per_objective"},
      fmt::format("adapt.shots = {} asks for more pairs than a client has: {} objectives of "
                  "task.analytic.pairs_per_objective = {}",
                  config.adapt.shots, config.analytic.num_objectives,
                  config.analytic.pairs_per_objective));
  conflicts.refuse_if(config.evaluate.reward != "none", {"evaluate.reward", "task.kind"},
                      fmt::format("evaluate.reward = {} scores responses, and task.kind = analytic "
                                  "has none: expected none",
                                  config.evaluate.reward));
  for (const char* method : {"fspo", "ditto"}) {
    conflicts.refuse_if(config.method.name == method, {"method.name", "task.kind"},
                        fmt::format("method.name = {} learns from texts: expected task.kind = "
                                    "preference, found analytic",
                                    method));
  }
}

void check_batches(const RunConfig& config, Conflicts& conflicts) {
  // Every step needs the loss and gradient of every objective.
  const auto m = config.method.task == "analytic"
                     ? static_cast<long>(config.analytic.num_objectives)
                     : static_cast<long>(config.data.objectives.size());
  const long per_step =
      static_cast<long>(config.phase1.batch_size) * config.phase1.gradient_accumulation;
  conflicts.refuse_if(
      per_step < m, {"phase1.batch_size", "phase1.gradient_accumulation", "data.objectives"},
      fmt::format("phase1.batch_size * phase1.gradient_accumulation = {} pairs per step cannot "
                  "hold one pair of each of {} objectives",
                  per_step, m));
  const auto enough = [&](const char* key, int pairs) {
    conflicts.refuse_if(
        pairs < m, {key, "data.objectives"},
        fmt::format("{} = {} cannot hold one pair of each of {} objectives", key, pairs, m));
  };
  enough("phase2.shots", config.phase2.shots);
  enough("phase2.inner_batch_size", config.phase2.inner_batch_size);
  enough("adapt.shots", config.adapt.shots);
}

void check_reference(const RunConfig& config, Conflicts& conflicts) {
  try {
    (void)clustering::warm_rounds(config.clustering);
  } catch (const Error& problem) {
    conflicts.refuse_if(true, {"clustering.reference"}, problem.what());
  }
}

void check_phase2(const RunConfig& config, Conflicts& conflicts) {
  for (const int round : config.phase2.start_rounds) {
    conflicts.refuse_if(round > config.phase1.rounds, {"phase2.start_rounds", "phase1.rounds"},
                        fmt::format("phase2.start_rounds names round {}, but phase1.rounds = {}",
                                    round, config.phase1.rounds));
  }
  const bool one_cluster = config.clustering.method == "none" || config.method.scope == "global";
  const auto per_cluster = [&](const char* key, std::size_t count) {
    const std::vector<std::string> keys = {key, "clustering.budget", "clustering.method",
                                           "clustering.budget_policy", "method.name"};
    conflicts.refuse_if(count == 0, {key}, fmt::format("{} is empty: expected one value", key));
    if (count <= 1 || config.method.name != "apo") {
      return;  // Phase II belongs to method apo
    }
    if (!one_cluster && config.clustering.budget_policy == "raise") {
      conflicts.refuse_if(true, keys,
                          fmt::format("{} has {} values, but clustering.budget_policy = raise "
                                      "leaves the number of clusters open: expected one value",
                                      key, count));
      return;
    }
    const std::size_t budget = one_cluster ? 1 : static_cast<std::size_t>(config.clustering.budget);
    conflicts.refuse_if(
        count != budget, keys,
        fmt::format("{} has {} values: expected 1, or one per cluster ({})", key, count, budget));
  };
  per_cluster("phase2.server_learning_rate", config.phase2.server_learning_rate.size());
  per_cluster("phase2.server_weight_decay", config.phase2.server_weight_decay.size());
}

void check_method(const RunConfig& config, Conflicts& conflicts) {
  conflicts.refuse_if(
      config.dpo.loss == "sft" && config.dpo.nll_weight != 0.0, {"dpo.loss", "dpo.nll_weight"},
      fmt::format("dpo.nll_weight = {} adds the likelihood of the chosen responses, "
                  "which dpo.loss = sft is: expected 0",
                  config.dpo.nll_weight));
  conflicts.refuse_if(
      config.method.name == "firm" && config.direction.solver != "apo_lp" &&
          config.direction.solver != "firm",
      {"method.name", "direction.solver"},
      fmt::format("method.name = firm brings its own direction: expected direction.solver = firm "
                  "(or none given), found {}",
                  config.direction.solver));
  for (const std::string& objective : config.data.objectives) {
    conflicts.refuse_if(
        config.evaluate.reward == "rule" &&
            std::find(kRuleObjectives.begin(), kRuleObjectives.end(), objective) ==
                kRuleObjectives.end(),
        {"evaluate.reward", "data.objectives"},
        fmt::format("evaluate.reward = rule scores {} only, but data.objectives names '{}'",
                    fmt::join(kRuleObjectives, ", "), objective));
  }
  conflicts.refuse_if(
      config.runtime.collectives == "nccl" && config.runtime.device == "cpu",
      {"runtime.collectives", "runtime.device"},
      "runtime.collectives = nccl moves GPU memory: expected runtime.device = cuda or auto, "
      "found cpu");
}

}  // namespace

std::vector<Conflict> find_conflicts(const RunConfig& config) {
  Conflicts conflicts;
  if (config.method.task == "analytic") {
    check_analytic(config, conflicts);
  } else {
    check_data(config, conflicts);
  }
  check_batches(config, conflicts);
  check_reference(config, conflicts);
  check_phase2(config, conflicts);
  check_method(config, conflicts);
  return conflicts.take();
}

}  // namespace apo::config
