#pragma once

/// @file
/// Inside the room: which constraints hold with equality at a solution, and what follows from them
/// (algorithms.md 5.3 T8 and 5.5).

#include <cstdint>
#include <vector>

#include "scaled_lp.hpp"

namespace apo::direction {

struct ActiveSet {
  std::vector<bool> column;  ///< [m] mu_j = 0
  std::vector<bool> row;     ///< [rows of the LP] tight
  bool simplex = true;       ///< the row 1'mu = 1 belongs to the basis
};

[[nodiscard]] ActiveSet active_set(const LpVertex& vertex);

/// Hash of the mode, the active set and, in the balancing mode, J and J*; never 0. The uniform
/// program does not look at J and J*, which are rounding noise for balanced losses.
/// @param aligned  J
[[nodiscard]] std::uint64_t basis_id(const ScaledLp& lp, const std::vector<bool>& aligned,
                                     const ActiveSet& active);

/// ||M^-1||_2 ||C / s||_2 where the rows of M are the active ones: 1' (simplex), e_j' (mu_j = 0),
/// row j of C / s, and A'C / s for the guard. Both factors are taken of C / s, so that the number
/// does not depend on the unit of the gradients. NaN unless exactly m rows are active; infinity
/// when M is singular.
[[nodiscard]] double kappa_lp(const ScaledLp& lp, const ScaledGram& gram, const ActiveSet& active);

/// Smallest and largest singular value of a square matrix by one-sided Jacobi rotations, which keep
/// the small one accurate. @param rows  [n, n] row-major; used as working memory
struct SingularRange {
  double smallest = 0.0;
  double largest = 0.0;
};
[[nodiscard]] SingularRange singular_range(std::vector<double>& rows, std::size_t n);

}  // namespace apo::direction
