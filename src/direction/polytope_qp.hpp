#pragma once

/// @file
/// Inside the room: convex quadratic programs of a few variables on { x >= 0, 1'x = 1, rows },
/// solved exactly by trying the sets of active constraints.

#include <optional>
#include <span>
#include <vector>

#include "linear_program.hpp"

namespace apo::direction {

inline constexpr std::size_t kMaxQpColumns = 8;

struct QpPoint {
  std::vector<double> x;            ///< [m]
  std::vector<bool> column_active;  ///< [m] held at 0
  std::vector<bool> row_active;     ///< [rows] tight
};

/// Minimiser of x'H x / 2 - c'x. Where several x are optimal, the lexicographically largest
/// (entries that agree to 1e-9 count as equal).
///
/// Every set of active constraints with a regular system is a candidate, accepted when it passes
/// the optimality conditions; a vertex of the set of minimisers is always among them, since there
/// the active constraints and H together determine x. With strict convexity on the plane of the
/// equality rows the first candidate that passes is the answer; with a vertex to start from it is
/// mostly found in a few steps. Cost: at worst sum_k C(m + rows, k), k < m, systems of at most 2 m
/// unknowns.
///
/// @param hessian  H, [m, m], symmetric PSD
/// @param linear   c, [m]
/// @param rows     coefficients of size about 1
/// @param absent   columns held at 0 whatever their multiplier, [m] or empty
/// @param start   a vertex of the polytope with its active constraints, or null
/// @return empty when no candidate passes to 1e-9: the polytope is empty
/// @throws Error(kInternal)  more than kMaxQpColumns columns, or sizes disagree
[[nodiscard]] std::optional<QpPoint> minimise_on_polytope(std::span<const double> hessian,
                                                          std::span<const double> linear,
                                                          std::span<const LpRow> rows,
                                                          const std::vector<bool>& absent = {},
                                                          const QpPoint* start = nullptr);

}  // namespace apo::direction
