#pragma once

/// @file
/// The whole configuration of a run, typed; each room owns its part.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apo/clustering/options.hpp"
#include "apo/comm/options.hpp"
#include "apo/core/field_table.hpp"
#include "apo/data/options.hpp"
#include "apo/direction/options.hpp"
#include "apo/federation/options.hpp"
#include "apo/methods/options.hpp"
#include "apo/model/options.hpp"
#include "apo/objective/options.hpp"
#include "apo/store/options.hpp"

namespace apo::config {

struct RunConfig {
  methods::MethodOptions method;
  objective::AnalyticOptions analytic;
  model::ModelOptions model;
  model::LoraOptions lora;
  data::DataOptions data;
  clustering::ClusteringOptions clustering;
  objective::DpoOptions dpo;
  direction::DirectionOptions direction;
  federation::Phase1Options phase1;
  federation::Phase2Options phase2;
  federation::AdaptOptions adapt;
  federation::BaselineOptions baseline;
  federation::MonitorOptions monitor;
  methods::EvaluateOptions evaluate;
  methods::FspoOptions fspo;
  methods::DittoOptions ditto;
  store::CheckpointOptions checkpoint;
  comm::RuntimeOptions runtime;
};

/// All rows, bound to `config`, which must outlive the table.
[[nodiscard]] FieldTable make_field_table(RunConfig& config);

/// Defaults, then the file (INI, Boost.Program_options), then the command line's overrides. Every
/// error is collected: unknown keys with the nearest known one, malformed and out-of-range values,
/// missing required keys, combinations that cannot work (check_consistency).
///
/// Relative paths in model.path, data.files and data.preferences are taken from the working
/// directory.
///
/// @param overrides  ("section.key", "value"), in command-line order; later ones win
/// @throws Error(kConfig)  with all messages, one per line
[[nodiscard]] RunConfig load_run_config(
    const std::filesystem::path& file,
    const std::vector<std::pair<std::string, std::string>>& overrides);

/// INI text of every key with its present value, in table order; reading it back gives an equal
/// configuration. This is what is stored and hashed.
[[nodiscard]] std::string to_ini(const RunConfig& config);

}  // namespace apo::config
