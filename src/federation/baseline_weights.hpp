#pragma once

/// @file
/// Inside the room: how servers weigh objectives or clients (algorithms.md 3.6). Float64 only.

#include <span>
#include <vector>

namespace apo::federation {

/// Euclidean projection onto the simplex.
[[nodiscard]] std::vector<double> project_on_simplex(std::span<const double> values);

/// C / (mean_j sqrt(C_jj + 1e-4))^2, FedCMOO's scaling.
[[nodiscard]] std::vector<double> scaled_gram(std::span<const double> gram, std::size_t m);

/// w <- P(w - rate C w), `steps` times, P the projection onto the simplex.
/// @param gram  C, [m, m] row-major; @param weights  where it starts, [m]
[[nodiscard]] std::vector<double> track_min_norm(std::span<const double> gram,
                                                 std::vector<double> weights, int steps,
                                                 double rate);

/// Minimiser of x'Kx over { sum x = 1, low <= x <= high }, to a KKT violation of
/// 1e-12 max_i K_ii (largest gap between the gradients of an entry that may shrink and one that may
/// grow).
///
/// @param gram  K, [n, n] row-major, symmetric positive semidefinite
/// @param start a feasible point, e.g. the middle of the box
/// @throws Error(kInternal)  sizes disagree, a number is not finite, or the start is not feasible
[[nodiscard]] std::vector<double> box_min_norm(std::span<const double> gram,
                                               std::span<const double> low,
                                               std::span<const double> high,
                                               std::span<const double> start);

}  // namespace apo::federation
