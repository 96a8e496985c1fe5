#pragma once

/// @file
/// The frozen model with an adapter layout, for rooms that do not see torch.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/model/adapter.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/options.hpp"

namespace apo::model {

class CausalLm;

/// One response to be sampled. Its random numbers depend on `key` alone, so a response does not
/// change with the batch it is generated in.
struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  std::uint64_t key = 0;
};

struct GenerationOptions {
  int max_new_tokens = 48;
  double temperature = 1.0;  ///< 0: greedy
  int batch_size = 32;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> stop_ids;
  std::int64_t num_ids = 0;  ///< ids >= num_ids are never sampled; 0: all of the vocabulary
};

/// Sets torch's thread counts and deterministic mode; call once, after MPI is up.
void configure_torch(int threads);
/// "2.13.0, MKL ..., 1 thread": for the log and the run file.
[[nodiscard]] std::string torch_description();

class LanguageModel {
 public:
  /// @param device  "cpu", "cuda" or "cuda:<number>", which becomes the GPU of this process
  static LanguageModel load(const ModelOptions& options, const LoraOptions& lora,
                            const std::string& device);
  LanguageModel(CausalLm lm, const LoraOptions& lora, std::string name);
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;
  ~LanguageModel();

  [[nodiscard]] const ModelConfig& config() const;
  [[nodiscard]] const AdapterLayout& layout() const;
  [[nodiscard]] const CausalLm& lm() const;
  [[nodiscard]] const std::string& name() const;  ///< the folder, for adapter_config.json

  /// Responses without prompt and stop token, in request order.
  /// @param adapter  [P], or empty: the base model
  [[nodiscard]] std::vector<std::vector<std::int32_t>> generate(
      std::span<const GenerationRequest> requests, std::span<const float> adapter,
      const GenerationOptions& options) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::model
