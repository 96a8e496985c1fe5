#pragma once

/// @file
/// A tiny random language model and preference pairs for it.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "unit/model/tiny_models.hpp"

#include "apo/core/rng.hpp"
#include "apo/data/token_pairs.hpp"
#include "apo/model/language_model.hpp"

namespace apo::objective::testing {

namespace tiny = model::tiny;

inline model::LanguageModel language_model(model::Architecture architecture,
                                           const model::LoraOptions& lora) {
  return {tiny::model(architecture), lora, "tiny"};
}

/// Rank 2 on all seven projections.
inline model::LoraOptions all_projections(double dropout) {
  model::LoraOptions options;
  options.rank = 2;
  options.alpha = 4.0;
  options.dropout = dropout;
  return options;
}

/// Pair 0 is the golden one; 1 is the same the other way round; the others are random.
inline data::TokenData token_data(int num_pairs = 12) {
  data::TokenData data;
  data.pairs.push_back({tiny::kPrompt, tiny::kChosen, tiny::kRejected});
  data.pairs.push_back({tiny::kPrompt, tiny::kRejected, tiny::kChosen});
  CounterRng rng({1, Purpose::kTest, 2, 0, 0});
  const auto some_ids = [&rng](std::uint64_t low, std::uint64_t high) {
    std::vector<std::int32_t> ids(low + rng.below(high - low + 1));
    for (std::int32_t& id : ids) {
      id = static_cast<std::int32_t>(rng.below(13));
    }
    return ids;
  };
  while (static_cast<int>(data.pairs.size()) < num_pairs) {
    data.pairs.push_back({some_ids(1, 6), some_ids(1, 8), some_ids(1, 8)});
  }
  return data;
}

inline std::vector<float> random_adapter(const model::AdapterLayout& layout, std::uint64_t seed,
                                         double scale = 0.2) {
  CounterRng rng({seed, Purpose::kTest, 3, 0, 0});
  std::vector<float> flat(static_cast<std::size_t>(layout.num_parameters));
  for (float& value : flat) {
    value = static_cast<float>(scale * rng.normal());
  }
  return flat;
}

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

inline double max_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

}  // namespace apo::objective::testing
