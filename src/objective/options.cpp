#include "apo/objective/options.hpp"

namespace apo::objective {

void declare(FieldTable& table, DpoOptions& options) {
  table.real("dpo.beta", options.beta, {0.0, 100.0, true}, "1/nat",
             "Temperature of the preference loss: -log sigmoid(beta * h)");
  table.real("dpo.nll_weight", options.nll_weight, {0.0, 1000.0, false}, "",
             "Weight of the chosen response's mean token negative log-likelihood, added to each "
             "objective's loss; 0 is plain DPO");
}

void declare(FieldTable& table, AnalyticOptions& options) {
  table.choice(
      "task.analytic.problem", options.problem,
      {"epo2", "epo3", "quadratic", "simplex", "anisotropic", "linear_front", "concave_front",
       "convex_front", "flat_stationary", "v_shape", "dpo_linear", "consensus"},
      "Problem with known Pareto points");
  table.integer("task.analytic.num_objectives", options.num_objectives, {1, 8}, "",
                "Objectives m; simplex and dpo_linear take 1 to 8, the fronts 2 to 8, epo3 3, "
                "consensus 1, the others 2");
  table.integer("task.analytic.dimension", options.dimension, {1, 1000000}, "",
                "Parameters P; flat_stationary and v_shape have 1, epo3 an even number, simplex "
                "and dpo_linear at least m, the fronts at least m + 1");
  table.real("task.analytic.offset", options.offset, {0.0, 1000.0, false}, "nat",
             "b, added to each loss (not in flat_stationary, v_shape, dpo_linear); with 0 losses "
             "can reach 0 and the LP can be trapped there");
  table.real("task.analytic.radius", options.radius, {0.0, 1000.0, true}, "",
             "Distance of the centres from the origin (simplex, quadratic, anisotropic, "
             "consensus); length of the mean comparison (dpo_linear)");
  table.real_list("task.analytic.curvature", options.curvature, {0.0, 1e6, true},
                  "s_j of quadratic and consensus, one per objective; empty: all 1");
  table.real_list("task.analytic.offsets", options.offsets, {0.0, 1000.0, false},
                  "b_j of quadratic and anisotropic, one per objective; empty: all offset");
  table.real("task.analytic.condition", options.condition, {1.0, 1e6, false}, "",
             "Condition number of anisotropic's matrices; their smallest eigenvalue is 1");
  table.real("task.analytic.dpo_beta", options.dpo_beta, {0.0, 100.0, true}, "1/nat",
             "Temperature of dpo_linear's loss");
  table.real("task.analytic.ridge", options.ridge, {0.0, 1000.0, true}, "",
             "eps of dpo_linear: eps/2 ||w||^2 is added to each loss, so that separable data have "
             "a minimiser");
  table.integer("task.analytic.clients", options.clients, {1, 10000000}, "clients",
                "Training clients");
  table.integer("task.analytic.test_clients", options.test_clients, {0, 10000000}, "clients",
                "Clients that only appear after training");
  table.integer("task.analytic.pairs_per_objective", options.pairs_per_objective, {1, 1000000},
                "pairs",
                "Pairs of a training client per objective; a test client has as many to adapt on "
                "and as many to evaluate");
  table.real("task.analytic.shift", options.shift, {0.0, 1000.0, false}, "",
             "Standard deviation per coordinate of a client's shift of the problem");
  table.real("task.analytic.pair_jitter", options.pair_jitter, {0.0, 1000.0, false}, "",
             "Standard deviation per coordinate of one pair's own shift; 0: all pairs of an "
             "objective are equal");
}

}  // namespace apo::objective
