#pragma once

/// @file
/// [phase1], [phase2], [adapt] of the configuration. Defaults are Table 3 of the APO paper.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::federation {

struct Phase1Options {
  int rounds = 200;
  int local_steps = 2;
  int batch_size = 8;
  int gradient_accumulation = 4;
  double learning_rate = 5e-5;
  double learning_rate_final = 1e-5;
  int clients_per_round = 8;
  std::string optimizer = "adamw";
  double gradient_clip = 1.0;
  double server_learning_rate = 1.0;
};

struct Phase2Options {
  int rounds = 10;
  int shots = 20;
  int inner_steps = 3;
  double inner_learning_rate = 5e-5;
  int inner_batch_size = 8;
  double gradient_clip = 10.0;
  int clients_per_round = 8;
  std::string server_optimizer = "adamw";
  std::vector<double> server_learning_rate = {2e-5};
  std::vector<double> server_weight_decay = {0.0};
  std::vector<int> start_rounds;
};

struct AdaptOptions {
  int shots = 20;
  int steps = 3;
  double learning_rate = 5e-5;
  int test_clients_per_cluster = 10;
};

void declare(FieldTable& table, Phase1Options& options);
void declare(FieldTable& table, Phase2Options& options);
void declare(FieldTable& table, AdaptOptions& options);

}  // namespace apo::federation
