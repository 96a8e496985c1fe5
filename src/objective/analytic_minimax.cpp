#include "analytic_minimax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analytic_linear_algebra.hpp"

namespace apo::objective::analytic {
namespace {

/// Weighted losses lambda_j l_j and their gradients at one point.
struct Values {
  std::vector<double> loss;      // [m]
  std::vector<double> gradient;  // [m, P]
};

class Solver {
 public:
  Solver(const ConvexLosses& losses, std::span<const double> preference)
      : losses_(losses), preference_(preference), m_(losses.count()), size_(losses.size()) {}

  Minimax solve(std::span<const double> start) {
    w_.assign(start.begin(), start.end());
    values_ = values_at(w_);
    nu_.assign(m_, 1.0 / static_cast<double>(m_));
    t_ = 1.5 * *std::max_element(values_.loss.begin(), values_.loss.end());
    follow_central_path();
    for (int step = 0; step < kMaxSteps && interior_step(); ++step) {
    }
    polish();
    return {w_, nu_};
  }

 private:
  static constexpr int kMaxSteps = 100;

  [[nodiscard]] Values values_at(std::span<const double> w) const {
    Values values{std::vector<double>(m_), std::vector<double>(m_ * size_)};
    for (std::size_t j = 0; j < m_; ++j) {
      const auto row = std::span(values.gradient).subspan(j * size_, size_);
      values.loss[j] = preference_[j] * losses_.loss(j, w, row);
      for (double& entry : row) {
        entry *= preference_[j];
      }
    }
    return values;
  }

  [[nodiscard]] double gap(std::span<const double> nu, double t, const Values& values) const {
    double sum = 0.0;
    for (std::size_t j = 0; j < m_; ++j) {
      sum += nu[j] * (t - values.loss[j]);
    }
    return sum;
  }

  /// Norm of (sum nu_j grad_j, 1 - sum nu_j).
  [[nodiscard]] double dual_residual(std::span<const double> nu, const Values& values) const {
    double sum = 0.0;
    for (const double entry : nu) {
      sum += entry;
    }
    double squared = (1.0 - sum) * (1.0 - sum);
    for (std::size_t p = 0; p < size_; ++p) {
      double entry = 0.0;
      for (std::size_t j = 0; j < m_; ++j) {
        entry += nu[j] * values.gradient[j * size_ + p];
      }
      squared += entry * entry;
    }
    return std::sqrt(squared);
  }

  /// Norm of the residual of the KKT conditions with complementarity 1 / sharpness.
  [[nodiscard]] double residual(std::span<const double> nu, double t, const Values& values,
                                double sharpness) const {
    const double dual = dual_residual(nu, values);
    double squared = dual * dual;
    for (std::size_t j = 0; j < m_; ++j) {
      const double centrality = nu[j] * (t - values.loss[j]) - 1.0 / sharpness;
      squared += centrality * centrality;
    }
    return std::sqrt(squared);
  }

  /// Step of (w, t) of Newton's method on the KKT conditions with complementarity 1 / sharpness,
  /// the multipliers eliminated; empty: singular.
  [[nodiscard]] std::vector<double> newton_direction(double sharpness) const {
    const std::size_t n = size_ + 1;  // w, then t
    std::vector<double> matrix(n * n, 0.0);
    std::vector<double> step(n, 0.0);
    std::vector<double> hessian(size_ * size_, 0.0);
    for (std::size_t j = 0; j < m_; ++j) {
      losses_.add_hessian(j, w_, nu_[j] * preference_[j], hessian);
    }
    for (std::size_t p = 0; p < size_; ++p) {
      std::copy_n(&hessian[p * size_], size_, &matrix[p * n]);
    }
    step[size_] = -1.0;
    for (std::size_t j = 0; j < m_; ++j) {
      const double slack = t_ - values_.loss[j];
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t q = 0; q < n; ++q) {
          matrix[p * n + q] += nu_[j] / slack * slope(j, p) * slope(j, q);
        }
        step[p] -= slope(j, p) / (sharpness * slack);
      }
    }
    if (!solve_dense(matrix, step)) {
      step.clear();
    }
    return step;
  }

  /// Damped Newton method on sharpness t - sum log(t - loss_j), whose minimisers lead to the
  /// optimum as sharpness grows. From afar it is safer than the primal-dual steps.
  void follow_central_path() {
    const auto barrier = [&](double sharpness, double t, const Values& values) {
      double sum = sharpness * t;
      for (const double loss : values.loss) {
        sum -= loss < t ? std::log(t - loss) : -std::numeric_limits<double>::infinity();
      }
      return sum;
    };
    double sharpness = static_cast<double>(m_) / t_;
    for (; static_cast<double>(m_) / sharpness > 1e-5 * t_; sharpness *= 8.0) {
      for (int step = 0; step < kMaxSteps; ++step) {
        set_multipliers(sharpness);
        const std::vector<double> direction = newton_direction(sharpness);
        if (direction.empty()) {
          return;
        }
        double descent = sharpness * direction[size_];
        for (std::size_t j = 0; j < m_; ++j) {
          for (std::size_t p = 0; p <= size_; ++p) {
            descent += sharpness * nu_[j] * slope(j, p) * direction[p];
          }
        }
        if (descent > -1e-3) {
          break;
        }
        const double before = barrier(sharpness, t_, values_);
        double length = 1.0;
        for (; length > 1e-12; length *= 0.5) {
          std::vector<double> w = w_;
          for (std::size_t p = 0; p < size_; ++p) {
            w[p] += length * direction[p];
          }
          const double t = t_ + length * direction[size_];
          Values values = values_at(w);
          if (barrier(sharpness, t, values) <= before + 0.1 * length * descent) {
            w_ = std::move(w);
            t_ = t;
            values_ = std::move(values);
            break;
          }
        }
      }
    }
    set_multipliers(sharpness / 8.0);
  }

  void set_multipliers(double sharpness) {
    for (std::size_t j = 0; j < m_; ++j) {
      nu_[j] = 1.0 / (sharpness * (t_ - values_.loss[j]));
    }
  }

  /// One primal-dual step for (w, t, nu); false: no more to gain.
  bool interior_step() {
    const double present_gap = gap(nu_, t_, values_);
    const double imbalance = dual_residual(nu_, values_);
    if (present_gap <= 1e-13 * t_ && imbalance <= 1e-13) {
      return false;
    }
    // The gap is not pressed below the dual residual: the iterates would stick to the constraints.
    const double reduction = imbalance <= present_gap ? 10.0 : 1.0;
    const double sharpness =
        reduction * static_cast<double>(m_) / std::max(present_gap, 1e-14 * t_);
    const std::vector<double> step = newton_direction(sharpness);
    if (step.empty()) {
      return false;
    }
    const std::size_t n = size_ + 1;
    std::vector<double> nu_step(m_);
    double length = 1.0;
    for (std::size_t j = 0; j < m_; ++j) {
      double along = 0.0;
      for (std::size_t p = 0; p < n; ++p) {
        along += slope(j, p) * step[p];
      }
      const double slack = t_ - values_.loss[j];
      nu_step[j] = (1.0 / sharpness + nu_[j] * along) / slack - nu_[j];
      if (nu_step[j] < 0.0) {
        length = std::min(length, -nu_[j] / nu_step[j]);
      }
    }
    return search(step, nu_step, 0.99 * length, sharpness);
  }

  /// No product of multiplier and slack is far below their mean: from such corners steps are short.
  [[nodiscard]] bool is_central(std::span<const double> nu, double t, const Values& values) const {
    const double mean = gap(nu, t, values) / static_cast<double>(m_);
    for (std::size_t j = 0; j < m_; ++j) {
      if (nu[j] * (t - values.loss[j]) < 1e-2 * mean) {
        return false;
      }
    }
    return true;
  }

  /// Backtracks until the point is inside and central, and the residual has fallen.
  bool search(std::span<const double> step, std::span<const double> nu_step, double length,
              double sharpness) {
    const double before = residual(nu_, t_, values_, sharpness);
    std::vector<double> w(size_);
    std::vector<double> nu(m_);
    for (int halving = 0; halving < 40; ++halving, length *= 0.5) {
      for (std::size_t p = 0; p < size_; ++p) {
        w[p] = w_[p] + length * step[p];
      }
      for (std::size_t j = 0; j < m_; ++j) {
        nu[j] = nu_[j] + length * nu_step[j];
      }
      const double t = t_ + length * step[size_];
      Values values = values_at(w);
      const double largest = *std::max_element(values.loss.begin(), values.loss.end());
      if (largest < t && is_central(nu, t, values) &&
          residual(nu, t, values, sharpness) <= (1.0 - 0.01 * length) * before) {
        w_ = w;
        nu_ = nu;
        t_ = t;
        values_ = std::move(values);
        return true;
      }
    }
    return false;
  }

  /// Derivative of lambda_j l_j - t by coordinate p of (w, t).
  [[nodiscard]] double slope(std::size_t j, std::size_t p) const {
    return p < size_ ? values_.gradient[j * size_ + p] : -1.0;
  }

  /// Newton's method on sum nu_j grad_j = 0, loss_j = t, sum nu_j = 1 over the active losses, whose
  /// multiplier exceeds their slack.
  void polish() {
    std::vector<std::size_t> active;
    for (std::size_t j = 0; j < m_; ++j) {
      if (nu_[j] > (t_ - values_.loss[j]) / t_) {
        active.push_back(j);
      }
    }
    std::vector<double> nu(m_, 0.0);
    double sum = 0.0;
    for (const std::size_t j : active) {
      sum += nu_[j];
    }
    for (const std::size_t j : active) {
      nu[j] = nu_[j] / sum;
    }
    std::vector<double> w = w_;
    double t = t_;
    for (int step = 0; step < 4; ++step) {
      if (!kkt_step(active, w, t, nu)) {
        return;
      }
    }
    const Values values = values_at(w);
    const double after = *std::max_element(values.loss.begin(), values.loss.end());
    const double before = *std::max_element(values_.loss.begin(), values_.loss.end());
    const bool valid = std::all_of(nu.begin(), nu.end(), [](double x) { return x >= 0.0; });
    if (valid && after <= before * (1.0 + 1e-13)) {
      w_ = w;
      nu_ = nu;
    }
  }

  bool kkt_step(std::span<const std::size_t> active, std::vector<double>& w, double& t,
                std::vector<double>& nu) const {
    const std::size_t k = active.size();
    const std::size_t n = size_ + 1 + k;
    const Values values = values_at(w);
    std::vector<double> matrix(n * n, 0.0);
    std::vector<double> right(n, 0.0);
    std::vector<double> hessian(size_ * size_, 0.0);
    right[size_] = 1.0;
    for (std::size_t a = 0; a < k; ++a) {
      const std::size_t j = active[a];
      const std::size_t row = size_ + 1 + a;
      losses_.add_hessian(j, w, nu[j] * preference_[j], hessian);
      for (std::size_t p = 0; p < size_; ++p) {
        const double g = values.gradient[j * size_ + p];
        matrix[p * n + row] = matrix[row * n + p] = g;
        right[p] -= nu[j] * g;
      }
      matrix[size_ * n + row] = 1.0;
      matrix[row * n + size_] = -1.0;
      right[size_] -= nu[j];
      right[row] = t - values.loss[j];
    }
    for (std::size_t p = 0; p < size_; ++p) {
      std::copy_n(&hessian[p * size_], size_, &matrix[p * n]);
    }
    if (!solve_dense(matrix, right)) {
      return false;
    }
    for (std::size_t p = 0; p < size_; ++p) {
      w[p] += right[p];
    }
    t += right[size_];
    for (std::size_t a = 0; a < k; ++a) {
      nu[active[a]] += right[size_ + 1 + a];
    }
    return std::all_of(right.begin(), right.end(), [](double x) { return std::isfinite(x); });
  }

  const ConvexLosses& losses_;
  std::span<const double> preference_;
  std::size_t m_;
  std::size_t size_;
  std::vector<double> w_;
  std::vector<double> nu_;
  double t_ = 0.0;
  Values values_;
};

}  // namespace

Minimax minimise_maximum(const ConvexLosses& losses, std::span<const double> preference,
                         std::span<const double> start) {
  return Solver(losses, preference).solve(start);
}

}  // namespace apo::objective::analytic
