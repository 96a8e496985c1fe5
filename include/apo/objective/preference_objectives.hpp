#pragma once

/// @file
/// Losses of a language model on preference pairs as an ObjectiveSet (spec llm.md 6.3, 6.4;
/// algorithms.md 1.7 and 6). L_j is the mean over pairs of one of
///   dpo  softplus(-beta h)
///   ipo  (h - 1 / (2 beta))^2, whose minimiser over the policy has h = E[+-1] / (2 beta)
///   sft  mean token NLL of the chosen response; the rejected one is never looked at
/// the first two plus nll_weight * mean token NLL of the chosen response.
/// h = (log pi(y+) - log ref(y+)) - (log pi(y-) - log ref(y-)), log-probabilities summed over the
/// response's tokens, or with average_log_probs their mean. sft has no h: its accuracy is NaN.
/// No torch in this header.

#include <memory>
#include <span>

#include "apo/data/token_pairs.hpp"
#include "apo/model/language_model.hpp"
#include "apo/objective/objective_set.hpp"
#include "apo/objective/options.hpp"

namespace apo::objective {

/// The reference engine: one forward pass per micro-batch and one plain backward pass per
/// objective. Slow and simple on purpose; faster engines are tested against it. Equal sequences of
/// a batch are computed once. Reference log-probabilities are computed on first use and kept.
///
/// Units of the same objectives share a pass, and an objective's backward pass runs only over the
/// passes that hold its pairs: disjoint objectives cost one backward pass over the batch in all.
///
/// @param model  must outlive the result
/// @param data   must outlive the result; pairs may be appended to it between calls
/// @param max_sequences  sequences per forward pass; the result depends on it in the last bits, so
///                       it is part of the configuration, not of the machine
/// @param max_tokens     likewise tokens per forward pass, which bounds the memory of the graph
///                       (about 2 MB per token of a 135M-parameter model with seven projections);
///                       a pair is computed in one pass however long it is
/// @param reference      adapter of the reference policy, [P], copied; empty: the base model
/// @throws Error(kConfig)  dpo.loss = sft with an NLL weight
[[nodiscard]] std::unique_ptr<ObjectiveSet> make_preference_objectives(
    const model::LanguageModel& model, const data::TokenData& data, int num_objectives,
    const DpoOptions& options, int max_sequences = 32, int max_tokens = 512,
    std::span<const float> reference = {});

}  // namespace apo::objective
