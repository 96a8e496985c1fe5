#pragma once

/// @file
/// Inside the room: small convex quadratic programs, solved exactly (up to rounding).

#include <cstddef>
#include <span>
#include <vector>

namespace apo::direction {

/// min 1/2 x'Qx + q'x over the simplex, or over x >= 0.
struct QuadraticProgram {
  std::span<const double> matrix;  ///< Q, [m, m], exactly symmetric, PSD
  std::span<const double> linear;  ///< q, [m]; over x >= 0 it must lie in the range of Q
  bool on_simplex = true;
};

inline constexpr std::size_t kMaxEnumeratedObjectives = 8;  ///< 2^8 - 1 supports

/// By active sets where that ends at the unique optimum up to rounding; otherwise by supports up to
/// kMaxEnumeratedObjectives objectives. Where several x are optimal, the one of smallest norm.
/// @throws Error(kInternal)  sizes disagree, or no convergence (only possible by active sets)
[[nodiscard]] std::vector<double> solve(const QuadraticProgram& program);

/// Tries every support. m <= kMaxEnumeratedObjectives
[[nodiscard]] std::vector<double> solve_by_supports(const QuadraticProgram& program);

/// Wolfe's min-norm-point iteration in terms of inner products, which over x >= 0 is the one of
/// Lawson and Hanson: the objective falls at every change of the set, so that none comes back.
[[nodiscard]] std::vector<double> solve_by_active_set(const QuadraticProgram& program);

/// By how much x misses optimality: x'y - min_j y_j on the simplex, y = Qx + q, which bounds the
/// excess of the objective; over x >= 0 the largest of |y_j| with x_j > 0 and -y_j.
[[nodiscard]] double optimality_gap(const QuadraticProgram& program, std::span<const double> x);

}  // namespace apo::direction
