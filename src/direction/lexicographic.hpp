#pragma once

/// @file
/// Inside the room: the tie rule of algorithms.md 1.4, item 6, for LPs whose optimum is a face.

#include <vector>

#include "active_set.hpp"
#include "linear_program.hpp"
#include "scaled_lp.hpp"

namespace apo::direction {

/// Reduced costs up to this, of the normalised objective and unscaled rows, count as 0.
inline constexpr double kZeroReducedCost = 1e-12;

/// Whether some non-basic reduced cost vanishes: the optimum may be a face.
[[nodiscard]] bool has_zero_reduced_cost(const ScaledLp& lp, const LpVertex& vertex);

struct TieBreak {
  std::vector<double> mu;
  ActiveSet active;
};

/// Of the optima of the LP: largest mu'C 1, then smallest mu'C mu, then lexicographically largest.
/// Two linear programs (the face of an optimum is what its reduced costs leave free) and one
/// quadratic program on the face, all exact.
///
/// @param program     of the LP's size
/// @param relaxation  of the right-hand sides with which `optimum` was found
/// @return mu empty when a step failed by rounding: the vertex stands
/// @throws Error(kInternal)  more than 8 objectives
[[nodiscard]] TieBreak break_tie(const ScaledLp& lp, const ScaledGram& gram,
                                 const LpVertex& optimum, double relaxation,
                                 LinearProgram& program);

}  // namespace apo::direction
