#include "apo/methods/options.hpp"

namespace apo::methods {

void declare(FieldTable& table, MethodOptions& options) {
  table.choice(
      "method.name", options.name,
      {"apo", "fedavg", "firm", "server_mgda", "fedcmoo", "fedcmoo_pref", "fsmgda", "fedmgda_plus",
       "ifca", "rewarded_soup", "fspo", "ditto", "base"},
      "apo: clusters, Phase I, Phase II, adaptation; fedavg: Phase I alone; firm: clients "
      "step along their regularised min-norm direction, uniform mean; server_mgda, fedcmoo, "
      "fedcmoo_pref, fsmgda, fedmgda_plus, ifca: server-side multi-objective methods; "
      "rewarded_soup: an expert per objective, mixed by the preference; fspo, ditto: each "
      "new client on its own; base: the untrained model");
  table.choice("method.scope", options.scope, {"auto", "cluster", "global"},
               "cluster: one adapter per cluster; global: one for all clients; auto: cluster with "
               "apo, global with the others");
  table.choice(
      "task.kind", options.task, {"preference", "analytic"},
      "preference: DPO losses of a language model; analytic: a problem whose Pareto points "
      "are known in closed form (task.analytic.*), no model and no data files");
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
