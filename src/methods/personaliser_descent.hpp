#pragma once

/// @file
/// Descent of one client along a weighted sum of its losses: the steps that FSPO and DITTO share.
/// Private to methods.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/data/partition.hpp"
#include "apo/federation/optimizer.hpp"
#include "apo/federation/records.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::methods {

/// PyTorch's RMSprop, neither centred nor with momentum:
/// v = 0.99 v + 0.01 g^2, parameters -= learning_rate g / (sqrt(v) + 1e-8).
/// @param v  [P]; empty before the first step
void rmsprop_step(std::span<float> parameters, std::span<const float> gradient,
                  std::vector<float>& v, double learning_rate);

struct DescentOptions {
  std::string optimizer = "adamw";  ///< adamw (no decay) | rmsprop; its state begins empty
  double gradient_clip = 0.0;       ///< largest norm; 0: none
  bool dropout = true;
  std::uint64_t seed = 0;
};

class WeightedDescent {
 public:
  /// @param start   [P]
  /// @param record  phase, start_round, cluster and the number of the first step
  WeightedDescent(objective::ObjectiveSet& objectives, const data::Client& client,
                  std::span<const float> start, const DescentOptions& options,
                  federation::StepRecord record);

  /// One step along the gradient of sum_j weight_j l_j over `pairs`, with the weights of absent
  /// objectives left out and the others scaled to sum 1. Appends a record.
  /// @param weights  [m], >= 0
  /// @return false: a loss or the gradient was not finite and the step was not taken
  bool step(const data::Pool& pairs, std::span<const double> weights, double learning_rate,
            std::vector<federation::StepRecord>& steps);

  [[nodiscard]] const std::vector<float>& parameters() const { return parameters_; }
  [[nodiscard]] double last_loss() const { return last_loss_; }  ///< weighted, before its step
  [[nodiscard]] int next_step() const { return record_.step; }

 private:
  objective::ObjectiveSet& objectives_;
  const data::Client& client_;
  DescentOptions options_;
  federation::StepRecord record_;
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  federation::AdamWState adam_;
  std::vector<float> squares_;
  double last_loss_ = 0.0;
};

}  // namespace apo::methods
