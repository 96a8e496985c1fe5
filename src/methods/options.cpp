#include "apo/methods/options.hpp"

namespace apo::methods {

void declare(FieldTable& table, MethodOptions& options) {
  table.choice("task.kind", options.task, {"preference"},
               "preference: DPO losses of a language model");
  table.choice("method.name", options.name, {"apo", "fedavg", "base"},
               "apo: clusters, Phase I, Phase II, adaptation; fedavg: one adapter for all clients, "
               "no Phase II; base: the untrained model");
}

void declare(FieldTable& table, EvaluateOptions& options) {
  table.choice("evaluate.reward", options.reward, {"none", "rule"},
               "none: held-out losses and preference accuracy only; rule: also answers sampled on "
               "held-out prompts and scored by the demo domain's rules");
  table.integer("evaluate.max_new_tokens", options.max_new_tokens, {1, 100000}, "tokens",
                "Longest generated response");
  table.real("evaluate.temperature", options.temperature, {0.0, 100.0, false}, "",
             "Sampling temperature; 0 is greedy");
  table.integer("evaluate.samples_per_prompt", options.samples_per_prompt, {1, 10000}, "responses",
                "Responses sampled per prompt");
  table.integer("evaluate.prompts_per_client", options.prompts_per_client, {0, 1000000}, "prompts",
                "At most so many held-out prompts per test client; 0 uses all");
}

}  // namespace apo::methods
