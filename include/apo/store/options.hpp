#pragma once

/// @file
/// [checkpoint] of the configuration.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::store {

struct CheckpointOptions {
  int every_rounds = 10;
  int keep = 3;
  double every_minutes = 0.0;  ///< also after so much time; 0: by rounds only
  /// Stop in time for this limit, as SLURM writes it: MM, HH:MM:SS, D-HH:MM:SS; empty: none
  std::string max_walltime;
  std::vector<std::string> stop_signals = {"TERM", "INT", "USR1", "USR2"};
  int verify_every = 10;  ///< every k-th checkpoint is read back and compared; 0: never
};

void declare(FieldTable& table, CheckpointOptions& options);

}  // namespace apo::store
