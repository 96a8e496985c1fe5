#include "apo/clustering/options.hpp"

namespace apo::clustering {

void declare(FieldTable& table, ClusteringOptions& options) {
  table.choice("clustering.method", options.method, {"bac", "none"},
               "bac: bottleneck order, then Ward on adjustment vectors; none: one cluster");
  table.integer("clustering.budget", options.budget, {1, 100000}, "clusters", "Number of clusters");
  table.choice("clustering.linkage", options.linkage, {"ward"},
               "Merge cost: Ward's, weighted by the clients' numbers of pairs");
  table.choice("clustering.reference", options.reference, {"initial"},
               "Where the losses that cluster the clients are taken: the untrained adapter");
  table.choice("clustering.budget_policy", options.budget_policy, {"merge", "raise"},
               "When the budget is below the number of bottleneck orders: merge orders, or use "
               "more clusters");
}

}  // namespace apo::clustering
