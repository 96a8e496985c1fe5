#pragma once

/// @file
/// m losses of one client and their gradients, behind one interface. No torch here.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "apo/core/ids.hpp"

namespace apo::objective {

/// Which pairs a client computes on, per objective; an empty list: objective absent.
struct Batch {
  ClientId client;
  std::vector<std::vector<int>> pairs;  ///< [m][*] positions in the data; repeats are allowed
};

/// Names the random numbers (dropout) of one step. Evaluation passes none.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint64_t client = 0;
  std::uint64_t step = 0;  ///< unique per (phase, cluster, round, local step)
  bool dropout = true;     ///< false: as in evaluate(), whatever the adapter's dropout
};

struct Evaluation {
  std::vector<double> loss;      ///< [m] mean over the pairs, nat; NaN where absent
  std::vector<double> accuracy;  ///< [m] share of pairs whose implicit reward prefers the chosen
  std::vector<int> num_pairs;    ///< [m]
  /// [m] sample variance of the pairs' losses, nat^2: the mean loss has standard error
  /// sqrt(loss_variance / num_pairs). NaN with fewer than two pairs; empty: not measured.
  std::vector<double> loss_variance;

  [[nodiscard]] bool present(int j) const { return num_pairs[static_cast<std::size_t>(j)] > 0; }
};

class ObjectiveSet {
 public:
  virtual ~ObjectiveSet() = default;

  [[nodiscard]] virtual int num_objectives() const = 0;           ///< m
  [[nodiscard]] virtual std::int64_t num_parameters() const = 0;  ///< P
  [[nodiscard]] virtual std::vector<float> initial_parameters(std::uint64_t seed) const = 0;
  /// L_0: every loss has a gradient that is L_0-Lipschitz (Assumption H.1 of the APO paper); NaN
  /// where no bound is known.
  [[nodiscard]] virtual double smoothness() const {
    return std::numeric_limits<double>::quiet_NaN();
  }
  /// min over w of max_j lambda_j l_j of one client (psi*); NaN where it is not known.
  [[nodiscard]] virtual double chebyshev_optimum(ClientId /*client*/,
                                                 std::span<const double> /*preference*/) const {
    return std::numeric_limits<double>::quiet_NaN();
  }

  /// @param parameters  [P]; empty: the reference policy (adapter off)
  [[nodiscard]] virtual Evaluation evaluate(std::span<const float> parameters,
                                            const Batch& batch) = 0;

  /// Losses and one gradient per objective.
  /// @param[out] gradients  [m, P] row-major, overwritten; rows of absent objectives become 0
  [[nodiscard]] virtual Evaluation gradients(std::span<const float> parameters, const Batch& batch,
                                             const StepKey& key, std::span<float> gradients) = 0;

  /// Losses and the gradient of sum_j weight_j l_j alone: what a fixed weighting needs, for the
  /// price of one backward pass. Absent objectives add nothing.
  /// @param weights        [m]
  /// @param[out] gradient  [P], overwritten
  [[nodiscard]] virtual Evaluation weighted_gradient(std::span<const float> parameters,
                                                     const Batch& batch, const StepKey& key,
                                                     std::span<const double> weights,
                                                     std::span<float> gradient) = 0;
};

}  // namespace apo::objective
