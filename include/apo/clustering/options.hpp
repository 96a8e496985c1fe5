#pragma once

/// @file
/// [clustering] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::clustering {

struct ClusteringOptions {
  std::string method = "bac";  ///< bac | none
  int budget = 4;
  std::string linkage = "ward";
  std::string reference = "initial";
  std::string budget_policy = "merge";  ///< merge | raise
};

void declare(FieldTable& table, ClusteringOptions& options);

}  // namespace apo::clustering
