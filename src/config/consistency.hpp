#pragma once

/// @file
/// Values that are fine one by one and cannot work together.

#include <string>
#include <vector>

#include "apo/config/run_config.hpp"

namespace apo::config {

struct Conflict {
  std::vector<std::string> keys;  ///< the keys it depends on
  std::string message;            ///< names them, with what would work
};

[[nodiscard]] std::vector<Conflict> find_conflicts(const RunConfig& config);

}  // namespace apo::config
