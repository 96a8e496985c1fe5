#include "apo/direction/options.hpp"

namespace apo::direction {

namespace {

void declare_lp(FieldTable& table, DirectionOptions& options) {
  table.real("direction.beta_tolerance", options.beta_tolerance, {0.0, 10.0, false}, "nat",
             "Uniformity (KL) up to which losses count as balanced");
  table.real("direction.beta_noise_factor", options.beta_noise_factor, {0.0, 1e6, false}, "",
             "Raises the tolerance to this multiple of the uniformity that the noise of the batch "
             "losses alone would cause; 0: off");
  table.real("direction.beta_hysteresis", options.beta_hysteresis, {1.0, 1e6, false}, "",
             "A client leaves the uniform mode only above this multiple of the tolerance; 1: no "
             "hysteresis");
  table.real("direction.bottleneck_tolerance", options.bottleneck_tolerance, {0.0, 0.5, false}, "",
             "Relative band below the largest weighted loss that counts as bottleneck");
  table.real("direction.ascent_tolerance", options.ascent_tolerance, {0.0, 0.5, false}, "",
             "Relative size below which an inner product with the balancing direction counts as 0");
  table.real("direction.loss_floor", options.loss_floor, {0.0, 1.0, true}, "nat",
             "Losses below are lifted to it, and counted");
  table.choice("direction.uniform_guard", options.uniform_guard, {"none", "epo_restricted"},
               "apo_lp, uniform mode. none: the paper's; epo_restricted: keep mu'CA >= min(0, "
               "max CA) as well, as EPO's restricted descent does");
  table.choice("direction.lp_tie", options.lp_tie, {"vertex", "lexicographic"},
               "Which optimum of several. vertex: the one that GLPK finds from its standard basis; "
               "lexicographic: largest mu'C1, then smallest mu'C mu, then lexicographically "
               "largest mu (at most 8 objectives)");
  table.real("direction.lp_regulariser", options.lp_regulariser, {0.0, 1e6, false}, "max_j C_jj",
             "beta_R: subtracts (beta_R / 2) |mu|^2 from the LP's objective, which makes mu a "
             "continuous function of the losses (at most 8 objectives); 0: the paper's LP");
  table.choice("direction.epo_mode", options.epo_mode, {"restricted", "relaxed"},
               "epo, uniform mode: with or without the guard of uniform_guard = epo_restricted");
}

void declare_weights(FieldTable& table, DirectionOptions& options) {
  table.choice("direction.gradient_normalisation", options.gradient_normalisation,
               {"none", "l2", "loss", "loss+"},
               "Solve for gradients divided by their length (l2), their loss (loss) or both "
               "(loss+); the direction sums the divided gradients");
  table.real("direction.mix_floor", options.mix_floor, {0.0, 1.0, false}, "",
             "f: the direction uses the weights (1 - f) mu + f / m");
}

void declare_aggregators(FieldTable& table, DirectionOptions& options) {
  table.real("direction.firm_beta", options.firm_beta, {0.0, 1e6, false}, "",
             "firm: regulariser beta of min mu'(C + R)mu");
  table.choice("direction.firm_preference", options.firm_preference, {"none", "paper", "scaled"},
               "firm: R = beta/2 (none), Diag(1/p) (paper) or beta/2 Diag(1/(m p)) (scaled) for "
               "the preference p");
  table.choice("direction.gram_normalisation", options.gram_normalisation,
               {"none", "mean_diagonal"},
               "firm: divide C by the squared mean gradient length, so that beta has no unit");
  table.real("direction.cagrad_radius", options.cagrad_radius, {0.0, 1e3, false}, "",
             "cagrad: c, the distance from the mean gradient over its length");
  table.real("direction.chebyshev_smoothing", options.chebyshev_smoothing, {0.0, 1e6, true}, "nat",
             "smooth_chebyshev: mu of mu log sum exp(lambda_j l_j / mu)");
}

}  // namespace

void declare(FieldTable& table, DirectionOptions& options) {
  table.choice("direction.solver", options.solver,
               {"apo_lp", "fixed", "epo", "mgda", "firm", "cagrad", "pcgrad", "nash_mtl", "upgrad",
                "dual_proj", "aligned_mtl", "imtl_g", "smooth_chebyshev"},
               "apo_lp: the linear program of the APO paper; fixed: the preference itself, that is "
               "the gradient of the preference-weighted loss; epo: exact Pareto optimal search; "
               "firm: regularised min-norm point; mgda: min-norm point; the others by their "
               "papers' names");
  declare_lp(table, options);
  declare_weights(table, options);
  declare_aggregators(table, options);
}

}  // namespace apo::direction
