#include "causal_lm_rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

namespace apo::model {

std::vector<float> rope_frequencies(const ModelConfig& config) {
  const auto theta = static_cast<float>(config.rope_theta);
  const auto hd = static_cast<float>(config.head_dim);
  const RopeScaling& scaling = config.rope_scaling;
  std::vector<float> frequencies;
  for (std::int64_t d = 0; d < config.head_dim / 2; ++d) {
    float inv = 1.0F / std::pow(theta, 2.0F * static_cast<float>(d) / hd);
    if (scaling.factor != 1.0) {
      const auto factor = static_cast<float>(scaling.factor);
      const auto low = static_cast<float>(scaling.low_freq_factor);
      const auto high = static_cast<float>(scaling.high_freq_factor);
      const auto original = static_cast<float>(scaling.original_max_position);
      const float wavelength = 2.0F * std::numbers::pi_v<float> / inv;
      if (wavelength > original / low) {
        inv /= factor;
      } else if (wavelength >= original / high) {
        const float smooth = (original / wavelength - low) / (high - low);
        inv = (1.0F - smooth) * inv / factor + smooth * inv;
      }
    }
    frequencies.push_back(inv);
  }
  return frequencies;
}

RopeTable::RopeTable(const ModelConfig& config, at::Device device)
    : frequencies_(at::tensor(rope_frequencies(config)).to(device)) {}

RopeTable::Angles RopeTable::at(const at::Tensor& positions, std::int64_t end) {
  if (end > size_) {
    size_ = std::max<std::int64_t>(end, 2 * size_);
    const at::Tensor angles =
        at::arange(size_, frequencies_.options()).unsqueeze(1) * frequencies_.unsqueeze(0);
    const at::Tensor cosine = angles.cos();
    const at::Tensor sine = angles.sin();
    table_ = {at::cat({cosine, cosine}, 1), at::cat({sine.neg(), sine}, 1)};
  }
  return {table_.cosine.index_select(0, positions), table_.signed_sine.index_select(0, positions)};
}

}  // namespace apo::model
