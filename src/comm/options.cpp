#include "apo/comm/options.hpp"

namespace apo::comm {

void declare(FieldTable& table, RuntimeOptions& options) {
  table.unsigned_required("runtime.seed", options.seed,
                          "Seed of every random draw; there is no default on purpose");
  table.choice("runtime.device", options.device, {"auto", "cpu", "cuda"}, "Where tensors live");
  table.choice("runtime.collectives", options.collectives, {"auto", "mpi", "nccl"},
               "Library that moves adapters between the ranks of a cluster");
  table.choice("runtime.reduction", options.reduction, {"ordered", "fast"},
               "ordered: updates are added client by client, in client order, so the result does "
               "not depend on the number of ranks; fast: one all-reduce of per-rank sums");
  table.integer("runtime.threads", options.threads, {1, 1024}, "threads",
                "Threads of one rank; results depend on it, so it is fixed and recorded");
}

}  // namespace apo::comm
