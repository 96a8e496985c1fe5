#pragma once

/// @file
/// Preference vectors: strictly positive points of the simplex (spec algorithms.md, section 0.3).

#include <span>
#include <string_view>
#include <vector>

namespace apo {

inline constexpr double kPreferenceFloor = 1e-6;

/// Scales to sum 1 and lifts entries below `floor` to it (then renormalises).
///
/// @param values  [m] finite, non-negative, not all zero
/// @param what    named in the error, e.g. "preferences.csv row 3"
/// @throws Error(kData)  on a negative, non-finite or all-zero vector
[[nodiscard]] std::vector<double> normalised_preference(std::span<const double> values,
                                                        std::string_view what,
                                                        double floor = kPreferenceFloor);

}  // namespace apo
