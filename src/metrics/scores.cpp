#include "apo/metrics/scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/distributions/students_t.hpp>

#include "apo/core/error.hpp"

namespace apo::metrics {

std::vector<ScoreRange> score_ranges(std::span<const std::vector<double>> scores) {
  expects(!scores.empty() && !scores.front().empty(), "score_ranges: no scores");
  std::vector<ScoreRange> ranges;
  for (const double score : scores.front()) {
    ranges.push_back({score, score});
  }
  for (const std::vector<double>& row : scores) {
    expects(row.size() == ranges.size(), "score_ranges: expected " + std::to_string(ranges.size()) +
                                             " scores in each row, found " +
                                             std::to_string(row.size()));
    for (std::size_t j = 0; j < row.size(); ++j) {
      expects(std::isfinite(row[j]),
              "score_ranges: a score of objective " + std::to_string(j) + " is not finite");
      ranges[j].low = std::min(ranges[j].low, row[j]);
      ranges[j].high = std::max(ranges[j].high, row[j]);
    }
  }
  return ranges;
}

NormalisedScores normalise(std::span<const double> score, std::span<const ScoreRange> range) {
  expects(score.size() == range.size(), "normalise: expected " + std::to_string(range.size()) +
                                            " scores, found " + std::to_string(score.size()));
  NormalisedScores result;
  for (std::size_t j = 0; j < score.size(); ++j) {
    const auto [low, high] = range[j];
    expects(std::isfinite(score[j]) && std::isfinite(low) && std::isfinite(high) && low <= high,
            "normalise: objective " + std::to_string(j) + " has score " + std::to_string(score[j]) +
                " and range [" + std::to_string(low) + ", " + std::to_string(high) + "]");
    result.num_clipped += score[j] < low || score[j] > high ? 1 : 0;
    if (low == high) {
      ++result.num_zero_range;
      result.value.push_back(0.5);
    } else {
      result.value.push_back(std::clamp((score[j] - low) / (high - low), 0.0, 1.0));
    }
  }
  return result;
}

double preference_weighted(std::span<const double> score, std::span<const double> preference) {
  expects(score.size() == preference.size(),
          "preference_weighted: expected one preference per score, found " +
              std::to_string(preference.size()) + " for " + std::to_string(score.size()));
  double sum = 0.0;
  for (std::size_t j = 0; j < score.size(); ++j) {
    sum += preference[j] * score[j];
  }
  return sum;
}

double student_t_quantile(double probability, double degrees_of_freedom) {
  expects(probability > 0.0 && probability < 1.0 && degrees_of_freedom > 0.0,
          "student_t_quantile: expected a probability in (0, 1) and positive degrees of freedom");
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), probability);
}

MeanInterval mean_interval(std::span<const double> values, double confidence) {
  expects(!values.empty(), "mean_interval: no values");
  expects(confidence > 0.0 && confidence < 1.0, "mean_interval: expected a confidence in (0, 1)");
  MeanInterval result;
  result.count = static_cast<int>(values.size());
  const auto n = static_cast<double>(values.size());
  for (const double value : values) {
    expects(std::isfinite(value), "mean_interval: a value is not finite");
    result.mean += value / n;
  }
  if (values.size() == 1) {
    result.half_width = std::numeric_limits<double>::infinity();
    return result;
  }
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - result.mean) * (value - result.mean);
  }
  const double standard_error = std::sqrt(squares / (n - 1.0) / n);
  result.half_width = student_t_quantile(0.5 + 0.5 * confidence, n - 1.0) * standard_error;
  return result;
}

MeanInterval paired_difference(std::span<const double> a, std::span<const double> b,
                               double confidence) {
  expects(a.size() == b.size(), "paired_difference: " + std::to_string(a.size()) + " against " +
                                    std::to_string(b.size()) + " values");
  std::vector<double> difference(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    difference[k] = a[k] - b[k];
  }
  return mean_interval(difference, confidence);
}

}  // namespace apo::metrics
