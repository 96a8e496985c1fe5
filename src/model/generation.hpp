#pragma once

/// @file
/// Sampling of responses. Private to model.

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/core/rng.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/model/language_model.hpp"

namespace apo::model {

/// Draws one id from softmax(logits / temperature), or the first largest at temperature 0.
/// @param logits  [V]; only the first `num_ids` take part
/// @param uniform  in [0, 1); not used at temperature 0
[[nodiscard]] std::int32_t sample_id(std::span<const float> logits, std::int64_t num_ids,
                                     double temperature, double uniform);

/// @param adapter  [P] or undefined
[[nodiscard]] std::vector<std::vector<std::int32_t>> generate_responses(
    const CausalLm& lm, const at::Tensor& adapter, const AdapterLayout* layout,
    std::span<const GenerationRequest> requests, const GenerationOptions& options);

}  // namespace apo::model
