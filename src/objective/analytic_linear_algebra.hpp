#pragma once

/// @file
/// Small dense systems, row-major.

#include <span>
#include <vector>

namespace apo::objective::analytic {

/// Solves A x = b by elimination with partial pivoting.
/// @param matrix  [n, n], overwritten
/// @param right   b, [n]; becomes x
/// @return false: singular to working precision, right is then undefined
[[nodiscard]] bool solve_dense(std::span<double> matrix, std::span<double> right);

struct Eigen {
  std::vector<double> values;   ///< [n]
  std::vector<double> vectors;  ///< [n, n]; column k belongs to values[k]
};

/// Eigenvalues and -vectors of a symmetric matrix by cyclic Jacobi rotations, to working precision.
/// @param matrix  [n, n]
[[nodiscard]] Eigen symmetric_eigen(std::vector<double> matrix, std::size_t n);

}  // namespace apo::objective::analytic
