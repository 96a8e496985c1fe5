#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aggregator_algebra.hpp"
#include "aggregator_qp.hpp"
#include "aggregator_rules.hpp"
#include "solvers.hpp"

namespace apo::direction {

namespace {

constexpr double kStationary = 1e-14;  // ||g_w||^2 over max_j C_jj: rounding of a zero
constexpr double kAcceptedGap = 1e-11;

/// F(w) = a'w + radius sqrt(w'Cw) with C over max_j C_jj and a = C p / ||g_0||: the dual over
/// ||g_0||. Convex and homogeneous, so F(w) = w'F'(w).
struct Dual {
  std::vector<double> gram;
  std::vector<double> linear;
  double radius;

  /// F(w) - min_j F'(w)_j, an upper bound of the excess over the simplex; infinity where g_w = 0.
  [[nodiscard]] double gap(std::span<const double> w) const {
    const std::vector<double> gram_w = times(gram, w);
    const double squared = dot(w, gram_w);
    if (squared <= kStationary) {
      return std::numeric_limits<double>::infinity();
    }
    double smallest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < w.size(); ++j) {
      smallest = std::min(smallest, linear[j] + radius * gram_w[j] / std::sqrt(squared));
    }
    return dot(linear, w) + radius * std::sqrt(squared) - smallest;
  }
};

/// The stationary point of F on one support, in closed form: F' = a + radius C w / t = nu 1 gives
/// w = t/radius C^-1 (nu 1 - a), and 1'w = 1 with w'Cw = t^2 a quadratic equation for nu. Empty
/// when there is none with w >= 0. Supports with dependent gradients need not be tried: some
/// optimum with g_w != 0 has an independent one.
std::vector<double> stationary_point(const Dual& dual, std::span<const std::size_t> support) {
  const std::size_t m = dual.linear.size();
  const std::size_t k = support.size();
  std::vector<double> factor = block(dual.gram, m, support);
  if (!cholesky(factor, k)) {
    return {};
  }
  const std::vector<double> a = part(dual.linear, support);
  std::vector<double> inverse_a = a;
  std::vector<double> inverse_1(k, 1.0);
  cholesky_solve(factor, inverse_a);
  cholesky_solve(factor, inverse_1);
  const double ones = std::accumulate(inverse_1.begin(), inverse_1.end(), 0.0);
  const double mixed = std::accumulate(inverse_a.begin(), inverse_a.end(), 0.0);
  const double discriminant =
      mixed * mixed - ones * (dot(a, inverse_a) - dual.radius * dual.radius);
  if (!(discriminant > 0.0)) {
    return {};
  }
  const double root = std::sqrt(discriminant);  // radius / t
  const double nu = (mixed + root) / ones;
  std::vector<double> w(m, 0.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < k; ++i) {
    const double entry = (nu * inverse_1[i] - inverse_a[i]) / root;
    if (!(entry >= -1e-12)) {
      return {};
    }
    w[support[i]] = std::max(0.0, entry);
    sum += w[support[i]];
  }
  for (double& entry : w) {
    entry /= sum;
  }
  return w;
}

std::vector<double> best_stationary_point(const Dual& dual) {
  const std::size_t m = dual.linear.size();
  std::vector<double> best;
  double best_gap = kAcceptedGap;
  std::vector<std::size_t> support;
  for (unsigned mask = 1; mask < (1U << m); ++mask) {
    support.clear();
    for (std::size_t j = 0; j < m; ++j) {
      if ((mask >> j & 1U) != 0) {
        support.push_back(j);
      }
    }
    std::vector<double> w = stationary_point(dual, support);
    if (!w.empty()) {
      const double gap = dual.gap(w);
      if (gap < best_gap) {
        best_gap = gap;
        best = std::move(w);
      }
    }
  }
  return best;
}

/// F(w) is the minimum over t > 0 of a'w + radius (w'Cw / t + t) / 2, convex in (w, t) together:
/// the root in t of w(t)'C w(t) - t^2, w(t) from a quadratic program, by bisection.
std::vector<double> search(const Dual& dual) {
  const std::size_t m = dual.linear.size();
  const auto at = [&](double t) {
    std::vector<double> linear = dual.linear;
    for (double& entry : linear) {
      entry *= t / dual.radius;
    }
    return solve({dual.gram, linear, true});
  };
  const auto squared_norm = [&](std::span<const double> w) { return dot(w, times(dual.gram, w)); };
  const std::vector<double> shortest = solve({dual.gram, std::vector<double>(m, 0.0), true});
  // ||g_w|| lies between those of the min-norm point and of the longest gradient, which is 1.
  double low = std::sqrt(std::max(squared_norm(shortest), kStationary));
  double high = 1.0;
  if (squared_norm(at(low)) <= low * low) {
    return squared_norm(shortest) <= kStationary ? std::vector<double>{} : shortest;
  }
  for (int step = 0; step < 200; ++step) {
    const double middle = std::sqrt(low * high);
    if (middle <= low || middle >= high) {
      break;
    }
    (squared_norm(at(middle)) > middle * middle ? low : high) = middle;
  }
  return at(high);
}

Dual make_dual(std::span<const double> gram, std::span<const double> p, double radius,
               double& norm_0) {
  const std::size_t m = p.size();
  double scale = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    scale = std::max(scale, gram[j * m + j]);
  }
  Dual dual{symmetrised(gram, m, scale), {}, radius};
  make_semidefinite(dual.gram, m);
  dual.linear = times(dual.gram, p);
  norm_0 = std::sqrt(std::max(0.0, dot(p, dual.linear)));
  for (double& entry : dual.linear) {
    entry = norm_0 > 0.0 ? entry / norm_0 : 0.0;
  }
  return dual;
}

}  // namespace

std::vector<double> cagrad_dual(std::span<const double> gram, std::span<const double> p,
                                double radius, bool by_supports) {
  double norm_0 = 0.0;
  const Dual dual = make_dual(gram, p, radius, norm_0);
  return by_supports ? best_stationary_point(dual) : search(dual);
}

std::vector<double> cagrad_weights(std::span<const double> gram, std::span<const double> p,
                                   double radius) {
  const std::size_t m = p.size();
  std::vector<double> weight(p.begin(), p.end());
  double norm_0 = 0.0;
  const Dual dual = make_dual(gram, p, radius, norm_0);
  if (radius == 0.0 || norm_0 == 0.0) {
    return weight;  // the ball is the point g_0
  }
  std::vector<double> w =
      m <= kMaxEnumeratedObjectives ? best_stationary_point(dual) : std::vector<double>{};
  if (w.empty()) {
    w = search(dual);
  }
  if (w.empty()) {
    return dual_projection_weights(gram, p);
  }
  const double norm_w = std::sqrt(dot(w, times(dual.gram, w)));
  for (std::size_t j = 0; j < m; ++j) {
    weight[j] += radius * norm_0 / norm_w * w[j];
  }
  return weight;
}

}  // namespace apo::direction
