#pragma once

/// @file
/// Inside the room: what a server learns of the objectives' gradients at the common point, exactly
/// or through FedCMOO's compression (algorithms.md 3.6).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "baseline_scheme.hpp"

namespace apo::federation {

/// Means over the participants that have an objective.
struct JacobianEstimate {
  std::vector<bool> present;  ///< [m] some participant has the objective
  std::vector<double> gram;   ///< [m, m] of the mean gradients; 0 where an objective is absent
  std::vector<double> loss;   ///< [m] of the same batches; 0 where absent

  [[nodiscard]] std::size_t num_present() const;
  /// The entries [m] of the present objectives.
  [[nodiscard]] std::vector<double> entries(std::span<const double> values) const;
  [[nodiscard]] std::vector<double> present_gram() const;
  /// [m], 0 at the absent objectives.
  [[nodiscard]] std::vector<double> spread(std::span<const double> present_values) const;
};

class JacobianEstimator {
 public:
  /// @param compression  none | svd | topk
  JacobianEstimator(const RoundResources& resources, std::string compression);

  /// Collective. @param runs  this rank's clients with a step begun; the failed ones are left out
  /// @param[in,out] seconds   time of the clients' part is added
  [[nodiscard]] JacobianEstimate estimate(const RoundPlan& plan, const std::vector<LocalRun>& runs,
                                          double& seconds, RoundReport& report) const;

  /// What one client sends for the estimate, and is sent, in float32 numbers: gradients as they are
  /// sent; with compression also two symmetric m x m matrices up, and the compressed sum down.
  [[nodiscard]] std::int64_t floats_up() const;
  [[nodiscard]] std::int64_t floats_down() const;

 private:
  [[nodiscard]] JacobianEstimate exact(const std::vector<LocalRun>& runs,
                                       RoundReport& report) const;
  [[nodiscard]] JacobianEstimate two_way(const RoundPlan& plan, const std::vector<LocalRun>& runs,
                                         double& seconds, RoundReport& report) const;
  void compress(const RoundPlan& plan, std::uint64_t who, std::span<float> gradients) const;
  [[nodiscard]] std::size_t kept_entries() const;
  [[nodiscard]] std::int64_t floats_of_gradients() const;

  const RoundResources& resources_;
  std::string compression_;
  std::size_t m_;
  std::size_t p_;
};

}  // namespace apo::federation
