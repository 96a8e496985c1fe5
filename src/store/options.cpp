#include "apo/store/options.hpp"

namespace apo::store {

void declare(FieldTable& table, CheckpointOptions& options) {
  table.integer("checkpoint.every_rounds", options.every_rounds, {1, 1000000}, "rounds",
                "Rounds between two checkpoints");
  table.integer("checkpoint.keep", options.keep, {1, 1000}, "checkpoints",
                "Newest checkpoints that are kept");
  table.real("checkpoint.every_minutes", options.every_minutes, {0.0, 1e6, false}, "min",
             "Also write one after so much time; 0: by rounds only");
  table.text("checkpoint.max_walltime", options.max_walltime,
             "Stop with a checkpoint and exit code 75 in time for this limit: MM, HH:MM:SS or "
             "D-HH:MM:SS; empty: no limit");
  table.list("checkpoint.stop_signals", options.stop_signals,
             "Signals that stop with a checkpoint at the end of the round", false,
             {"TERM", "INT", "USR1", "USR2", "HUP"});
  table.integer("checkpoint.verify_every", options.verify_every, {0, 1000000}, "checkpoints",
                "Every so many checkpoints one is read back and compared; 0: never");
}

}  // namespace apo::store
