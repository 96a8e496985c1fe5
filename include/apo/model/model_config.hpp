#pragma once

/// @file
/// config.json of a Llama or Qwen2 checkpoint (spec llm.md, section 2.1). No torch here.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace apo::model {

class CheckpointReader;

enum class Architecture { kLlama, kQwen2 };

/// rope_scaling of kind "llama3"; factor 1 means none.
struct RopeScaling {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_position = 8192.0;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tied_embeddings = false;
  bool attention_bias = false;         ///< q, k, v biases
  bool attention_output_bias = false;  ///< o bias (Llama with attention_bias)
  bool mlp_bias = false;
  std::vector<std::int32_t> eos_ids;
  std::int32_t bos_id = -1;
  std::int32_t pad_id = -1;
  std::int64_t max_position = 0;
  std::string dtype;  ///< torch_dtype or dtype of config.json, "bfloat16"; empty when absent

  /// Every tensor that the checkpoint must hold, with its shape, in HF names.
  struct Expected {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  [[nodiscard]] std::vector<Expected> expected_tensors() const;
  [[nodiscard]] std::int64_t num_parameters() const;
};

/// @throws Error(kData)  missing or out-of-range field, architecture or option that is not
///         supported; names the file, the key, what was found and what was expected
[[nodiscard]] ModelConfig load_model_config(const std::filesystem::path& model_dir);
[[nodiscard]] ModelConfig parse_model_config(const std::string& json_text, const std::string& name);
/// Writes config.json (atomically), in the spelling that every transformers release reads.
void save_model_config(const std::filesystem::path& model_dir, const ModelConfig& config);

/// Compares what the checkpoint holds with what the model needs, before anything is allocated.
/// Tensors that no model needs (rotary_emb.inv_freq, lm_head of a tied model) are ignored, others
/// with a warning; a bias that the configuration does not know is an error.
/// @throws Error(kData)  lists the missing tensors, wrong shapes and unusable dtypes
void check_checkpoint(const ModelConfig& config, const CheckpointReader& checkpoint);

}  // namespace apo::model
