#pragma once

/// @file
/// [task], [method], [evaluate] and [monitor] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::methods {

struct MethodOptions {
  std::string task = "preference";
  std::string name = "apo";  ///< apo | fedavg | base
};

struct EvaluateOptions {
  std::string reward = "none";  ///< none | rule
  int max_new_tokens = 48;
  double temperature = 1.0;
  int samples_per_prompt = 1;
  int prompts_per_client = 0;
};

void declare(FieldTable& table, MethodOptions& options);
void declare(FieldTable& table, EvaluateOptions& options);

}  // namespace apo::methods
