#pragma once

/// @file
/// Passes every call on to another ObjectiveSet and keeps what a gradient was asked for.

#include <vector>

#include "apo/objective/objective_set.hpp"

namespace apo::methods::testing {

class RecordingObjectives final : public objective::ObjectiveSet {
 public:
  struct Call {
    std::vector<float> parameters;
    objective::Batch batch;
    objective::StepKey key;
    std::vector<double> weights;  ///< empty: one gradient per objective
    std::vector<float> gradient;
  };

  explicit RecordingObjectives(objective::ObjectiveSet& inner) : inner_(inner) {}

  [[nodiscard]] int num_objectives() const override { return inner_.num_objectives(); }
  [[nodiscard]] std::int64_t num_parameters() const override { return inner_.num_parameters(); }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const override {
    return inner_.initial_parameters(seed);
  }
  [[nodiscard]] objective::Evaluation evaluate(std::span<const float> parameters,
                                               const objective::Batch& batch) override {
    return inner_.evaluate(parameters, batch);
  }
  [[nodiscard]] objective::Evaluation gradients(std::span<const float> parameters,
                                                const objective::Batch& batch,
                                                const objective::StepKey& key,
                                                std::span<float> gradients) override {
    objective::Evaluation result = inner_.gradients(parameters, batch, key, gradients);
    calls.push_back({{parameters.begin(), parameters.end()},
                     batch,
                     key,
                     {},
                     {gradients.begin(), gradients.end()}});
    return result;
  }
  [[nodiscard]] objective::Evaluation weighted_gradient(std::span<const float> parameters,
                                                        const objective::Batch& batch,
                                                        const objective::StepKey& key,
                                                        std::span<const double> weights,
                                                        std::span<float> gradient) override {
    objective::Evaluation result =
        inner_.weighted_gradient(parameters, batch, key, weights, gradient);
    calls.push_back({{parameters.begin(), parameters.end()},
                     batch,
                     key,
                     {weights.begin(), weights.end()},
                     {gradient.begin(), gradient.end()}});
    return result;
  }

  std::vector<Call> calls;

 private:
  objective::ObjectiveSet& inner_;
};

}  // namespace apo::methods::testing
