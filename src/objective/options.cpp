#include "apo/objective/options.hpp"

namespace apo::objective {

void declare(FieldTable& table, DpoOptions& options) {
  table.real("dpo.beta", options.beta, {0.0, 100.0, true}, "1/nat",
             "Temperature of the preference loss: -log sigmoid(beta * h)");
  table.real("dpo.nll_weight", options.nll_weight, {0.0, 1000.0, false}, "",
             "Weight of the chosen response's mean token negative log-likelihood, added to each "
             "objective's loss; 0 is plain DPO");
}

}  // namespace apo::objective
