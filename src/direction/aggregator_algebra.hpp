#pragma once

/// @file
/// Inside the room: dense symmetric algebra of a few rows in float64. Matrices are row-major spans
/// of n * n numbers.

#include <cstddef>
#include <span>
#include <vector>

namespace apo::direction {

struct SymmetricEigen {
  std::vector<double> values;   ///< [n], ascending
  std::vector<double> vectors;  ///< [n, n]: row k is the unit eigenvector of values[k]
};

/// Cyclic Jacobi iteration; indefinite matrices are welcome.
[[nodiscard]] SymmetricEigen symmetric_eigen(std::span<const double> matrix, std::size_t n);

/// Size below which an eigenvalue of an [n, n] matrix counts as 0: n eps max |value|.
[[nodiscard]] double rank_tolerance(const SymmetricEigen& eigen);

/// K^+ b: of the x that minimise ||K x - b|| the one of smallest norm.
[[nodiscard]] std::vector<double> pseudo_solve(std::span<const double> matrix,
                                               std::span<const double> right_side);

/// The lower Cholesky factor in place; false when a pivot is not above 1e-13 of its diagonal entry,
/// that is when the matrix is not positive definite beyond rounding.
[[nodiscard]] bool cholesky(std::span<double> matrix, std::size_t n);
/// Solves in place with the factor of cholesky().
void cholesky_solve(std::span<const double> factor, std::span<double> right_side);

/// (C + C') / (2 scale) with a diagonal >= 0.
[[nodiscard]] std::vector<double> symmetrised(std::span<const double> gram, std::size_t m,
                                              double scale);

/// Lifts eigenvalues that are negative beyond rank_tolerance() to 0: a Gram matrix accumulated in
/// float32 is PSD to 1e-7 only, and quadratic programs with a negative curvature are no longer
/// small perturbations of the one that is meant. Otherwise leaves every bit as it is.
void make_semidefinite(std::span<double> matrix, std::size_t n);

/// x_S for the listed positions, and the block of the matrix on them.
[[nodiscard]] std::vector<double> part(std::span<const double> vector,
                                       std::span<const std::size_t> positions);
[[nodiscard]] std::vector<double> block(std::span<const double> matrix, std::size_t m,
                                        std::span<const std::size_t> positions);

}  // namespace apo::direction
