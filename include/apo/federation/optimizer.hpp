#pragma once

/// @file
/// Optimiser steps on flat float32 vectors, as PyTorch defines them (spec llm.md, section 8).

#include <cstdint>
#include <span>
#include <vector>

namespace apo::federation {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;  ///< decoupled
};

/// First and second moments and the number of steps taken.
struct AdamWState {
  std::vector<float> m;   ///< [P]; empty before the first step
  std::vector<float> v;   ///< [P]
  std::int64_t step = 0;  ///< t
};

/// One step in place: decay first, then the bias-corrected update with epsilon added after the
/// root. @param gradient  [P] of the loss (the step goes against it)
void adamw_step(std::span<float> parameters, std::span<const float> gradient, AdamWState& state,
                const AdamWOptions& options);

/// parameters -= learning_rate * gradient
void sgd_step(std::span<float> parameters, std::span<const float> gradient, double learning_rate);

/// Euclidean norm, accumulated in float64.
[[nodiscard]] double norm(std::span<const float> values);

/// Multiplies by min(1, max_norm / (norm + 1e-6)); returns the norm before. max_norm 0: no change.
double clip_by_norm(std::span<float> values, double max_norm);

/// Cosine over the rounds, constant inside a round: final + (first - final) (1 + cos(pi r / R)) / 2
/// with r = 0..R-1 (algorithms.md 1.8).
[[nodiscard]] double cosine_learning_rate(double first, double final_rate, int round, int rounds);

}  // namespace apo::federation
