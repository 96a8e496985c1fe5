#pragma once

/// @file
/// Rotary positions: frequencies with the llama3 scaling, and tables by position.
/// Private to model; the frequencies are tested against published numbers.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/model/model_config.hpp"

namespace apo::model {

/// [hd / 2] theta^(-2d/hd) in float32, rescaled by wavelength when the config says so.
[[nodiscard]] std::vector<float> rope_frequencies(const ModelConfig& config);

/// Cosines and sines by position, float32. Grows on demand; not for use by several threads.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const ModelConfig& config, at::Device device);

  struct Angles {
    at::Tensor cosine;       ///< [N, hd]
    at::Tensor signed_sine;  ///< [N, hd], first half negated
  };
  /// @param positions  [N] int64, all below `end`
  [[nodiscard]] Angles at(const at::Tensor& positions, std::int64_t end);

 private:
  at::Tensor frequencies_;  ///< [hd / 2]
  Angles table_;
  std::int64_t size_ = 0;
};

}  // namespace apo::model
