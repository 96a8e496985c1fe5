#pragma once

/// @file
/// Preference-weighted scores and their uncertainty (spec algorithms.md, section 4.1). Scores rise:
/// higher is better.

#include <span>
#include <string>
#include <vector>

namespace apo::metrics {

/// Smallest and largest raw score of one objective over all methods, clusters and preferences of
/// one experiment. Frozen once and used for score, hypervolume and IGD alike.
struct ScoreRange {
  double low = 0.0;
  double high = 0.0;
};

/// Ranges of the columns. @param scores  rows of [m] raw scores, at least one
/// @throws Error(kInternal)  no rows, rows that differ in size, a score that is not finite
[[nodiscard]] std::vector<ScoreRange> score_ranges(std::span<const std::vector<double>> scores);

struct NormalisedScores {
  std::vector<double> value;  ///< [m], in [0, 1]
  int num_clipped = 0;        ///< scores outside a frozen range, clipped into [0, 1]
  int num_zero_range = 0;     ///< objectives without a range: their value is 0.5, warn about it
};

/// (s_j - low_j) / (high_j - low_j), clipped to [0, 1].
/// @throws Error(kInternal)  sizes disagree, or a number is not finite, or high < low
[[nodiscard]] NormalisedScores normalise(std::span<const double> score,
                                         std::span<const ScoreRange> range);

/// sum_j lambda_j s_j. @throws Error(kInternal)  sizes disagree
[[nodiscard]] double preference_weighted(std::span<const double> score,
                                         std::span<const double> preference);

/// A mean with its two-sided confidence interval from Student's t.
struct MeanInterval {
  double mean = 0.0;
  double half_width = 0.0;  ///< infinity for a single value
  int count = 0;

  [[nodiscard]] double low() const { return mean - half_width; }
  [[nodiscard]] double high() const { return mean + half_width; }
};

/// @param values  at least one, finite; @param confidence  in (0, 1)
/// @throws Error(kInternal)  otherwise
[[nodiscard]] MeanInterval mean_interval(std::span<const double> values, double confidence = 0.95);

/// Interval of the mean of a_k - b_k: two methods on the same clients.
/// @throws Error(kInternal)  sizes disagree, and as mean_interval()
[[nodiscard]] MeanInterval paired_difference(std::span<const double> a, std::span<const double> b,
                                             double confidence = 0.95);

/// x with P(T <= x) = probability for Student's t. @param degrees_of_freedom  > 0
[[nodiscard]] double student_t_quantile(double probability, double degrees_of_freedom);

}  // namespace apo::metrics
