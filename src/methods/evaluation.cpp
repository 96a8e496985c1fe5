#include "apo/methods/evaluation.hpp"

namespace apo::methods {

std::string stage_name(Stage stage) {
  switch (stage) {
    case Stage::kBase:
      return "base";
    case Stage::kInitialiser:
      return "initialiser";
    case Stage::kAdapted:
      return "adapted";
  }
  return "unknown";
}

Table summary_table(int num_objectives) {
  Table table;
  table.text("method", "method under study");
  table.integer("start_round", "rounds", "Phase I round that Phase II started from");
  table.integer("cluster", "", "row of /clusters");
  table.integer("client", "", "row of /clients");
  table.text("stage", "base, initialiser (before adaptation) or adapted");
  table.real("loss", "nat", "mean loss on the held-out pairs", {num_objectives});
  table.real("accuracy", "1", "share of held-out pairs whose implicit reward prefers the chosen",
             {num_objectives});
  table.real("reward", "1", "mean reward of the sampled responses", {num_objectives});
  table.real("parse_rate", "1", "share of the responses that the reward's grammar accepts");
  table.real("score", "1", "preference-weighted mean reward");
  table.real(
      "score_normalised", "1",
      "preference-weighted reward between the worst (0) and the best (1) answer to the prompt");
  table.real("solution", "1",
             "what rises with quality, per objective: mean reward, or held-out accuracy "
             "without a reward model, or exp(-loss) on an analytic task",
             {num_objectives});
  table.real("uniformity", "nat", "KL divergence of the weighted losses from uniform (beta)");
  table.real("chebyshev", "nat", "largest preference-weighted loss (psi)");
  table.real("chebyshev_optimum", "nat", "smallest psi that any adapter has for this client");
  table.real("chebyshev_gap", "nat", "psi above its optimum");
  table.real("distance", "1", "distance of the parameters from the client's Pareto point");
  table.integer("num_prompts", "prompts", "held-out prompts");
  table.integer("num_responses", "responses", "sampled responses");
  return table;
}

Table response_table(int num_objectives) {
  Table table;
  table.integer("client", "", "row of /clients");
  table.integer("start_round", "rounds", "Phase I round that Phase II started from");
  table.text("method", "method under study");
  table.text("stage", "base, initialiser or adapted");
  table.integer("prompt_index", "", "position among the client's held-out prompts");
  table.integer("sample", "", "sample number for this prompt");
  table.text("prompt", "last user turn");
  table.text("response", "sampled response");
  table.real("score", "1", "reward per objective", {num_objectives});
  table.integer("parsed", "", "1 when the reward's grammar accepts the response");
  return table;
}

}  // namespace apo::methods
