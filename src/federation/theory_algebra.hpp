#pragma once

/// @file
/// Inside the room: m x m algebra of the theory conditions, float64, in a fixed order of
/// operations.

#include <cstdint>
#include <span>
#include <vector>

namespace apo::federation::theory {

[[nodiscard]] double dot(std::span<const double> x, std::span<const double> y);
[[nodiscard]] double norm_of(std::span<const double> x);
[[nodiscard]] double distance(std::span<const double> x, std::span<const double> y);
/// M y, M [m, m] row-major.
[[nodiscard]] std::vector<double> times(std::span<const double> matrix, std::span<const double> y);
/// x'M x, not below 0: what a Gram matrix cannot go below but rounding can.
[[nodiscard]] double quadratic_form(std::span<const double> matrix, std::span<const double> x);
[[nodiscard]] std::vector<double> minus(std::span<const double> x, std::span<const double> y);

/// Largest eigenvalue of a symmetric matrix, by Jacobi rotations. @param matrix  [m, m]
[[nodiscard]] double largest_eigenvalue(std::span<const double> matrix, std::size_t m);

/// Smaller of two numbers where NaN means none.
[[nodiscard]] double smaller(double a, double b);
[[nodiscard]] double larger(double a, double b);

/// sum_j a_j b_j in float64 over long float32 and float64 rows; eight partial sums in a fixed
/// order.
[[nodiscard]] double long_dot(std::span<const float> a, std::span<const double> b);
[[nodiscard]] double long_dot(std::span<const double> a, std::span<const double> b);

}  // namespace apo::federation::theory
