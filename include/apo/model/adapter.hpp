#pragma once

/// @file
/// A LoRA adapter as one flat vector of P float32 numbers, and its PEFT files
/// (spec llm.md, section 3). No torch here.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "apo/model/model_config.hpp"
#include "apo/model/options.hpp"

namespace apo::model {

/// The seven projections, in the order in which they lie in the flat vector.
enum class Projection : std::uint8_t { kQ = 0, kK, kV, kO, kGate, kUp, kDown };
inline constexpr int kNumProjections = 7;
[[nodiscard]] std::string projection_name(Projection p);  ///< "q_proj"
[[nodiscard]] std::string projection_path(Projection p);  ///< "self_attn.q_proj", "mlp.up_proj"

/// Where one module's A [r, in] and B [out, r] lie in the flat vector (row-major, A before B).
struct AdapterModule {
  int layer = 0;
  Projection projection = Projection::kQ;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t a_begin = 0;
  std::int64_t b_begin = 0;
};

/// Layout of the flat vector: layers ascending, projections in enum order, A then B.
struct AdapterLayout {
  int rank = 0;
  double alpha = 0.0;
  double dropout = 0.0;
  std::vector<AdapterModule> modules;
  std::int64_t num_parameters = 0;  ///< P

  [[nodiscard]] double scale() const { return alpha / rank; }
};

[[nodiscard]] AdapterLayout make_layout(const ModelConfig& config, const LoraOptions& options);

/// A ~ U(-1/sqrt(in), 1/sqrt(in)), B = 0; counter-based, key kAdapterInit.
[[nodiscard]] std::vector<float> initial_adapter(const AdapterLayout& layout, std::uint64_t seed);

/// Writes adapter_model.safetensors and adapter_config.json, loadable by
/// PeftModel.from_pretrained. @param base_name  written as base_model_name_or_path
void save_adapter(const std::filesystem::path& dir, const AdapterLayout& layout,
                  std::span<const float> parameters, const std::string& base_name);

/// Reads a PEFT adapter; every tensor of the layout exactly once and nothing else.
/// @throws Error(kData)  rank, alpha, targets or shapes differ; DoRA, rsLoRA, bias, ... are refused
[[nodiscard]] std::vector<float> load_adapter(const std::filesystem::path& dir,
                                              const AdapterLayout& layout);

/// The [lora] options that an adapter folder was made with.
[[nodiscard]] LoraOptions read_adapter_options(const std::filesystem::path& dir);

/// base_model_name_or_path of an adapter folder; empty when absent.
[[nodiscard]] std::string read_adapter_base_name(const std::filesystem::path& dir);

}  // namespace apo::model
