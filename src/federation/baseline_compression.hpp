#pragma once

/// @file
/// Inside the room: what FedCMOO and FSMGDA send instead of whole gradients (algorithms.md 3.6).

#include <cstdint>
#include <span>
#include <vector>

#include "apo/core/rng.hpp"

namespace apo::federation {

/// Zeros all but the `keep` entries of largest magnitude; ties to the lower position.
void keep_largest(std::span<float> values, std::size_t keep);

/// Float32 numbers that `keep` of `size` entries take: the values, and where they stand, as a list
/// of positions of ceil(log2(size)) bits each or as one bit per entry, whichever is shorter. No
/// positions when all are kept.
[[nodiscard]] std::int64_t floats_of_largest(std::size_t keep, std::size_t size);

/// An m x P matrix (m gradients) folded into a nearly square one: s = floor(sqrt(m P)) rows; the
/// P x m matrix is cut into ceil(P / s) pieces of s rows, the last filled with zeros, that stand
/// side by side.
struct SquareShape {
  std::size_t num_objectives;
  std::size_t num_parameters;
  std::size_t rows;     ///< s
  std::size_t columns;  ///< m ceil(P / s)
};
[[nodiscard]] SquareShape square_shape(std::size_t num_objectives, std::size_t num_parameters);

/// Rank floor(q P / (2 sqrt(P m))), at least 1 and at most min(rows, columns): with it the two
/// factors have about q P numbers.
[[nodiscard]] std::size_t rank_of(const SquareShape& shape, double quality);

/// rank * (rows + columns): the two factors of a matrix of that rank.
[[nodiscard]] std::int64_t floats_of_rank(const SquareShape& shape, std::size_t rank);

/// Replaces the gradients by the best approximation of rank `rank` of their folded matrix that a
/// randomised SVD finds: 10 % oversampling, two power iterations (Halko, Martinsson, Tropp 2011,
/// algorithm 5.1). @param gradients  [m, P] row-major
void approximate(std::span<float> gradients, const SquareShape& shape, std::size_t rank,
                 const StreamKey& key);

/// The nearest positive semidefinite matrix (Frobenius). @param matrix  [m, m] symmetric
void project_on_psd(std::vector<double>& matrix, std::size_t m);

}  // namespace apo::federation
