#include "baseline_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <Eigen/Dense>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

/// The box-constrained problem with what its solver keeps up to date.
class BoxProblem {
 public:
  BoxProblem(std::span<const double> gram, std::span<const double> low,
             std::span<const double> high, std::span<const double> start)
      : k_(gram), low_(low), high_(high), x_(start.begin(), start.end()) {
    refresh();
  }

  struct Pair {
    std::size_t grow = 0;    ///< the entry whose growth pays most
    std::size_t shrink = 0;  ///< the entry whose shrinking pays most
    double violation = 0.0;  ///< of the KKT conditions
  };

  [[nodiscard]] Pair worst_pair() const {
    Pair pair;
    double lowest = std::numeric_limits<double>::infinity();
    double highest = -lowest;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (x_[i] < high_[i] && gradient_[i] < lowest) {
        lowest = gradient_[i];
        pair.grow = i;
      }
      if (x_[i] > low_[i] && gradient_[i] > highest) {
        highest = gradient_[i];
        pair.shrink = i;
      }
    }
    pair.violation = highest - lowest;  // -inf or less than 0 where nothing can move
    return pair;
  }

  /// Exact minimisation along e_grow - e_shrink inside the box.
  void exchange(const Pair& pair) {
    const std::size_t n = x_.size();
    const std::size_t i = pair.grow;
    const std::size_t j = pair.shrink;
    const double curvature = k_[i * n + i] + k_[j * n + j] - 2.0 * k_[i * n + j];
    const double limit = std::min(high_[i] - x_[i], x_[j] - low_[j]);
    const double wish = curvature > 0.0 ? pair.violation / curvature : limit;
    if (wish < limit) {
      x_[i] += wish;
      x_[j] -= wish;
    } else if (high_[i] - x_[i] <= x_[j] - low_[j]) {
      x_[i] = high_[i];  // exactly on the bound, so that it counts as such
      x_[j] = std::max(low_[j], x_[j] - limit);
    } else {
      x_[i] = std::min(high_[i], x_[i] + limit);
      x_[j] = low_[j];
    }
    const double step = std::min(wish, limit);
    for (std::size_t r = 0; r < n; ++r) {
      gradient_[r] += step * (k_[r * n + i] - k_[r * n + j]);
    }
  }

  /// A Newton step on the entries inside their bounds, as far as the bounds allow. Solves what
  /// exchanges would approach slowly when the problem is badly conditioned.
  void newton() {
    const std::size_t n = x_.size();
    std::vector<std::size_t> free;
    double largest = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max(largest, k_[i * n + i]);
      if (low_[i] < x_[i] && x_[i] < high_[i]) {
        free.push_back(i);
      }
    }
    if (free.size() < 2) {
      return;
    }
    const auto size = static_cast<Eigen::Index>(free.size());
    Eigen::MatrixXd hessian(size, size);
    Eigen::VectorXd slope(size);
    for (Eigen::Index a = 0; a < size; ++a) {
      const std::size_t i = free[static_cast<std::size_t>(a)];
      slope(a) = gradient_[i];
      for (Eigen::Index b = 0; b < size; ++b) {
        hessian(a, b) = k_[i * n + free[static_cast<std::size_t>(b)]];
      }
      hessian(a, a) += 1e-12 * largest;  // K may be singular: a proximal step
    }
    const Eigen::LDLT<Eigen::MatrixXd> factor(hessian);
    const Eigen::VectorXd ones = factor.solve(Eigen::VectorXd::Ones(size));
    const Eigen::VectorXd plain = factor.solve(slope);
    Eigen::VectorXd step = ones * (plain.sum() / ones.sum()) - plain;
    step.array() -= step.mean();
    const double descent = step.dot(slope);
    if (!step.allFinite() || !(descent < 0.0)) {
      return;
    }
    const double curvature = step.dot(hessian * step);
    double length = curvature > 0.0 ? std::min(1.0, -descent / curvature) : 1.0;
    std::size_t blocking = n;
    for (Eigen::Index a = 0; a < size; ++a) {
      const std::size_t i = free[static_cast<std::size_t>(a)];
      const double room = step(a) > 0.0 ? high_[i] - x_[i] : low_[i] - x_[i];
      if (step(a) != 0.0 && room / step(a) < length) {
        length = room / step(a);
        blocking = i;
      }
    }
    for (Eigen::Index a = 0; a < size; ++a) {
      const std::size_t i = free[static_cast<std::size_t>(a)];
      x_[i] = std::clamp(x_[i] + length * step(a), low_[i], high_[i]);
      if (i == blocking) {  // exactly on the bound, so that it counts as such
        x_[i] = step(a) > 0.0 ? high_[i] : low_[i];
      }
    }
    refresh();
  }

  /// K x anew: exchanges leave rounding in it.
  void refresh() {
    const std::size_t n = x_.size();
    gradient_.assign(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        gradient_[i] += k_[i * n + j] * x_[j];
      }
    }
  }

  [[nodiscard]] std::vector<double> take() { return std::move(x_); }

 private:
  std::span<const double> k_;
  std::span<const double> low_;
  std::span<const double> high_;
  std::vector<double> x_;
  std::vector<double> gradient_;  ///< K x, half of the gradient
};

}  // namespace

std::vector<double> project_on_simplex(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0.0;
  double threshold = 0.0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double candidate = (sum - 1.0) / static_cast<double>(k + 1);
    if (k == 0 || sorted[k] > candidate) {
      threshold = candidate;
    }
  }
  std::vector<double> result;
  for (const double x : values) {
    result.push_back(std::max(0.0, x - threshold));
  }
  return result;
}

std::vector<double> scaled_gram(std::span<const double> gram, std::size_t m) {
  double mean = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    mean += std::sqrt(std::max(0.0, gram[j * m + j]) + 1e-4) / static_cast<double>(m);
  }
  std::vector<double> result(gram.begin(), gram.end());
  for (double& x : result) {
    x /= mean * mean;
  }
  return result;
}

std::vector<double> track_min_norm(std::span<const double> gram, std::vector<double> weights,
                                   int steps, double rate) {
  const std::size_t m = weights.size();
  expects(gram.size() == m * m, "track_min_norm: sizes disagree");
  std::vector<double> moved(m);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < m; ++i) {
      double slope = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        slope += gram[i * m + j] * weights[j];
      }
      moved[i] = weights[i] - rate * slope;
    }
    weights = project_on_simplex(moved);
  }
  return weights;
}

std::vector<double> box_min_norm(std::span<const double> gram, std::span<const double> low,
                                 std::span<const double> high, std::span<const double> start) {
  const std::size_t n = start.size();
  expects(n > 0 && gram.size() == n * n && low.size() == n && high.size() == n,
          "box_min_norm: sizes disagree");
  double sum = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    expects(low[i] <= start[i] && start[i] <= high[i],
            "box_min_norm: entry " + std::to_string(i) + " of the start is " +
                std::to_string(start[i]) + ", expected a number in [" + std::to_string(low[i]) +
                ", " + std::to_string(high[i]) + "]");
    sum += start[i];
    largest = std::max(largest, gram[i * n + i]);
  }
  expects(std::abs(sum - 1.0) <= 1e-9,
          "box_min_norm: the start adds up to " + std::to_string(sum) + ", expected 1");
  expects(std::all_of(gram.begin(), gram.end(), [](double x) { return std::isfinite(x); }),
          "box_min_norm: the matrix has entries that are not finite");

  const double tolerance = 1e-12 * largest;
  BoxProblem problem(gram, low, high, start);
  // Exchanges alone converge always; the Newton steps in between make it fast. The bound is far
  // beyond what is needed, in case rounding keeps the violation above the tolerance.
  constexpr int kMaxCycles = 1000;
  for (int cycle = 0; cycle < kMaxCycles; ++cycle) {
    BoxProblem::Pair pair = problem.worst_pair();
    for (std::size_t k = 0; k < 2 * n && pair.violation > tolerance; ++k) {
      problem.exchange(pair);
      pair = problem.worst_pair();
    }
    problem.refresh();
    if (problem.worst_pair().violation <= tolerance) {
      break;
    }
    problem.newton();
  }
  return problem.take();
}

}  // namespace apo::federation
