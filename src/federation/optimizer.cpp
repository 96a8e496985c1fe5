#include "apo/federation/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "apo/core/error.hpp"

namespace apo::federation {

void adamw_step(std::span<float> parameters, std::span<const float> gradient, AdamWState& state,
                const AdamWOptions& options) {
  expects(parameters.size() == gradient.size(), "adamw_step: sizes differ");
  if (state.m.empty()) {
    state.m.assign(parameters.size(), 0.0F);
    state.v.assign(parameters.size(), 0.0F);
  }
  expects(state.m.size() == parameters.size(), "adamw_step: state of another size");
  ++state.step;
  const auto t = static_cast<double>(state.step);
  const auto decay = static_cast<float>(1.0 - options.learning_rate * options.weight_decay);
  const auto b1 = static_cast<float>(options.beta1);
  const auto b2 = static_cast<float>(options.beta2);
  const auto c1 = static_cast<float>(1.0 - options.beta1);
  const auto c2 = static_cast<float>(1.0 - options.beta2);
  const auto rate = static_cast<float>(options.learning_rate / (1.0 - std::pow(options.beta1, t)));
  const auto root = static_cast<float>(std::sqrt(1.0 - std::pow(options.beta2, t)));
  const auto epsilon = static_cast<float>(options.epsilon);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const float g = gradient[k];
    float& m = state.m[k];
    float& v = state.v[k];
    m = b1 * m + c1 * g;
    v = b2 * v + c2 * g * g;
    parameters[k] = parameters[k] * decay - rate * m / (std::sqrt(v) / root + epsilon);
  }
}

void sgd_step(std::span<float> parameters, std::span<const float> gradient, double learning_rate) {
  expects(parameters.size() == gradient.size(), "sgd_step: sizes differ");
  const auto rate = static_cast<float>(learning_rate);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    parameters[k] -= rate * gradient[k];
  }
}

double norm(std::span<const float> values) {
  double sum = 0.0;
  for (const float x : values) {
    sum += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(sum);
}

double clip_by_norm(std::span<float> values, double max_norm) {
  const double length = norm(values);
  if (max_norm > 0.0) {
    const auto factor = static_cast<float>(std::min(1.0, max_norm / (length + 1e-6)));
    for (float& x : values) {
      x *= factor;
    }
  }
  return length;
}

double cosine_learning_rate(double first, double final_rate, int round, int rounds) {
  return final_rate + 0.5 * (first - final_rate) *
                          (1.0 + std::cos(std::numbers::pi * round / std::max(1, rounds)));
}

}  // namespace apo::federation
