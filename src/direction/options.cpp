#include "apo/direction/options.hpp"

namespace apo::direction {

void declare(FieldTable& table, DirectionOptions& options) {
  table.choice("direction.solver", options.solver, {"apo_lp", "fixed"},
               "apo_lp: the linear program of the APO paper; fixed: the preference itself, that is "
               "the gradient of the preference-weighted loss");
  table.real("direction.beta_tolerance", options.beta_tolerance, {0.0, 10.0, false}, "nat",
             "Uniformity (KL) up to which losses count as balanced");
  table.real("direction.bottleneck_tolerance", options.bottleneck_tolerance, {0.0, 0.5, false}, "",
             "Relative band below the largest weighted loss that counts as bottleneck");
  table.real("direction.ascent_tolerance", options.ascent_tolerance, {0.0, 0.5, false}, "",
             "Relative size below which an inner product with the balancing direction counts as 0");
  table.real("direction.loss_floor", options.loss_floor, {0.0, 1.0, true}, "nat",
             "Losses below are lifted to it, and counted");
}

}  // namespace apo::direction
