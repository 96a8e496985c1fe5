#include "apo/metrics/pareto.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <pagmo/utils/hypervolume.hpp>
#include <pagmo/utils/multi_objective.hpp>

#include "apo/core/error.hpp"

namespace apo::metrics {

namespace {

void check(std::span<const ScorePoint> points, std::size_t m) {
  for (const ScorePoint& point : points) {
    expects(point.size() == m && m > 0, "pareto: expected points of " + std::to_string(m) +
                                            " scores, found one of " +
                                            std::to_string(point.size()));
    for (const double score : point) {
      expects(std::isfinite(score), "pareto: a score is not finite");
    }
  }
}

/// pagmo minimises; this is the only place where the sign turns.
std::vector<double> negated(const ScorePoint& point) {
  std::vector<double> result(point.size());
  std::transform(point.begin(), point.end(), result.begin(), [](double score) { return -score; });
  return result;
}

double mean_distance(std::span<const ScorePoint> points, std::span<const ScorePoint> reference,
                     bool shortfall_only) {
  expects(!reference.empty(), "pareto: no reference points");
  check(reference, reference.front().size());
  check(points, reference.front().size());
  double sum = 0.0;
  for (const ScorePoint& target : reference) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const ScorePoint& point : points) {
      double squared = 0.0;
      for (std::size_t j = 0; j < target.size(); ++j) {
        const double gap = target[j] - point[j];
        squared += shortfall_only && gap < 0.0 ? 0.0 : gap * gap;
      }
      nearest = std::min(nearest, std::sqrt(squared));
    }
    sum += nearest;
  }
  return sum / static_cast<double>(reference.size());
}

}  // namespace

std::vector<int> nondominated_front(std::span<const ScorePoint> points) {
  if (points.empty()) {
    return {};
  }
  check(points, points.front().size());
  std::map<ScorePoint, int> first;  // of equal points, the first position
  for (std::size_t i = 0; i < points.size(); ++i) {
    first.emplace(points[i], static_cast<int>(i));
  }
  if (first.size() == 1 || points.front().size() == 1) {
    return {first.rbegin()->second};
  }
  std::vector<std::vector<double>> distinct;
  std::vector<int> position;
  for (const auto& [point, index] : first) {
    distinct.push_back(negated(point));
    position.push_back(index);
  }
  // Two objectives need no pairwise comparison: O(n log n) instead of O(n^2).
  const std::vector<pagmo::pop_size_t> front =
      points.front().size() == 2 ? pagmo::non_dominated_front_2d(distinct)
                                 : std::get<0>(pagmo::fast_non_dominated_sorting(distinct)).front();
  std::vector<int> result;
  for (const auto member : front) {
    result.push_back(position[member]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

double hypervolume(std::span<const ScorePoint> points) {
  if (points.empty()) {
    return 0.0;
  }
  const std::size_t m = points.front().size();
  check(points, m);
  if (m == 1) {
    double largest = 0.0;
    for (const ScorePoint& point : points) {
      largest = std::max(largest, point.front());
    }
    return largest;
  }
  std::vector<ScorePoint> positive;
  std::copy_if(points.begin(), points.end(), std::back_inserter(positive), [](const auto& point) {
    return std::all_of(point.begin(), point.end(), [](double score) { return score > 0.0; });
  });
  std::vector<std::vector<double>> front;
  for (const int index : nondominated_front(positive)) {
    front.push_back(negated(positive[static_cast<std::size_t>(index)]));
  }
  if (front.empty()) {
    return 0.0;
  }
  return pagmo::hypervolume(front, true).compute(std::vector<double>(m, 0.0));
}

double igd(std::span<const ScorePoint> points, std::span<const ScorePoint> reference) {
  return mean_distance(points, reference, false);
}

double igd_plus(std::span<const ScorePoint> points, std::span<const ScorePoint> reference) {
  return mean_distance(points, reference, true);
}

}  // namespace apo::metrics
