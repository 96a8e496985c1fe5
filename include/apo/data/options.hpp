#pragma once

/// @file
/// [data] of the configuration.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::data {

struct DataOptions {
  std::vector<std::string> files;
  std::string format = "auto";
  std::vector<std::string> objectives;
  std::string clients = "field";
  std::string preferences = "dirichlet:1";
  int max_length = 256;
  int max_prompt_length = 128;
  std::string truncation = "keep_end";
  std::string on_bad_row = "error";
  std::string duplicates = "keep";
  double test_fraction = 0.2;
  int pairs_per_client = 0;
  int adapt_pairs = 20;
  std::string chat_template = "auto";
  std::string template_date = "26 Jul 2024";
};

void declare(FieldTable& table, DataOptions& options);

}  // namespace apo::data
