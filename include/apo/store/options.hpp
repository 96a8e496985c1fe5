#pragma once

/// @file
/// [checkpoint] of the configuration.

#include "apo/core/field_table.hpp"

namespace apo::store {

struct CheckpointOptions {
  int every_rounds = 10;
  int keep = 3;
};

void declare(FieldTable& table, CheckpointOptions& options);

}  // namespace apo::store
