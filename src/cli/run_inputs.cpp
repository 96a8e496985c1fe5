#include "run_inputs.hpp"

#include <algorithm>

#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::cli {
namespace {

/// Pairs that tokenisation found unusable leave every pool.
void drop_unusable(data::Partition& partition, const data::TokenData& tokens) {
  for (data::Client& client : partition.clients) {
    for (data::Pool* pool : {&client.train, &client.adapt, &client.evaluate}) {
      for (auto& pairs : *pool) {
        std::erase_if(pairs, [&](int position) {
          return !tokens.pairs[static_cast<std::size_t>(position)].usable();
        });
      }
    }
    const bool train = client.split == data::ClientSplit::kTrain;
    if (data::pool_size(train ? client.train : client.adapt) == 0) {
      throw Error(Fault::kData,
                  fmt::format("client '{}': every pair was dropped by tokenisation (max_length too "
                              "small?); it has nothing to {} on",
                              client.name, train ? "train" : "adapt"));
    }
  }
}

void log_counts(const char* what, const std::map<std::string, std::int64_t>& counts) {
  for (const auto& [reason, count] : counts) {
    if (count > 0) {
      log::info("  {}: {} x {}", what, count, reason);
    }
  }
}

}  // namespace

RunInputs load_inputs(const config::RunConfig& config) {
  data::PreferenceData data = data::load_preference_data(config.data);
  data::Partition partition = data::make_partition(data, config.data, *config.runtime.seed);
  model::ModelConfig model_config = model::load_model_config(config.model.path);
  model::check_checkpoint(model_config, model::CheckpointReader::open(config.model.path));
  text::Tokenizer tokenizer = text::Tokenizer::load(config.model.path);
  if (tokenizer.max_id() >= model_config.vocab_size) {
    throw Error(Fault::kData,
                fmt::format("{}: the tokenizer's largest id is {}, but the embedding matrix has {} "
                            "rows (vocab_size in config.json)",
                            config.model.path, tokenizer.max_id(), model_config.vocab_size));
  }
  text::ChatTemplate chat = text::ChatTemplate::load(config.model.path, config.data.chat_template,
                                                     config.data.template_date);
  data::TokenData tokens =
      data::tokenize_pairs(data, tokenizer, chat, config.data, model_config.vocab_size);
  drop_unusable(partition, tokens);
  std::unique_ptr<reward::RewardModel> reward;
  if (config.evaluate.reward == "rule") {
    reward = reward::make_rule_reward(config.data.objectives);
  }
  return {std::move(model_config), std::move(tokenizer), std::move(chat),  std::move(data),
          std::move(partition),    std::move(tokens),    std::move(reward)};
}

void log_inputs(const RunInputs& inputs) {
  log::info("data: {} pairs, {} training clients, {} test clients, chat template {}",
            inputs.data.pairs.size(), inputs.partition.train_clients().size(),
            inputs.partition.test_clients().size(), inputs.chat.name());
  log_counts("rows dropped", inputs.data.dropped);
  log_counts("partition", inputs.partition.dropped);
  log_counts("token ids", inputs.tokens.counts);
}

}  // namespace apo::cli
