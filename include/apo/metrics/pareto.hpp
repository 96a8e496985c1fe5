#pragma once

/// @file
/// Quality of solution sets (spec algorithms.md, sections 4.3 to 4.5). Everything is maximised: one
/// point is the vector of an evaluated solution's scores, [m], and higher is better.

#include <span>
#include <vector>

namespace apo::metrics {

using ScorePoint = std::vector<double>;  ///< [m]

/// Positions of the points that no other dominates (x >= y and x != y), ascending. Of equal points
/// only the first is kept. Comparisons are exact.
/// @throws Error(kInternal)  points of different size, or a number that is not finite
[[nodiscard]] std::vector<int> nondominated_front(std::span<const ScorePoint> points);

/// Volume between the origin and the points, exact (pagmo2: hv2d, hv3d, WFG). Points with a
/// coordinate <= 0 add nothing; no points give 0.
/// @throws Error(kInternal)  as nondominated_front()
[[nodiscard]] double hypervolume(std::span<const ScorePoint> points);

/// Mean Euclidean distance from the reference points to the nearest point of the set; infinity for
/// an empty set. Not Pareto-compliant: report igd_plus() beside it.
/// @throws Error(kInternal)  no reference points, and as nondominated_front()
[[nodiscard]] double igd(std::span<const ScorePoint> points, std::span<const ScorePoint> reference);

/// As igd(), but only the shortfall max(z - x, 0) of a point x behind a reference point z counts.
[[nodiscard]] double igd_plus(std::span<const ScorePoint> points,
                              std::span<const ScorePoint> reference);

}  // namespace apo::metrics
