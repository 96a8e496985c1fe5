#pragma once

/// @file
/// Inside the room: the largest distance within a set of points.

#include <span>

namespace apo::clustering {

/// Exact, by branch and bound over pairs of boxes: about O(n log n) where the points fill a region
/// of few dimensions, O(n^2) at worst.
///
/// @param positions  [n, dimension], n >= 1
[[nodiscard]] double diameter(std::span<const double> positions, int dimension);

}  // namespace apo::clustering
