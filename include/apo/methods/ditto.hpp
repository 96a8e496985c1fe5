#pragma once

/// @file
/// DITTO as a baseline (spec algorithms.md, section 6): no federation; every new client fine-tunes
/// on its chosen responses, then prefers them to what its own policy answers.

#include <cstdint>
#include <memory>
#include <vector>

#include "apo/data/token_pairs.hpp"
#include "apo/methods/evaluation.hpp"
#include "apo/methods/options.hpp"
#include "apo/methods/personaliser.hpp"
#include "apo/model/language_model.hpp"

namespace apo::methods {

/// References outlive the personaliser.
struct DittoInputs {
  const model::LanguageModel& model;
  const data::TokenData& tokens;          ///< at the positions that clients name
  int num_objectives = 1;                 ///< m
  std::vector<std::int32_t> closing_ids;  ///< after a response that ended by itself
  std::vector<std::int32_t> stop_ids;     ///< at which a response ends
  std::int64_t num_ids = 0;               ///< see model::GenerationOptions
};
/// Closing and stop tokens as the chat template has them.
[[nodiscard]] DittoInputs ditto_inputs(const EvaluationInputs& inputs,
                                       const data::TokenData& tokens);

/// Demonstrations are the chosen responses of the client's support set, all objectives pooled: a
/// batch's loss is the mean over its pairs with the weight lambda_j of the objective they came
/// from. Rejected responses are never looked at.
///
/// Fine-tuning: AdamW on the mean token NLL, cosine with warm-up, until a batch's loss is below
/// ditto.sft_stop_loss. Self-play: AdamW on DPO against the fine-tuned policy, without dropout, on
/// the comparisons of ditto_schedule.hpp; a sample that equals its demonstration has no gradient.
///
/// @param shots  adapt.shots
[[nodiscard]] std::unique_ptr<Personaliser> make_ditto_personaliser(DittoInputs inputs,
                                                                    const DittoOptions& options,
                                                                    int shots, std::uint64_t seed);

}  // namespace apo::methods
