// T-E of algorithms.md section 7: l_j = 1/2 (x - c_j)' H_j (x - c_j) + b_j, m = 2.
// H_1 = diag(h), h geometric from 1 to the condition number; H_2 = Q diag(h reversed) Q with the
// reflection Q = I - 2 v v', v ~ (1, 2, ..., P). They do not commute.

#include <cmath>

#include "analytic_linear_algebra.hpp"
#include "analytic_problems.hpp"

namespace apo::objective::analytic {
namespace {

class Anisotropic final : public ProblemBase {
 public:
  explicit Anisotropic(const AnalyticOptions& options)
      : ProblemBase("anisotropic", 2, options.dimension),
        end_(constant(options.dimension, options.radius)),
        offset_(offsets_of(options)) {
    const auto count = static_cast<double>(options.dimension);
    double norm = 0.0;
    for (std::size_t p = 0; p < size(); ++p) {
      const double position = options.dimension > 1 ? static_cast<double>(p) / (count - 1.0) : 0.0;
      scale_.push_back(std::pow(options.condition, position));
      axis_.push_back(static_cast<double>(p + 1));
      norm += axis_[p] * axis_[p];
    }
    for (double& entry : axis_) {
      entry /= std::sqrt(norm);
    }
    diagonalise();
  }

  [[nodiscard]] double smoothness() const override { return scale_.back(); }

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    return beside_segment(end_, seed);
  }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    double sum = 0.0;
    if (j == 0) {
      for (std::size_t p = 0; p < size(); ++p) {
        const double difference = x[p] - end_[p];
        sum += scale_[p] * difference * difference;
        if (!gradient.empty()) {
          gradient[p] = scale_[p] * difference;
        }
      }
      return 0.5 * sum + offset_[0];
    }
    double inner = 0.0;
    for (std::size_t p = 0; p < size(); ++p) {
      inner += axis_[p] * (x[p] + end_[p]);
    }
    double again = 0.0;
    for (std::size_t p = 0; p < size(); ++p) {
      const double reflected = x[p] + end_[p] - 2.0 * axis_[p] * inner;
      const double scaled = scale_[size() - 1 - p] * reflected;
      sum += scaled * reflected;
      again += axis_[p] * scaled;
      if (!gradient.empty()) {
        gradient[p] = scaled;
      }
    }
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      gradient[p] -= 2.0 * axis_[p] * again;
    }
    return 0.5 * sum + offset_[1];
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    // Minimisers of alpha l_1 + (1 - alpha) l_2; lambda_1 l_1 - lambda_2 l_2 falls with alpha.
    const auto excess = [&](double alpha) {
      double first = 0.0;
      double second = 0.0;
      for (std::size_t k = 0; k < size(); ++k) {
        const double sum = alpha + (1.0 - alpha) * ratio_[k];
        const double to_first = (1.0 - alpha) * ratio_[k] / sum * gap_[k];
        const double to_second = alpha / sum * gap_[k];
        first += to_first * to_first;
        second += ratio_[k] * to_second * to_second;
      }
      return preference[0] * (0.5 * first + offset_[0]) -
             preference[1] * (0.5 * second + offset_[1]);
    };
    double alpha = 0.0;
    bool on_ray = true;
    if (excess(0.0) <= 0.0) {
      on_ray = excess(0.0) == 0.0;
    } else if (excess(1.0) >= 0.0) {
      alpha = 1.0;
      on_ray = excess(1.0) == 0.0;
    } else {
      alpha = bisect_decreasing(excess, 0.0, 1.0);
    }
    std::vector<double> x = end_;
    for (std::size_t k = 0; k < size(); ++k) {
      const double step = (1.0 - alpha) * ratio_[k] / (alpha + (1.0 - alpha) * ratio_[k]) * gap_[k];
      for (std::size_t p = 0; p < size(); ++p) {
        x[p] += basis_[p * size() + k] * step;
      }
    }
    return point_at(std::move(x), preference, on_ray);
  }

 private:
  /// Coordinates y in which H_1 is the identity and H_2 = diag(ratio): x = c_1 + basis y.
  void diagonalise() {
    const std::size_t n = size();
    std::vector<double> relative(n * n, 0.0);  // H_1^-1/2 H_2 H_1^-1/2
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = 0; q < n; ++q) {
        double entry = 0.0;
        for (std::size_t k = 0; k < n; ++k) {
          entry += reflection(p, k) * scale_[n - 1 - k] * reflection(k, q);
        }
        relative[p * n + q] = entry / std::sqrt(scale_[p] * scale_[q]);
      }
    }
    const Eigen eigen = symmetric_eigen(std::move(relative), n);
    ratio_ = eigen.values;
    basis_ = eigen.vectors;
    gap_.assign(n, 0.0);
    for (std::size_t p = 0; p < n; ++p) {
      const double root = std::sqrt(scale_[p]);
      for (std::size_t k = 0; k < n; ++k) {
        gap_[k] += basis_[p * n + k] * root * (-2.0 * end_[p]);
        basis_[p * n + k] /= root;
      }
    }
  }

  [[nodiscard]] double reflection(std::size_t p, std::size_t q) const {
    return (p == q ? 1.0 : 0.0) - 2.0 * axis_[p] * axis_[q];
  }

  std::vector<double> end_;  // c_1 = -c_2, [P]
  std::vector<double> offset_;
  std::vector<double> scale_;  // h, [P], ascending
  std::vector<double> axis_;   // v, [P]
  std::vector<double> ratio_;  // eigenvalues of H_2 relative to H_1, [P]
  std::vector<double> basis_;  // [P, P]
  std::vector<double> gap_;    // c_2 - c_1 in the coordinates y, [P]
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_anisotropic(const AnalyticOptions& options) {
  return std::make_unique<Anisotropic>(options);
}

}  // namespace apo::objective::analytic
