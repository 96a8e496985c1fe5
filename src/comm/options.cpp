#include "apo/comm/options.hpp"

namespace apo::comm {

void declare(FieldTable& table, RuntimeOptions& options) {
  table.unsigned_required("runtime.seed", options.seed,
                          "Seed of every random draw; there is no default on purpose");
  table.choice("runtime.device", options.device, {"auto", "cpu", "cuda"}, "Where tensors live");
  table.choice("runtime.collectives", options.collectives, {"auto", "mpi", "nccl"},
               "Library that moves adapters between the ranks of a cluster");
  table.choice(
      "runtime.reduction", options.reduction, {"reproducible", "fast"},
      "reproducible: updates are added exactly, so the result does not depend on the number "
      "of ranks or their placement; fast: one all-reduce of per-rank float32 sums");
  table.integer("runtime.threads", options.threads, {1, 1024}, "threads",
                "Threads of one rank; results depend on it, so it is fixed and recorded");
  table.real("runtime.timeout", options.timeout, {0.0, 1e7, false}, "s",
             "Time without progress of a rank after which the job is ended; 0: never");
}

}  // namespace apo::comm
