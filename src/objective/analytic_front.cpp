// T-F of algorithms.md section 7: prescribed fronts without constraints. x = (theta [m], y [P -
// m]).
//   linear   l_j = b + (1 + ||y||^2) f_j,  f = softmax(theta)
//   concave  l_j = b + (1 + ||y||^2) f_j,  f = e^theta / ||e^theta||
//   convex   l_j = b + f_j + ||y||^2,      f = 1 - e^theta / ||e^theta||

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "analytic_problems.hpp"

#include "apo/core/rng.hpp"

namespace apo::objective::analytic {
namespace {

enum class Shape { kLinear, kConcave, kConvex };

class Front final : public ProblemBase {
 public:
  Front(const AnalyticOptions& options, Shape shape)
      : ProblemBase(options.problem, options.num_objectives, options.dimension),
        shape_(shape),
        offset_(options.offset) {}

  [[nodiscard]] double smoothness() const override {
    return std::numeric_limits<double>::quiet_NaN();  // products of ||y||^2 and f are not bounded
  }

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    CounterRng rng({.seed = seed, .purpose = Purpose::kAnalytic, .a = kStart, .b = 1});
    std::vector<double> x(m());
    for (double& theta : x) {
      theta = 0.5 * rng.normal();
    }
    const std::vector<double> y = random_direction(seed, kStart, size() - m());
    x.insert(x.end(), y.begin(), y.end());
    return x;
  }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const auto row = static_cast<std::size_t>(j);
    const auto share = shares(x.first(m()));
    double squared = 0.0;
    for (const double y : x.subspan(m())) {
      squared += y * y;
    }
    const bool outside = shape_ == Shape::kConvex;  // of the product with 1 + ||y||^2
    const double stretch = outside ? 1.0 : 1.0 + squared;
    if (!gradient.empty()) {
      for (std::size_t k = 0; k < m(); ++k) {
        const double other = shape_ == Shape::kLinear ? share[k] : share[k] * share[k];
        const double slope = share[row] * ((k == row ? 1.0 : 0.0) - other);
        gradient[k] = outside ? -slope : stretch * slope;
      }
      for (std::size_t p = m(); p < x.size(); ++p) {
        gradient[p] = 2.0 * x[p] * (outside ? 1.0 : share[row]);
      }
    }
    return offset_ + (outside ? 1.0 - share[row] + squared : stretch * share[row]);
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    return shape_ == Shape::kConvex ? convex_point(preference) : other_point(preference);
  }

 private:
  using Shares = std::array<double, kMaxObjectives>;

  /// e^theta over its 1-norm (linear) or 2-norm.
  [[nodiscard]] Shares shares(std::span<const double> theta) const {
    const double largest = *std::max_element(theta.begin(), theta.end());
    Shares share{};
    double norm = 0.0;
    for (std::size_t j = 0; j < theta.size(); ++j) {
      share[j] = std::exp(theta[j] - largest);
      norm += shape_ == Shape::kLinear ? share[j] : share[j] * share[j];
    }
    norm = shape_ == Shape::kLinear ? norm : std::sqrt(norm);
    for (std::size_t j = 0; j < theta.size(); ++j) {
      share[j] /= norm;
    }
    return share;
  }

  struct Sums {
    double s1 = 0.0;      ///< sum of 1 / lambda_j
    double s2 = 0.0;      ///< sum of 1 / lambda_j^2
    double spread = 0.0;  ///< V = S2 - S1^2 / k, in two passes
  };
  /// Over the objectives `first`, `first + 1`, ... of `members`.
  [[nodiscard]] static Sums sums(std::span<const double> preference,
                                 std::span<const std::size_t> members) {
    Sums result;
    for (const std::size_t j : members) {
      result.s1 += 1.0 / preference[j];
      result.s2 += 1.0 / (preference[j] * preference[j]);
    }
    for (const std::size_t j : members) {
      const double from_mean =
          1.0 / preference[j] - result.s1 / static_cast<double>(members.size());
      result.spread += from_mean * from_mean;
    }
    return result;
  }

  /// Linear and concave: psi >= lambda_j b for each j, whatever theta. Where the front's equation
  /// asks for less than that of some j, psi* = max_j lambda_j b, approached as f_j -> 0.
  [[nodiscard]] ParetoPoint other_point(std::span<const double> preference) const {
    const std::vector<std::size_t> all = objectives();
    const Sums s = sums(preference, all);
    const double count = static_cast<double>(m());
    const double b = offset_;
    double psi = (1.0 + count * b) / s.s1;
    if (shape_ == Shape::kConcave) {
      const double discriminant = s.s2 - b * b * count * s.spread;
      psi = discriminant < 0.0 ? 0.0 : (b * s.s1 + std::sqrt(discriminant)) / s.s2;
    }
    const double floor = b * *std::max_element(preference.begin(), preference.end());
    const bool on_ray = psi > floor;
    psi = std::max(psi, floor);
    Shares f{};
    double norm = 0.0;
    for (std::size_t j = 0; j < m(); ++j) {
      f[j] = std::max(0.0, psi / preference[j] - b);
      norm += shape_ == Shape::kLinear ? f[j] : f[j] * f[j];
    }
    norm = shape_ == Shape::kLinear ? norm : std::sqrt(norm);
    for (std::size_t j = 0; j < m(); ++j) {
      f[j] /= norm;  // off the ray there is slack: the bottleneck's f is 0, the others share 1
    }
    return finish(f, psi, on_ray);
  }

  /// Convex: an objective with lambda_j (1 + b) < psi* has f_j = 1 and leaves the active set.
  [[nodiscard]] ParetoPoint convex_point(std::span<const double> preference) const {
    std::vector<std::size_t> active = objectives();
    std::stable_sort(active.begin(), active.end(),
                     [&](std::size_t i, std::size_t j) { return preference[i] > preference[j]; });
    const double one = 1.0 + offset_;
    double psi = 0.0;
    for (;; active.pop_back()) {
      const double count = static_cast<double>(active.size());
      const Sums s = sums(preference, active);
      const double discriminant = s.s2 - one * one * count * s.spread;
      if (active.size() > 1 && discriminant < 0.0) {
        continue;
      }
      psi = (count * one * one - 1.0) / (one * s.s1 + std::sqrt(std::max(0.0, discriminant)));
      if (active.size() == 1 || one * preference[active.back()] >= psi) {
        break;
      }
    }
    Shares f{};
    std::fill(f.begin(), f.end(), 1.0);
    for (const std::size_t j : active) {
      f[j] = psi / preference[j] - offset_;
    }
    return finish(f, psi, active.size() == m());
  }

  [[nodiscard]] std::vector<std::size_t> objectives() const {
    std::vector<std::size_t> all(m());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }

  [[nodiscard]] ParetoPoint finish(const Shares& f, double psi, bool on_ray) const {
    ParetoPoint point;
    point.chebyshev = psi;
    point.on_ray = on_ray;
    point.x.assign(size(), 0.0);
    bool finite = true;
    for (std::size_t j = 0; j < m(); ++j) {
      point.loss.push_back(offset_ + f[j]);
      const double share = shape_ == Shape::kConvex ? 1.0 - f[j] : f[j];
      finite = finite && share > 0.0;
      point.x[j] = share > 0.0 ? std::log(share) : 0.0;
    }
    if (!finite) {
      point.x.clear();
    }
    return point;
  }

  Shape shape_;
  double offset_;
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_front(const AnalyticOptions& options) {
  const Shape shape = options.problem == "linear_front"    ? Shape::kLinear
                      : options.problem == "concave_front" ? Shape::kConcave
                                                           : Shape::kConvex;
  return std::make_unique<Front>(options, shape);
}

}  // namespace apo::objective::analytic
