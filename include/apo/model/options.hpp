#pragma once

/// @file
/// [model] and [lora] of the configuration.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::model {

struct ModelOptions {
  std::string path;                   ///< Hugging Face folder
  std::string dtype = "float32";      ///< float32 | bfloat16
  std::string quantization = "none";  ///< none
};

struct LoraOptions {
  int rank = 8;
  double alpha = 16.0;
  double dropout = 0.05;
  std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                      "gate_proj", "up_proj", "down_proj"};
};

void declare(FieldTable& table, ModelOptions& options);
void declare(FieldTable& table, LoraOptions& options);

}  // namespace apo::model
