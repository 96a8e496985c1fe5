#pragma once

/// @file
/// [direction] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::direction {

struct DirectionOptions {
  std::string solver = "apo_lp";  ///< apo_lp | fixed
  double beta_tolerance = 1e-4;
  double bottleneck_tolerance = 1e-9;  ///< eps_star of algorithms.md 1.1
  double ascent_tolerance = 1e-6;      ///< eps_J of algorithms.md 1.1 (float32 gradients)
  double loss_floor = 1e-12;
};

void declare(FieldTable& table, DirectionOptions& options);

}  // namespace apo::direction
