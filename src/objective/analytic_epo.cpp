// T-A and T-B of algorithms.md section 7: l_j = b + 1 - exp(-||x - c_j||^2), the toys of EPO.

#include <algorithm>
#include <array>
#include <cmath>

#include "analytic_linear_algebra.hpp"
#include "analytic_problems.hpp"

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::objective::analytic {
namespace {

class Epo : public ProblemBase {
 public:
  /// @param centers  [m][P]
  Epo(std::string name, std::vector<std::vector<double>> centers, double offset)
      : ProblemBase(std::move(name), static_cast<int>(centers.size()),
                    static_cast<int>(centers.front().size())),
        centers_(std::move(centers)),
        offset_(offset) {}

  // The Hessian of 1 - exp(-||v||^2) is 2 exp(-||v||^2) (I - 2 v v'), largest at v = 0.
  [[nodiscard]] double smoothness() const override { return 2.0; }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const std::vector<double>& center = centers_[static_cast<std::size_t>(j)];
    double squared = 0.0;
    for (std::size_t p = 0; p < x.size(); ++p) {
      squared += (x[p] - center[p]) * (x[p] - center[p]);
    }
    if (!gradient.empty()) {
      const double factor = 2.0 * std::exp(-squared);
      for (std::size_t p = 0; p < x.size(); ++p) {
        gradient[p] = factor * (x[p] - center[p]);
      }
    }
    return loss_at(squared);
  }

 protected:
  /// Loss at a squared distance from the centre.
  [[nodiscard]] double loss_at(double squared) const { return offset_ - std::expm1(-squared); }

  std::vector<std::vector<double>> centers_;
  double offset_;
};

/// 1, -1, 1, ... times norm / sqrt(dimension); orthogonal to constant() where dimension is even.
std::vector<double> alternating(int dimension, double norm) {
  std::vector<double> result = constant(dimension, norm);
  for (std::size_t p = 1; p < result.size(); p += 2) {
    result[p] = -result[p];
  }
  return result;
}

class Epo2 final : public Epo {
 public:
  explicit Epo2(const AnalyticOptions& options)
      : Epo("epo2", {constant(options.dimension, 1.0), constant(options.dimension, -1.0)},
            options.offset) {}

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    return beside_segment(centers_[0], seed);
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    const auto excess = [&](double s) {
      return preference[0] * loss_at((1.0 - s) * (1.0 - s)) -
             preference[1] * loss_at((1.0 + s) * (1.0 + s));
    };
    bool on_ray = true;
    double s = 0.0;
    if (excess(1.0) >= 0.0) {
      s = 1.0;
      on_ray = excess(1.0) == 0.0;
    } else if (excess(-1.0) <= 0.0) {
      s = -1.0;
      on_ray = excess(-1.0) == 0.0;
    } else {
      s = bisect_decreasing(excess, -1.0, 1.0);
    }
    std::vector<double> x = centers_[0];
    for (double& entry : x) {
      entry *= s;
    }
    return point_at(std::move(x), preference, on_ray);
  }
};

class Epo3 final : public Epo {
 public:
  explicit Epo3(const AnalyticOptions& options)
      : Epo("epo3",
            {constant(options.dimension, 1.0), constant(options.dimension, -1.0),
             alternating(options.dimension, -1.0)},
            options.offset) {}

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    // Beyond the side of the triangle that faces the third centre.
    CounterRng rng({.seed = seed, .purpose = Purpose::kAnalytic, .a = kStart, .b = 1});
    const double along = rng.uniform() - 0.5;
    std::vector<double> x = random_direction(seed, kStart, size());
    std::array<double, 2> inner{};
    for (std::size_t p = 0; p < size(); ++p) {
      inner[0] += x[p] * centers_[0][p];
      inner[1] += x[p] * centers_[2][p];
    }
    for (std::size_t p = 0; p < size(); ++p) {
      x[p] = 0.3 * (x[p] - inner[0] * centers_[0][p] - inner[1] * centers_[2][p]) +
             along * centers_[0][p] - 0.7 * centers_[2][p];
    }
    return x;
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    // The optimum of a subset of the objectives is a lower bound: one that violates no other
    // objective is the answer.
    const Lambda lambda{preference[0], preference[1], preference[2]};
    for (std::size_t j = 0; j < 3; ++j) {
      if (weighted_max(lambda, kCorners[j]) <= lambda[j] * offset_) {
        return at(kCorners[j], preference, false);
      }
    }
    double lower_bound = 0.0;
    for (const auto& [i, j] : kSides) {
      const Plane x = on_side(lambda, i, j);
      const double psi = std::max(weighted(lambda, i, x), weighted(lambda, j, x));
      if (weighted(lambda, 3 - i - j, x) <= psi) {
        return at(x, preference, false);
      }
      lower_bound = std::max(lower_bound, psi);
    }
    return at(inside(lambda, lower_bound), preference, true);
  }

 private:
  using Lambda = std::array<double, 3>;
  struct Plane {  ///< x = a u + b v
    double a;
    double b;
  };
  static constexpr std::array<Plane, 3> kCorners{{{1.0, 0.0}, {-1.0, 0.0}, {0.0, 1.0}}};
  static constexpr std::array<std::pair<std::size_t, std::size_t>, 3> kSides{
      {{0, 1}, {0, 2}, {1, 2}}};

  [[nodiscard]] static double squared_distance(Plane x, Plane y) {
    return (x.a - y.a) * (x.a - y.a) + (x.b - y.b) * (x.b - y.b);
  }
  [[nodiscard]] double weighted(const Lambda& lambda, std::size_t j, Plane x) const {
    return lambda[j] * loss_at(squared_distance(x, kCorners[j]));
  }
  [[nodiscard]] double weighted_max(const Lambda& lambda, Plane x) const {
    return std::max({weighted(lambda, 0, x), weighted(lambda, 1, x), weighted(lambda, 2, x)});
  }

  /// Where lambda_i l_i = lambda_j l_j between centres i and j.
  [[nodiscard]] Plane on_side(const Lambda& lambda, std::size_t i, std::size_t j) const {
    const auto at_t = [&](double t) {
      return Plane{kCorners[j].a + t * (kCorners[i].a - kCorners[j].a),
                   kCorners[j].b + t * (kCorners[i].b - kCorners[j].b)};
    };
    return at_t(bisect_decreasing(
        [&](double t) { return weighted(lambda, i, at_t(t)) - weighted(lambda, j, at_t(t)); }, 0.0,
        1.0));
  }

  /// (a, b) with equal powers to the three circles of squared radii D_j(psi), and that power: 0
  /// where the circles meet in one point.
  [[nodiscard]] std::pair<Plane, double> radical_center(const Lambda& lambda, double psi) const {
    std::array<double, 3> d{};
    for (std::size_t j = 0; j < 3; ++j) {
      d[j] = -std::log1p(offset_ - psi / lambda[j]);
    }
    const double a = (d[1] - d[0]) / 4.0;
    const double b = (d[0] + 2.0 * a - d[2]) / 2.0;
    return {Plane{a, b}, (a - 1.0) * (a - 1.0) + b * b - d[0]};
  }

  /// All three objectives active. The power need not be monotone in psi: scanned for sign changes,
  /// of which the first with its point in the triangle of the centres counts.
  [[nodiscard]] Plane inside(const Lambda& lambda, double lower_bound) const {
    const double high =
        *std::min_element(lambda.begin(), lambda.end()) * (offset_ - std::expm1(-4.0));
    const auto power = [&](double psi) { return radical_center(lambda, psi).second; };
    constexpr int kSteps = 4096;
    double low = lower_bound;
    for (int step = 1; step <= kSteps; ++step) {
      const double next = lower_bound + (high - lower_bound) * step / kSteps;
      if (power(low) > 0.0 && power(next) <= 0.0) {
        const Plane x = radical_center(lambda, bisect_decreasing(power, low, next)).first;
        constexpr double kRounding = 1e-12;
        if (x.b >= -kRounding && std::abs(x.a) <= 1.0 - x.b + kRounding) {
          return polished(lambda, x);
        }
      }
      low = next;
    }
    // The optimum is so close to a side that the power's sign is lost in rounding.
    Plane best = on_side(lambda, 0, 1);
    for (const auto& [i, j] : kSides) {
      const Plane x = on_side(lambda, i, j);
      best = weighted_max(lambda, x) < weighted_max(lambda, best) ? x : best;
    }
    return polished(lambda, best);
  }

  /// Newton's method on lambda_j l_j(a, b) = psi: the power is ill-conditioned near the sides,
  /// these equations are not.
  [[nodiscard]] Plane polished(const Lambda& lambda, Plane x) const {
    for (int step = 0; step < 4; ++step) {
      std::array<double, 9> matrix{};
      std::array<double, 3> right{};
      const double psi = weighted_max(lambda, x);
      for (std::size_t j = 0; j < 3; ++j) {
        const double factor = 2.0 * lambda[j] * std::exp(-squared_distance(x, kCorners[j]));
        matrix[3 * j] = factor * (x.a - kCorners[j].a);
        matrix[3 * j + 1] = factor * (x.b - kCorners[j].b);
        matrix[3 * j + 2] = -1.0;
        right[j] = psi - weighted(lambda, j, x);
      }
      if (!solve_dense(matrix, right)) {
        return x;
      }
      const Plane next{x.a + right[0], x.b + right[1]};
      if (!(weighted_max(lambda, next) <= psi * (1.0 + 1e-15))) {
        return x;
      }
      x = next;
    }
    return x;
  }

  [[nodiscard]] ParetoPoint at(Plane x, std::span<const double> preference, bool on_ray) const {
    std::vector<double> point(size());
    for (std::size_t p = 0; p < size(); ++p) {
      point[p] = x.a * centers_[0][p] + x.b * centers_[2][p];
    }
    return point_at(std::move(point), preference, on_ray);
  }
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_epo2(const AnalyticOptions& options) {
  return std::make_unique<Epo2>(options);
}

std::unique_ptr<AnalyticProblem> make_epo3(const AnalyticOptions& options) {
  return std::make_unique<Epo3>(options);
}

}  // namespace apo::objective::analytic
