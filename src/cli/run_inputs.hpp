#pragma once

/// @file
/// Everything a run reads, checked before a model is loaded.

#include <filesystem>
#include <memory>

#include "apo/config/run_config.hpp"
#include "apo/data/partition.hpp"
#include "apo/data/token_pairs.hpp"
#include "apo/model/model_config.hpp"
#include "apo/reward/reward_model.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {

struct RunInputs {
  model::ModelConfig model_config;
  text::Tokenizer tokenizer;
  text::ChatTemplate chat;
  data::PreferenceData data;
  data::Partition partition;
  data::TokenData tokens;
  std::unique_ptr<reward::RewardModel> reward;  ///< null with evaluate.reward = none
};

/// Configuration, tokenizer and tensor table of the model, preference files, partition, token ids.
/// Unusable pairs have left the clients' pools.
/// @throws Error(kData, kConfig)  the first part that does not fit
[[nodiscard]] RunInputs load_inputs(const config::RunConfig& config);

/// Counts of everything dropped, by reason, as log lines.
void log_inputs(const RunInputs& inputs);

}  // namespace apo::cli
