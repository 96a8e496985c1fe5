#pragma once

/// @file
/// Llama and Qwen2 forward pass with an optional LoRA adapter (spec llm.md, sections 2 and 3).
/// Torch headers: only model, objective, reward and their tests include this file; others use
/// language_model.hpp.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/model/adapter.hpp"
#include "apo/model/model_config.hpp"

namespace apo::model {

/// A prompt and a response; log-probabilities are of the response given the prompt.
struct Sequence {
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> response;
};

/// Names the dropout masks of one training step: masks depend on this key, the layer, the module
/// and the ids of the sequence, never on its place in a batch or on the other sequences.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t client = 0;
  std::uint64_t step = 0;
};

/// Keys and values of one generation, post-RoPE. Filled by next_logits(); an empty one starts a
/// generation.
struct KvCache {
  std::vector<at::Tensor> keys;    ///< per layer [B, nkv, capacity, hd]
  std::vector<at::Tensor> values;  ///< per layer [B, nkv, capacity, hd]
  std::int64_t capacity = 64;      ///< positions to make room for at first; grows when needed
};

/// The frozen base. Shapes: B sequences, T tokens, H hidden, V vocabulary.
class CausalLm {
 public:
  /// Weights by HF name; tied models hold no lm_head. Tensors are used as they are (dtype, device).
  /// @throws Error(kInternal)  a tensor is missing or has another shape
  CausalLm(ModelConfig config, std::map<std::string, at::Tensor> weights);
  ~CausalLm();
  CausalLm(CausalLm&&) noexcept;
  CausalLm& operator=(CausalLm&&) noexcept;
  CausalLm(const CausalLm&) = delete;
  CausalLm& operator=(const CausalLm&) = delete;

  /// Reads a checkpoint folder; everything is checked before memory is taken.
  /// @param dtype  "float32" or "bfloat16"
  /// @throws Error(kData), BackendError
  static CausalLm load(const std::string& dir, const std::string& dtype);

  [[nodiscard]] const ModelConfig& config() const;
  /// The weights, by HF name; pretraining sets requires_grad on them.
  [[nodiscard]] const std::map<std::string, at::Tensor>& weights() const;

  /// Logits of every position, float32.
  ///
  /// @param ids      [B, T] int64
  /// @param lengths  [B] real tokens of every row (right padding); empty: all T
  /// @param adapter  [P] float32 flat adapter (may require grad), or undefined: adapter off
  /// @param layout   of the adapter; ignored when adapter is undefined
  /// @return [B, T, V]
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids, std::span<const std::int64_t> lengths,
                                  const at::Tensor& adapter, const AdapterLayout* layout,
                                  const std::optional<DropoutKey>& dropout = std::nullopt) const;

  /// Summed log-probabilities of the responses, float32, differentiable in `adapter`.
  /// The LM head runs on response positions only.
  /// @return [S]
  [[nodiscard]] at::Tensor response_log_probs(
      std::span<const Sequence> sequences, const at::Tensor& adapter, const AdapterLayout* layout,
      const std::optional<DropoutKey>& dropout = std::nullopt) const;

  /// One step of generation: appends `ids` [B, T] to the cache and returns the logits of the last
  /// position, [B, V] float32. @param positions [B, T] int64; @param key_mask [B, T_total] bool
  [[nodiscard]] at::Tensor next_logits(const at::Tensor& ids, const at::Tensor& positions,
                                       const at::Tensor& key_mask, KvCache& cache,
                                       const at::Tensor& adapter,
                                       const AdapterLayout* layout) const;

  /// A model with W + s B A in place of W, which generates without the adapter's extra products.
  /// Equal to the adapter up to rounding; never used for the reference policy or for training.
  [[nodiscard]] CausalLm merged(const at::Tensor& adapter, const AdapterLayout& layout) const;

  /// The same model with its weights on "cpu" or "cuda". @throws Error(kDevice)  no such device
  [[nodiscard]] CausalLm to(const std::string& device) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::model
