#pragma once

/// @file
/// [dpo] of the configuration.

#include "apo/core/field_table.hpp"

namespace apo::objective {

struct DpoOptions {
  double beta = 0.1;
  double nll_weight = 0.0;
};

void declare(FieldTable& table, DpoOptions& options);

}  // namespace apo::objective
