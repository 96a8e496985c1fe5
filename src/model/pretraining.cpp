#include "apo/model/pretraining.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.98;
constexpr double kEpsilon = 1e-8;
constexpr std::int64_t kIgnored = -100;  // target that cross_entropy_loss leaves out

std::span<float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Matrices N(0, 1/in), those that write into the residual stream scaled by 1/sqrt(2 layers), so
/// that the stream keeps its size at the start; embeddings N(0, 0.05^2); norms 1; biases 0.
std::map<std::string, at::Tensor> initial_weights(const ModelConfig& config, std::uint64_t seed) {
  std::map<std::string, at::Tensor> weights;
  std::uint64_t tensor_index = 0;
  for (const ModelConfig::Expected& expected : config.expected_tensors()) {
    at::Tensor tensor = at::empty(expected.shape, at::TensorOptions(at::kFloat));
    CounterRng rng({seed, Purpose::kPretraining, tensor_index++, 0, 0});
    const bool norm = expected.name.find("norm") != std::string::npos;
    const bool bias = expected.name.ends_with(".bias");
    const bool embedding =
        expected.name.ends_with("embed_tokens.weight") || expected.name == "lm_head.weight";
    const bool residual =
        expected.name.ends_with("o_proj.weight") || expected.name.ends_with("down_proj.weight");
    double deviation = embedding ? 0.05 : 1.0 / std::sqrt(double(expected.shape.back()));
    if (residual) {
      deviation /= std::sqrt(2.0 * double(config.num_layers));
    }
    for (float& value : values_of(tensor)) {
      value = norm ? 1.0F : bias ? 0.0F : static_cast<float>(deviation * rng.normal());
    }
    tensor.set_requires_grad(true);
    weights.emplace(expected.name, std::move(tensor));
  }
  return weights;
}

struct Batch {
  at::Tensor ids;      ///< [B, T]
  at::Tensor targets;  ///< [B, T] id that follows, or kIgnored
  std::vector<std::int64_t> lengths;
};

Batch make_batch(const std::vector<TrainingSequence>& sequences) {
  std::size_t longest = 0;
  for (const TrainingSequence& s : sequences) {
    longest = std::max(longest, s.ids.size());
  }
  const auto rows = static_cast<std::int64_t>(sequences.size());
  const auto columns = static_cast<std::int64_t>(longest) - 1;
  expects(columns > 0, "pretrain() wants sequences of at least two tokens");
  const at::TensorOptions integers(at::kLong);
  Batch batch{
      at::zeros({rows, columns}, integers), at::full({rows, columns}, kIgnored, integers), {}};
  std::int64_t* ids = batch.ids.data_ptr<std::int64_t>();
  std::int64_t* targets = batch.targets.data_ptr<std::int64_t>();
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const TrainingSequence& s = sequences[b];
    const auto length = static_cast<std::int64_t>(s.ids.size());
    expects(s.first_target >= 1 && s.first_target < length,
            "pretrain() wants a target in every sequence");
    const std::int64_t row = static_cast<std::int64_t>(b) * columns;
    for (std::int64_t t = 0; t + 1 < length; ++t) {
      ids[row + t] = s.ids[static_cast<std::size_t>(t)];
      if (t + 1 >= s.first_target) {
        targets[row + t] = s.ids[static_cast<std::size_t>(t + 1)];
      }
    }
    batch.lengths.push_back(length - 1);
  }
  return batch;
}

class AdamW {
 public:
  explicit AdamW(const std::map<std::string, at::Tensor>& weights) : weights_(weights) {
    for (const auto& [name, tensor] : weights_) {
      const auto n = static_cast<std::size_t>(tensor.numel());
      first_[name].assign(n, 0.0F);
      second_[name].assign(n, 0.0F);
    }
  }

  /// Uses and clears the gradients.
  void step(double learning_rate, const PretrainingOptions& options) {
    ++num_steps_;
    const double norm = gradient_norm();
    const auto scale = static_cast<float>(
        options.gradient_clip > 0.0 && norm > options.gradient_clip ? options.gradient_clip / norm
                                                                    : 1.0);
    const double correction1 = 1.0 - std::pow(kBeta1, num_steps_);
    const double correction2 = 1.0 - std::pow(kBeta2, num_steps_);
    const auto step_size = static_cast<float>(learning_rate / correction1);
    const auto root_correction = static_cast<float>(std::sqrt(correction2));
    constexpr auto kB1 = static_cast<float>(kBeta1);
    constexpr auto kB2 = static_cast<float>(kBeta2);
    constexpr auto kEps = static_cast<float>(kEpsilon);
    for (auto& [name, tensor] : weights_) {
      if (!tensor.grad().defined()) {
        continue;
      }
      const at::Tensor gradient = tensor.grad().contiguous();
      const std::span<const float> g = values_of(gradient);
      const std::span<float> w = values_of(tensor);
      std::vector<float>& m = first_[name];
      std::vector<float>& v = second_[name];
      const float keep =
          tensor.dim() > 1 ? static_cast<float>(1.0 - learning_rate * options.weight_decay) : 1.0F;
      for (std::size_t p = 0; p < w.size(); ++p) {
        const float clipped = g[p] * scale;
        m[p] = kB1 * m[p] + (1.0F - kB1) * clipped;
        v[p] = kB2 * v[p] + (1.0F - kB2) * clipped * clipped;
        w[p] = w[p] * keep - step_size * m[p] / (std::sqrt(v[p]) / root_correction + kEps);
      }
      tensor.mutable_grad() = at::Tensor();
    }
  }

 private:
  [[nodiscard]] double gradient_norm() const {
    double sum = 0.0;
    for (const auto& [name, tensor] : weights_) {
      if (tensor.grad().defined()) {
        const at::Tensor gradient = tensor.grad().contiguous();
        for (const float value : values_of(gradient)) {
          sum += double(value) * double(value);
        }
      }
    }
    return std::sqrt(sum);
  }

  std::map<std::string, at::Tensor> weights_;  ///< the model's own tensors
  std::map<std::string, std::vector<float>> first_;
  std::map<std::string, std::vector<float>> second_;
  int num_steps_ = 0;
};

double scheduled_rate(const PretrainingOptions& options, int step) {
  const double warm = std::min(1.0, double(step + 1) / std::max(1, options.warmup_steps));
  const double progress = double(step) / std::max(1, options.steps);
  const double cosine = 0.1 + 0.9 * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return options.learning_rate * warm * cosine;
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest_even = 0x7FFFU + ((bits >> 16U) & 1U);
  return static_cast<std::uint16_t>((bits + nearest_even) >> 16U);
}

void save_bfloat16(const std::filesystem::path& model_dir, const CausalLm& lm) {
  std::map<std::string, std::vector<std::uint16_t>> rounded;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : lm.weights()) {
    std::vector<std::uint16_t>& values = rounded[name];
    const at::Tensor contiguous = tensor.detach().contiguous();
    for (const float value : values_of(contiguous)) {
      values.push_back(to_bfloat16(value));
    }
    tensors.push_back({name, "BF16", tensor.sizes().vec(), std::as_bytes(std::span(values))});
  }
  write_safetensors(model_dir / "model.safetensors", std::move(tensors), {{"format", "pt"}});
}

}  // namespace

void pretrain(const std::filesystem::path& model_dir, const PretrainingOptions& options,
              const std::function<TrainingSequence(int step, int row)>& sequence,
              const std::function<void(const PretrainingStep&)>& report) {
  const ModelConfig config = load_model_config(model_dir);
  const std::map<std::string, at::Tensor> weights = initial_weights(config, options.seed);
  const at::AutoGradMode with_gradients(true);
  CausalLm lm(config, weights);
  AdamW optimizer(weights);
  for (int step = 0; step < options.steps; ++step) {
    std::vector<TrainingSequence> sequences;
    for (int row = 0; row < options.batch_size; ++row) {
      sequences.push_back(sequence(step, row));
    }
    const Batch batch = make_batch(sequences);
    const at::Tensor logits = lm.logits(batch.ids, batch.lengths, at::Tensor(), nullptr);
    const at::Tensor loss =
        at::cross_entropy_loss(logits.view({-1, config.vocab_size}), batch.targets.view({-1}));
    loss.backward();
    const double nat_per_token = loss.item<double>();
    expects(std::isfinite(nat_per_token), "pretraining diverged: lower the learning rate");
    const double learning_rate = scheduled_rate(options, step);
    optimizer.step(learning_rate, options);
    report({step + 1, nat_per_token, learning_rate});
  }
  save_bfloat16(model_dir, lm);
}

}  // namespace apo::model
