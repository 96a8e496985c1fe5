#pragma once

/// @file
/// What an adapter is worth to one test client: held-out losses, and rewards of sampled responses.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/core/table.hpp"
#include "apo/data/partition.hpp"
#include "apo/methods/options.hpp"
#include "apo/model/language_model.hpp"
#include "apo/objective/analytic_task.hpp"
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

/// What an adapter is worth to a test client.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Appends one row to `summary`, and one per response (if any) to `responses`.
  /// @param adapter   [P]; empty: adapter off
  /// @param sample    false: losses only, reward columns NaN
  virtual void evaluate(const data::Client& client, std::span<const float> adapter,
                        const EvaluationKey& key, bool sample, Table& summary,
                        Table& responses) = 0;
};

/// What the evaluation of a language model reads; references must outlive the Evaluator.
struct EvaluationInputs {
  const data::PreferenceData& data;
  const model::LanguageModel& model;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate& chat;
  objective::ObjectiveSet& objectives;
  reward::RewardModel* reward = nullptr;  ///< null: losses only
};

/// Held-out losses and, with a reward model, sampled responses: with numbers that depend on (seed,
/// client, prompt, sample) alone, so that two methods, or before and after, answer the same prompts
/// with the same randomness.
[[nodiscard]] std::unique_ptr<Evaluator> make_language_evaluator(const EvaluationInputs& inputs,
                                                                 const EvaluateOptions& options,
                                                                 std::uint64_t seed);

/// Losses against the client's own Pareto point: solution_j = exp(-l_j) (algorithms.md 4.1).
/// @param task, objectives  must outlive the result
[[nodiscard]] std::unique_ptr<Evaluator> make_analytic_evaluator(
    const objective::AnalyticTask& task, objective::ObjectiveSet& objectives);

}  // namespace apo::methods
