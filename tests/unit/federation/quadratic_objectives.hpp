#pragma once

/// @file
/// Federated quadratics with known answers, behind the interface of the language-model objectives:
/// l_i^(j)(w) = scale/2 ||w - c_ij||^2 + offset. Pair positions carry the client number.

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "apo/data/partition.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::federation::testing {

class QuadraticObjectives final : public objective::ObjectiveSet {
 public:
  /// @param centers  [N][m][P]
  QuadraticObjectives(std::vector<std::vector<std::vector<float>>> centers, double scale,
                      double offset)
      : centers_(std::move(centers)), scale_(scale), offset_(offset) {}

  [[nodiscard]] int num_objectives() const override { return static_cast<int>(centers_[0].size()); }
  [[nodiscard]] std::int64_t num_parameters() const override {
    return static_cast<std::int64_t>(centers_[0][0].size());
  }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t) const override {
    return std::vector<float>(centers_[0][0].size(), 0.0F);
  }

  [[nodiscard]] objective::Evaluation evaluate(std::span<const float> w,
                                               const objective::Batch& batch) override {
    std::vector<float> none;
    return compute(w, batch, none);
  }
  [[nodiscard]] objective::Evaluation gradients(std::span<const float> w,
                                                const objective::Batch& batch,
                                                const objective::StepKey&,
                                                std::span<float> gradients) override {
    return compute(w, batch, gradients);
  }

  [[nodiscard]] objective::Evaluation weighted_gradient(std::span<const float> w,
                                                        const objective::Batch& batch,
                                                        const objective::StepKey&,
                                                        std::span<const double> weights,
                                                        std::span<float> gradient) override {
    const std::size_t p = gradient.size();
    std::vector<float> rows(weights.size() * p);
    objective::Evaluation result = compute(w, batch, rows);
    for (std::size_t k = 0; k < p; ++k) {
      double sum = 0.0;
      for (std::size_t j = 0; j < weights.size(); ++j) {
        sum += weights[j] * static_cast<double>(rows[j * p + k]);
      }
      gradient[k] = static_cast<float>(sum);
    }
    return result;
  }

  int poisoned_client = -1;  ///< its losses are NaN

 private:
  [[nodiscard]] objective::Evaluation compute(std::span<const float> w,
                                              const objective::Batch& batch,
                                              std::span<float> gradients) const {
    const std::size_t m = centers_[0].size();
    const std::size_t p = centers_[0][0].size();
    objective::Evaluation result;
    for (std::size_t j = 0; j < m; ++j) {
      const auto& center = centers_[batch.client.index()][j];
      const int count = static_cast<int>(batch.pairs[j].size());
      double loss = offset_;
      for (std::size_t k = 0; k < p; ++k) {
        const double x = (w.empty() ? 0.0 : static_cast<double>(w[k])) - center[k];
        loss += 0.5 * scale_ * x * x;
        if (!gradients.empty()) {
          gradients[j * p + k] = count > 0 ? static_cast<float>(scale_ * x) : 0.0F;
        }
      }
      const double nan = std::numeric_limits<double>::quiet_NaN();
      result.loss.push_back(count > 0 && batch.client.value != poisoned_client ? loss : nan);
      result.accuracy.push_back(0.5);
      result.num_pairs.push_back(count);
    }
    return result;
  }

  std::vector<std::vector<std::vector<float>>> centers_;
  double scale_;
  double offset_;
};

/// Clients with `pairs` pairs per objective and the given preferences.
inline data::Partition make_clients(const std::vector<std::vector<double>>& preferences,
                                    const std::vector<int>& pairs) {
  data::Partition partition;
  int next = 0;
  for (std::size_t i = 0; i < preferences.size(); ++i) {
    data::Client client;
    client.id = ClientId(static_cast<int>(i));
    client.preference = preferences[i];
    client.train.resize(preferences[i].size());
    for (auto& list : client.train) {
      for (int k = 0; k < pairs[i]; ++k) {
        list.push_back(next++);
      }
    }
    client.adapt.resize(preferences[i].size());
    client.evaluate.resize(preferences[i].size());
    partition.clients.push_back(std::move(client));
  }
  return partition;
}

}  // namespace apo::federation::testing
