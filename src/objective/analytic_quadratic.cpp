// T-C and T-K of algorithms.md section 7: l_j = s_j / 2 ||x - c_j||^2 + b_j.

#include <algorithm>
#include <cmath>

#include "analytic_problems.hpp"

namespace apo::objective::analytic {
namespace {

double squared_distance(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (std::size_t p = 0; p < x.size(); ++p) {
    sum += (x[p] - y[p]) * (x[p] - y[p]);
  }
  return sum;
}

std::vector<double> curvature_of(const AnalyticOptions& options) {
  return options.curvature.empty()
             ? std::vector<double>(static_cast<std::size_t>(options.num_objectives), 1.0)
             : options.curvature;
}

class Quadratic : public ProblemBase {
 public:
  /// @param centers  [m][P]
  Quadratic(const AnalyticOptions& options, std::vector<std::vector<double>> centers)
      : ProblemBase(options.problem, options.num_objectives, options.dimension),
        centers_(std::move(centers)),
        curvature_(curvature_of(options)),
        offset_(offsets_of(options)) {}

  [[nodiscard]] double smoothness() const override {
    double largest = 0.0;
    for (const double s : curvature_) {
      largest = std::max(largest, s);
    }
    return largest;
  }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const auto row = static_cast<std::size_t>(j);
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      gradient[p] = curvature_[row] * (x[p] - centers_[row][p]);
    }
    return 0.5 * curvature_[row] * squared_distance(x, centers_[row]) + offset_[row];
  }

 protected:
  std::vector<std::vector<double>> centers_;
  std::vector<double> curvature_;  // s, [m]
  std::vector<double> offset_;     // b, [m]
};

class TwoQuadratics final : public Quadratic {
 public:
  explicit TwoQuadratics(const AnalyticOptions& options)
      : Quadratic(options, {constant(options.dimension, options.radius),
                            constant(options.dimension, -options.radius)}) {}

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    return beside_segment(centers_[0], seed);
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    // On x = c_1 + t (c_2 - c_1): lambda_1 l_1 - lambda_2 l_2 = A t^2 + B t + C, increasing in t.
    const double d2 = squared_distance(centers_[0], centers_[1]);
    const double first = preference[0] * curvature_[0] * d2;
    const double second = preference[1] * curvature_[1] * d2;
    const double a = 0.5 * (first - second);
    const double c = preference[0] * offset_[0] - preference[1] * offset_[1] - 0.5 * second;
    double t = 0.0;
    bool on_ray = true;
    if (c >= 0.0) {
      on_ray = c == 0.0;
    } else if (a + second + c <= 0.0) {
      t = 1.0;
      on_ray = a + second + c == 0.0;
    } else {
      t = -2.0 * c / (second + std::sqrt(second * second - 4.0 * a * c));
    }
    std::vector<double> x(size());
    for (std::size_t p = 0; p < size(); ++p) {
      x[p] = centers_[0][p] + t * (centers_[1][p] - centers_[0][p]);
    }
    return point_at(std::move(x), preference, on_ray);
  }
};

class Consensus final : public Quadratic {
 public:
  explicit Consensus(const AnalyticOptions& options)
      : Quadratic(options, {constant(options.dimension, options.radius)}),
        radius_(options.radius) {}

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    std::vector<double> x = random_direction(seed, kStart, size());
    for (std::size_t p = 0; p < size(); ++p) {
      x[p] = centers_[0][p] + 2.0 * radius_ * x[p];
    }
    return x;
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    return point_at(centers_[0], preference, true);
  }

 private:
  double radius_;
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_quadratic(const AnalyticOptions& options) {
  return std::make_unique<TwoQuadratics>(options);
}

std::unique_ptr<AnalyticProblem> make_consensus(const AnalyticOptions& options) {
  return std::make_unique<Consensus>(options);
}

}  // namespace apo::objective::analytic
