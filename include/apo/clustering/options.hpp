#pragma once

/// @file
/// [clustering] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::clustering {

struct ClusteringOptions {
  std::string method = "bac";  ///< bac | hc (dendrogram on lambda, section 2.6) | none
  int budget = 4;
  std::string linkage = "ward";         ///< ward | average | complete | single
  std::string weights = "pairs";        ///< pairs (W_i = N_i) | equal (W_i = 1)
  std::string reference = "initial";    ///< initial | warm:ROUNDS (w_ref of section 2.2)
  std::string budget_policy = "merge";  ///< merge | raise
  std::string allocation = "height";    ///< height | largest_remainder (section 2.4)
  bool force_budget = false;            ///< force_b: also part clients with equal adjustments
};

/// R of reference = warm:R; 0 for initial.
/// @throws Error(kConfig)  otherwise
[[nodiscard]] int warm_rounds(const ClusteringOptions& options);

void declare(FieldTable& table, ClusteringOptions& options);

}  // namespace apo::clustering
