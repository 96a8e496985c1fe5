#pragma once

/// @file
/// FSPO as a baseline (spec algorithms.md, section 6): no federation; every new client optimises
/// IPO on its own pairs.

#include <cstdint>
#include <memory>

#include "apo/data/partition.hpp"
#include "apo/data/token_pairs.hpp"
#include "apo/federation/options.hpp"
#include "apo/methods/options.hpp"
#include "apo/methods/personaliser.hpp"
#include "apo/model/language_model.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::methods {

/// Steps on sum_j lambda_j l_j, l_j the mean IPO loss of objective j's pairs, in stratified batches
/// of fspo.batch_size over the client's adapt.shots pairs; log-probabilities are summed and
/// compared with those of the base model. An epoch is as many steps as its batches need to hold
/// every pair; an objective with fewer pairs than they ask for repeats some.
///
/// Optimiser as published: RMSprop, linear warm-up (factor (k + 1) / (W + 1) at step k), clipping
/// of the gradient's norm. What the published model also does, pairs of the user as examples in the
/// prompt of a model that was trained to read them, is left out: the frozen model was not.
///
/// @param model, tokens, partition  must outlive the result
[[nodiscard]] std::unique_ptr<Personaliser> make_fspo_personaliser(
    const model::LanguageModel& model, const data::TokenData& tokens, int num_objectives,
    const data::Partition& partition, const FspoOptions& options,
    const federation::AdaptOptions& adapt, std::uint64_t seed);

/// The same on any losses, which then are whatever `objectives` computes.
/// @param objectives, partition  must outlive the result
[[nodiscard]] std::unique_ptr<Personaliser> make_fspo_personaliser(
    objective::ObjectiveSet& objectives, const data::Partition& partition,
    const FspoOptions& options, const federation::AdaptOptions& adapt, std::uint64_t seed);

}  // namespace apo::methods
