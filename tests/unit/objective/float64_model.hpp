#pragma once

/// @file
/// An oracle: the forward pass of a tiny Llama or Qwen2 model with its adapter (spec llm.md 2.3 and
/// 3.1) in plain float64 loops, for finite differences that float32 cannot give. RoPE without
/// llama3 scaling; no dropout.

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/model/adapter.hpp"
#include "apo/model/model_config.hpp"

namespace apo::objective::testing {

class Float64Model {
 public:
  using Vector = std::vector<double>;

  Float64Model(model::ModelConfig config, const std::map<std::string, at::Tensor>& weights,
               model::AdapterLayout layout)
      : config_(std::move(config)), layout_(std::move(layout)) {
    for (const auto& [name, tensor] : weights) {
      const float* values = tensor.const_data_ptr<float>();
      weights_[name].assign(values, values + tensor.numel());
    }
  }

  /// Summed log-probability of the response.
  /// @param adapter  [P] or empty: the base model
  [[nodiscard]] double log_prob(const std::vector<std::int32_t>& prompt,
                                const std::vector<std::int32_t>& response,
                                std::span<const double> adapter) const {
    std::vector<std::int32_t> ids = prompt;
    ids.insert(ids.end(), response.begin(), response.end());
    std::vector<Vector> x;
    for (const std::int32_t id : ids) {
      x.push_back(row("model.embed_tokens.weight", id));
    }
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      advance(layer, adapter, x);
    }
    double sum = 0.0;
    for (std::size_t t = prompt.size(); t < ids.size(); ++t) {
      const Vector hidden = normed(x[t - 1], "model.norm.weight");
      Vector logits;
      double total = 0.0;
      for (std::int32_t v = 0; v < config_.vocab_size; ++v) {
        logits.push_back(dot(row("model.embed_tokens.weight", v), hidden));
        total += std::exp(logits.back());
      }
      sum += logits[static_cast<std::size_t>(ids[t])] - std::log(total);
    }
    return sum;
  }

 private:
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum += a[i] * b[i];
    }
    return sum;
  }

  [[nodiscard]] Vector row(const std::string& name, std::int64_t index) const {
    const Vector& matrix = weights_.at(name);
    const auto begin = matrix.begin() + index * config_.hidden_size;
    return {begin, begin + config_.hidden_size};
  }

  [[nodiscard]] Vector normed(const Vector& x, const std::string& name) const {
    const double scale =
        1.0 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + config_.rms_norm_eps);
    Vector y = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] *= scale * weights_.at(name)[i];
    }
    return y;
  }

  /// W x + bias + s B A x
  [[nodiscard]] Vector project(int layer, model::Projection projection, const Vector& x,
                               std::span<const double> adapter) const {
    const std::string name =
        "model.layers." + std::to_string(layer) + "." + model::projection_path(projection);
    const Vector& w = weights_.at(name + ".weight");
    const std::size_t out = w.size() / x.size();
    const auto bias = weights_.find(name + ".bias");
    Vector y = bias == weights_.end() ? Vector(out, 0.0) : bias->second;
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[o] += w[o * x.size() + i] * x[i];
      }
    }
    for (const model::AdapterModule& module : layout_.modules) {
      if (adapter.empty() || module.layer != layer || module.projection != projection) {
        continue;
      }
      const auto a = static_cast<std::size_t>(module.a_begin);
      const auto b = static_cast<std::size_t>(module.b_begin);
      const auto rank = static_cast<std::size_t>(layout_.rank);
      for (std::size_t r = 0; r < rank; ++r) {
        double inner = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          inner += adapter[a + r * x.size() + i] * x[i];
        }
        for (std::size_t o = 0; o < out; ++o) {
          y[o] += layout_.alpha / layout_.rank * adapter[b + o * rank + r] * inner;
        }
      }
    }
    return y;
  }

  /// Rotates every head of one position in place.
  void rotate(Vector& heads, std::size_t position) const {
    const auto hd = static_cast<std::size_t>(config_.head_dim);
    for (std::size_t h = 0; h < heads.size(); h += hd) {
      for (std::size_t d = 0; d < hd / 2; ++d) {
        const double angle =
            static_cast<double>(position) *
            std::pow(config_.rope_theta, -2.0 * static_cast<double>(d) / static_cast<double>(hd));
        const double a = heads[h + d];
        const double b = heads[h + d + hd / 2];
        heads[h + d] = a * std::cos(angle) - b * std::sin(angle);
        heads[h + d + hd / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  void advance(int layer, std::span<const double> adapter, std::vector<Vector>& x) const {
    using model::Projection;
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto hd = static_cast<std::size_t>(config_.head_dim);
    const auto group = static_cast<std::size_t>(config_.num_heads / config_.num_kv_heads);
    std::vector<Vector> q;
    std::vector<Vector> k;
    std::vector<Vector> v;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector in = normed(x[t], prefix + "input_layernorm.weight");
      q.push_back(project(layer, Projection::kQ, in, adapter));
      k.push_back(project(layer, Projection::kK, in, adapter));
      v.push_back(project(layer, Projection::kV, in, adapter));
      rotate(q.back(), t);
      rotate(k.back(), t);
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector mixed(q[t].size(), 0.0);
      for (std::size_t h = 0; h * hd < mixed.size(); ++h) {
        const std::size_t from = h / group * hd;  // the head's keys and values
        Vector weight;
        double total = 0.0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0.0;
          for (std::size_t d = 0; d < hd; ++d) {
            score += q[t][h * hd + d] * k[s][from + d] / std::sqrt(static_cast<double>(hd));
          }
          weight.push_back(std::exp(score));
          total += weight.back();
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t d = 0; d < hd; ++d) {
            mixed[h * hd + d] += weight[s] / total * v[s][from + d];
          }
        }
      }
      add(project(layer, Projection::kO, mixed, adapter), x[t]);
      const Vector in = normed(x[t], prefix + "post_attention_layernorm.weight");
      Vector gate = project(layer, Projection::kGate, in, adapter);
      const Vector up = project(layer, Projection::kUp, in, adapter);
      for (std::size_t i = 0; i < gate.size(); ++i) {
        gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
      }
      add(project(layer, Projection::kDown, gate, adapter), x[t]);
    }
  }

  static void add(const Vector& y, Vector& x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += y[i];
    }
  }

  model::ModelConfig config_;
  model::AdapterLayout layout_;
  std::map<std::string, Vector> weights_;
};

}  // namespace apo::objective::testing
