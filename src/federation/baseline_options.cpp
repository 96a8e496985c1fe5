#include "apo/federation/options.hpp"

namespace apo::federation {

void declare(FieldTable& table, BaselineOptions& options) {
  table.choice("baseline.compression", options.compression, {"none", "svd", "topk"},
               "fedcmoo and fedcmoo_pref: how clients compress their m gradients before the server "
               "estimates the Gram matrix");
  table.real("baseline.compression_quality", options.compression_quality, {0.0, 64.0, true}, "",
             "Size of compressed gradients in units of one adapter (q); m and more keeps all "
             "entries, 2 m and more the full rank");
  table.integer("baseline.weight_steps", options.weight_steps, {1, 1000000}, "steps",
                "fedcmoo: projected gradient steps on the simplex per round");
  table.real("baseline.weight_learning_rate", options.weight_learning_rate, {0.0, 1e3, true}, "",
             "fedcmoo: length of those steps, for the Gram matrix scaled to mean gradient norm 1");
  table.real("baseline.pref_mix", options.pref_mix, {0.0, 1.0}, "",
             "fedcmoo_pref: share f of the uniform weights in (1 - f) mu + f / m");
  table.real("baseline.pref_beta_tolerance", options.pref_beta_tolerance, {0.0, 1e3}, "nat",
             "fedcmoo_pref: uniformity of the mean losses below which all objectives descend");
  table.real("baseline.pref_bottleneck_band", options.pref_bottleneck_band, {0.0, 1.0}, "",
             "fedcmoo_pref: weighted losses within this share of the largest count as bottlenecks");
  table.choice("baseline.update_normalisation", options.update_normalisation,
               {"none", "iteration", "update"},
               "fsmgda: unit norm for the gradient of every local step, or for each objective's "
               "mean update");
  table.real("baseline.update_topk", options.update_topk, {0.0, 1.0, true}, "",
             "fsmgda: share of the entries of each update that a client sends, largest first");
  table.real("baseline.fairness", options.fairness, {0.0, 1.0}, "",
             "fedmgda_plus: largest distance of a client's weight from its share (epsilon); 0 is "
             "FedAvg of normalised updates, 1 is MGDA over the clients");
  table.integer("baseline.num_models", options.num_models, {1, 1000}, "models",
                "ifca: models that the clients choose from (k)");
  table.choice("baseline.cluster_loss", options.cluster_loss, {"weighted", "chebyshev"},
               "ifca: what a client compares models by: its preference-weighted mean loss, or the "
               "largest weighted loss");
  table.real("baseline.init_scale", options.init_scale, {0.0, 1e3}, "",
             "ifca: standard deviation of the noise that parts the models at the start");
}

}  // namespace apo::federation
