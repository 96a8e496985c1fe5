#pragma once

/// @file
/// What an adapter is worth to one test client: held-out losses, and rewards of sampled responses.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apo/core/table.hpp"
#include "apo/data/partition.hpp"
#include "apo/methods/options.hpp"
#include "apo/model/language_model.hpp"
#include "apo/objective/objective_set.hpp"
#include "apo/reward/reward_model.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::methods {

/// Which adapter a row of the evaluation is about.
enum class Stage {
  kBase,         ///< adapter off
  kInitialiser,  ///< the cluster's adapter, before the client adapts it
  kAdapted,      ///< after the client's few-shot adaptation
};
[[nodiscard]] std::string stage_name(Stage stage);

/// Names of one row.
struct EvaluationKey {
  std::string method;
  int start_round = 0;
  int cluster = 0;
  Stage stage = Stage::kBase;
};

/// Empty tables with all their columns, so that runs without rows have them too.
[[nodiscard]] Table summary_table(int num_objectives);
[[nodiscard]] Table response_table(int num_objectives);

/// Everything evaluation reads; references must outlive the Evaluator.
struct EvaluationInputs {
  const data::PreferenceData& data;
  const model::LanguageModel& model;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate& chat;
  objective::ObjectiveSet& objectives;
  reward::RewardModel* reward = nullptr;  ///< null: losses only
};

class Evaluator {
 public:
  Evaluator(const EvaluationInputs& inputs, const EvaluateOptions& options, std::uint64_t seed);

  /// Appends one row to `summary`, and one per response to `responses`.
  ///
  /// Responses are sampled with numbers that depend on (seed, client, prompt, sample) alone: two
  /// methods, or before and after, answer the same prompts with the same randomness.
  ///
  /// @param adapter   [P]; empty: adapter off
  /// @param sample    false: losses only, reward columns NaN
  void evaluate(const data::Client& client, std::span<const float> adapter,
                const EvaluationKey& key, bool sample, Table& summary, Table& responses);

 private:
  struct Prompt {
    std::vector<text::Turn> turns;
    std::vector<std::int32_t> ids;
    std::string rendered;
  };
  [[nodiscard]] std::vector<Prompt> prompts_of(const data::Client& client) const;

  EvaluationInputs inputs_;
  EvaluateOptions options_;
  std::uint64_t seed_;
};

}  // namespace apo::methods
