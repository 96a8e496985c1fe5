#include "apo/store/options.hpp"

namespace apo::store {

void declare(FieldTable& table, CheckpointOptions& options) {
  table.integer("checkpoint.every_rounds", options.every_rounds, {1, 1000000}, "rounds",
                "Rounds between two checkpoints");
  table.integer("checkpoint.keep", options.keep, {1, 1000}, "checkpoints",
                "Newest checkpoints that are kept");
}

}  // namespace apo::store
