// T-G of algorithms.md section 7: the paper's counter-examples on the line.

#include <limits>

#include "analytic_problems.hpp"

namespace apo::objective::analytic {
namespace {

/// l_1 = l_2 = (w^2 - 1)^2 + 1: at w = 0 everything is stationary and balanced, and psi is twice
/// psi*.
class FlatStationary final : public ProblemBase {
 public:
  FlatStationary() : ProblemBase("flat_stationary", 2, 1) {}

  [[nodiscard]] double smoothness() const override {
    return std::numeric_limits<double>::quiet_NaN();  // the second derivative grows as 12 w^2
  }

  [[nodiscard]] std::vector<double> start(std::uint64_t /*seed*/) const override { return {0.0}; }

  [[nodiscard]] double objective(int /*j*/, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const double w = x[0];
    const double well = w * w - 1.0;
    if (!gradient.empty()) {
      gradient[0] = 4.0 * w * well;
    }
    return well * well + 1.0;
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    return point_at({1.0}, preference, preference[0] == preference[1]);  // w = -1 as well
  }
};

/// l_1 = 1 + w, l_2 = 1 - w: opposite gradients on both sides of every balanced point.
class VShape final : public ProblemBase {
 public:
  VShape() : ProblemBase("v_shape", 2, 1) {}

  [[nodiscard]] double smoothness() const override { return 0.0; }

  [[nodiscard]] std::vector<double> start(std::uint64_t /*seed*/) const override { return {0.5}; }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const double slope = j == 0 ? 1.0 : -1.0;
    if (!gradient.empty()) {
      gradient[0] = slope;
    }
    return 1.0 + slope * x[0];
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    const double sum = preference[0] + preference[1];
    return point_at({(preference[1] - preference[0]) / sum}, preference, true);
  }
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_flat_stationary(const AnalyticOptions& /*options*/) {
  return std::make_unique<FlatStationary>();
}

std::unique_ptr<AnalyticProblem> make_v_shape(const AnalyticOptions& /*options*/) {
  return std::make_unique<VShape>();
}

}  // namespace apo::objective::analytic
