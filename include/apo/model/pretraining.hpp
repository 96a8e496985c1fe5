#pragma once

/// @file
/// Trains all weights of a small model from scratch by next-token cross-entropy; makes the demo
/// domain's base model. No torch here.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace apo::model {

/// One line of a corpus.
struct TrainingSequence {
  std::vector<std::int32_t> ids;  ///< prompt, answer, end of text
  std::int64_t first_target = 1;  ///< ids[first_target..] are predicted; the prompt is given
};

struct PretrainingOptions {
  int steps = 1600;
  int batch_size = 32;
  double learning_rate = 3e-3;  ///< after a linear warm-up; falls to a tenth of it on a cosine
  int warmup_steps = 100;
  double gradient_clip = 1.0;  ///< largest norm over all weights
  double weight_decay = 0.01;  ///< decoupled; matrices only
  std::uint64_t seed = 0;      ///< of the initial weights
};

/// What progress is reported with.
struct PretrainingStep {
  int step = 0;  ///< 1-based
  double nat_per_token = 0.0;
  double learning_rate = 0.0;
};

/// Trains a model of the shape in model_dir/config.json and writes model_dir/model.safetensors, in
/// bfloat16 (rounded to nearest even). AdamW (0.9, 0.98, 1e-8). The batch of a step is whatever
/// `sequence(step, row)` returns, so the order of the data is the caller's; the result is a pure
/// function of the arguments for one number of threads, torch build and kind of processor.
///
/// @param sequence  called with step 0 .. steps - 1 and row 0 .. batch_size - 1
/// @param report    called after every step
/// @throws Error(kData)      config.json cannot be used
/// @throws Error(kInternal)  a sequence without a target, or a loss that is not finite
/// @throws BackendError      the folder cannot be written
void pretrain(const std::filesystem::path& model_dir, const PretrainingOptions& options,
              const std::function<TrainingSequence(int step, int row)>& sequence,
              const std::function<void(const PretrainingStep&)>& report);

}  // namespace apo::model
