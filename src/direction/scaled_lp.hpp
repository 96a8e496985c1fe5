#pragma once

/// @file
/// Inside the room: LP (4) of the APO paper on the scaled Gram matrix (algorithms.md 1.1).

#include <optional>
#include <span>
#include <vector>

#include "linear_program.hpp"
#include "scaled_gram.hpp"

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

/// max c'mu over the simplex and the rows. Rows 0 .. m - 1 are (C mu)_j / s >= bound_j; row m,
/// where there is one, is the guard of the uniform mode: mu'C A / s >= min(0, max_j (C A)_j / s).
struct ScaledLp {
  Mode mode = Mode::kUniform;
  std::vector<double> objective;    ///< [m] (C / s) A or (C / s) 1
  std::vector<double> normalised;   ///< [m] the objective over its largest entry
  std::vector<double> coefficient;  ///< [rows, m], each row times its scale
  std::vector<double> bound;        ///< [rows], not times the scale
  std::vector<double> row_scale;    ///< [rows] power of two that lifts the row to O(1)
  std::vector<bool> constrained;    ///< [rows] false: j in J \ J*, or a row that is rounding noise
  std::vector<bool> bottleneck;     ///< [m] J*

  [[nodiscard]] std::size_t num_rows() const noexcept { return bound.size(); }
  [[nodiscard]] std::span<const double> row(std::size_t r) const {
    return std::span(coefficient).subspan(r * objective.size(), objective.size());
  }
  /// Row by row a'mu - bound on the scale of C / s; the smallest, 0 when nothing is constrained.
  [[nodiscard]] double min_slack(std::span<const double> mu) const;
  /// The rows with their right-hand sides lowered by `relaxation` (of max|C|).
  [[nodiscard]] std::vector<LpRow> rows(double relaxation = 0.0) const;
  void drop_guard();
};

/// @param quantities  balance of the losses: A (through gram.balancing) and the shares
/// @param guard       add the guard row (uniform mode only)
[[nodiscard]] ScaledLp build_lp(const ScaledGram& gram, const Balance& quantities, Mode mode,
                                double bottleneck_tolerance, bool guard);

/// Clips negatives and scales to sum 1; empty when the sum is not 1 up to 1e-6.
[[nodiscard]] std::optional<std::vector<double>> cleaned(std::vector<double> mu);

}  // namespace apo::direction
