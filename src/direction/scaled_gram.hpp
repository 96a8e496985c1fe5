#pragma once

/// @file
/// Inside the room: the Gram matrix on the scale 1, and what every solver reports of its weights.

#include <span>
#include <vector>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

/// Squared gradient length up to which all gradients count as zero (algorithms.md 1.6).
inline constexpr double kVanishedGram = 1e-300;

/// C / s with s = max_j C_jj, under which LP (4) is exactly invariant (algorithms.md 0.2).
struct ScaledGram {
  double scale = 0.0;             ///< s; 0: all gradients vanish, and gram is all zeros
  std::vector<double> gram;       ///< C / s, [m, m], symmetric, diagonal >= 0
  std::vector<double> balancing;  ///< (C / s) A, [m]
  std::vector<bool> aligned;      ///< J, [m]: (C A)_j > 0 beyond the tolerance
  [[nodiscard]] bool vanished() const noexcept { return scale == 0.0; }
};

/// @param gram              C, [m, m], finite
/// @param adjustment        A, [m]
/// @param ascent_tolerance  eps_J: relative to sqrt(C_jj) ||d_bal||
[[nodiscard]] ScaledGram scale_gram(std::span<const double> gram,
                                    std::span<const double> adjustment, double ascent_tolerance);

/// Fills what follows from result.weight and C: gamma, direction_norm and the three counts.
void describe_weight(const ScaledGram& gram, Direction& result);

}  // namespace apo::direction
