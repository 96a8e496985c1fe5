#pragma once

/// @file
/// The weights of a CausalLm by layer, and its two forward passes. Private to model.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "causal_lm_batch.hpp"
#include "causal_lm_rope.hpp"
#include "lora.hpp"
#include <ATen/core/Tensor.h>

#include "apo/model/causal_lm.hpp"

namespace apo::model {

struct CausalLm::Impl {
  struct Layer {
    at::Tensor attention_norm;                        ///< [H]
    at::Tensor mlp_norm;                              ///< [H]
    std::array<at::Tensor, kNumProjections> weights;  ///< [out, in]
    std::array<at::Tensor, kNumProjections> biases;   ///< [out] or undefined
  };

  Impl(ModelConfig model_config, std::map<std::string, at::Tensor> model_weights);

  /// Views of the adapter; none when it is undefined.
  [[nodiscard]] AdapterViews views(const at::Tensor& adapter, const AdapterLayout* layout,
                                   const std::optional<DropoutKey>& dropout) const;

  /// W x (+ bias) + adapter term, over packed or padded rows. @param x [N, in]; @return [N, out]
  [[nodiscard]] at::Tensor project(int layer, Projection projection, const at::Tensor& x,
                                   const AdapterViews& adapter, const RowOrigin& origin,
                                   const at::Tensor& kept) const;

  /// Feed-forward block with its residual. @param x [N, H]
  [[nodiscard]] at::Tensor feed_forward(int layer, const at::Tensor& x, const AdapterViews& adapter,
                                        const RowOrigin& origin, const at::Tensor& kept) const;

  /// Normed hidden rows of the batch: [N, H], or [K, H] when the batch names kept rows.
  [[nodiscard]] at::Tensor hidden(const PackedBatch& batch, const AdapterViews& adapter) const;
  [[nodiscard]] at::Tensor attention(int layer, const at::Tensor& normed, const PackedBatch& batch,
                                     const RopeTable::Angles& angles, const AdapterViews& adapter,
                                     const RowOrigin& origin) const;

  ModelConfig config;
  std::map<std::string, at::Tensor> weights;
  at::Tensor embedding;   ///< [V, H]
  at::Tensor final_norm;  ///< [H]
  at::Tensor head;        ///< [V, H]; the embedding when tied
  std::vector<Layer> layers;
  mutable RopeTable rope;
};

}  // namespace apo::model
