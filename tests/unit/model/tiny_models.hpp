#pragma once

/// @file
/// The two tiny golden models of spec llm.md, section 2.6, and their adapter.

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "apo/model/adapter.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/model/model_config.hpp"

namespace apo::model::tiny {

inline ModelConfig config(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.vocab_size = 13;
  c.hidden_size = 8;
  c.intermediate_size = 12;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.tied_embeddings = true;
  c.max_position = 128;
  if (architecture == Architecture::kLlama) {
    c.head_dim = 4;
    c.rope_theta = 10000.0;
    c.rope_scaling = {8.0, 1.0, 4.0, 16.0};
    c.rms_norm_eps = 1e-5;
  } else {
    c.head_dim = 2;
    c.attention_bias = true;
    c.rope_theta = 1e6;
    c.rms_norm_eps = 1e-6;
  }
  return c;
}

/// float32(scale * sin(0.7 s + 1.1 (i + 1))), plus `offset`.
inline at::Tensor generated(const std::vector<std::int64_t>& shape, int s, double scale,
                            double offset = 0.0) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  float* values = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double wave = std::sin(0.7 * s + 1.1 * static_cast<double>(i + 1));
    values[i] = static_cast<float>(offset + static_cast<double>(static_cast<float>(scale * wave)));
  }
  return tensor;
}

inline std::map<std::string, at::Tensor> weights(const ModelConfig& c) {
  std::map<std::string, at::Tensor> result;
  int s = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const bool norm = name.find("norm") != std::string::npos;
    const double scale = norm ? 0.25 : name == "model.embed_tokens.weight" ? 1.0 : 0.5;
    result.emplace(name, generated(shape, ++s, scale, norm ? 1.0 : 0.0));
  };
  const std::int64_t h = c.hidden_size;
  const std::int64_t q = c.num_heads * c.head_dim;
  const std::int64_t kv = c.num_kv_heads * c.head_dim;
  add("model.embed_tokens.weight", {c.vocab_size, h});
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {h});
    for (const auto& [name, out] : {std::pair{"q", q}, {"k", kv}, {"v", kv}}) {
      add(layer + "self_attn." + name + "_proj.weight", {out, h});
      if (c.attention_bias) {
        add(layer + "self_attn." + name + "_proj.bias", {out});
      }
    }
    add(layer + "self_attn.o_proj.weight", {h, q});
    add(layer + "post_attention_layernorm.weight", {h});
    add(layer + "mlp.gate_proj.weight", {c.intermediate_size, h});
    add(layer + "mlp.up_proj.weight", {c.intermediate_size, h});
    add(layer + "mlp.down_proj.weight", {h, c.intermediate_size});
  }
  add("model.norm.weight", {h});
  return result;
}

inline CausalLm model(Architecture architecture) {
  const ModelConfig c = config(architecture);
  return {c, weights(c)};
}

inline LoraOptions lora_options() {
  LoraOptions options;
  options.rank = 2;
  options.alpha = 4.0;
  options.dropout = 0.0;
  options.targets = {"q_proj", "v_proj"};
  return options;
}

/// A of every module from seed 101 on with scale 0.5, B with scale 0.2, in layout order.
inline std::vector<float> adapter(const AdapterLayout& layout) {
  std::vector<float> flat(static_cast<std::size_t>(layout.num_parameters));
  int s = 100;
  for (const AdapterModule& module : layout.modules) {
    const at::Tensor a = generated({layout.rank, module.in}, ++s, 0.5);
    const at::Tensor b = generated({module.out, layout.rank}, ++s, 0.2);
    std::copy_n(a.const_data_ptr<float>(), a.numel(), flat.begin() + module.a_begin);
    std::copy_n(b.const_data_ptr<float>(), b.numel(), flat.begin() + module.b_begin);
  }
  return flat;
}

inline const std::vector<std::int32_t> kPrompt = {1, 5, 7};
inline const std::vector<std::int32_t> kChosen = {2, 11, 3};
inline const std::vector<std::int32_t> kRejected = {8, 2};

}  // namespace apo::model::tiny
