#include <cmath>

#include "aggregator_algebra.hpp"
#include "aggregator_qp.hpp"
#include "aggregator_rules.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

namespace {

/// Squared norm of a convex combination of unit gradients up to which it counts as 0: below, C w
/// has lost its digits.
constexpr double kStationary = 1e-13;
constexpr int kMaxNewtonSteps = 500;

/// Minimiser of f(u) = 1/2 u'Ru - sum log u. f is self-concordant, so a step of 1 / (1 + decrement)
/// keeps u > 0 and lowers f by a fixed amount, and full steps converge quadratically once the
/// decrement is below 1/4 (Boyd and Vandenberghe, section 9.6): no line search.
std::vector<double> bargain(std::span<const double> cosine, std::vector<double> u) {
  const std::size_t k = u.size();
  double last = 1.0;
  for (int step = 0; step < kMaxNewtonSteps; ++step) {
    std::vector<double> direction = times(cosine, u);
    std::vector<double> hessian(cosine.begin(), cosine.end());
    for (std::size_t j = 0; j < k; ++j) {
      direction[j] = 1.0 / u[j] - direction[j];  // -f'
      // In units of u, so that the Hessian diag(u) f'' diag(u) = 1 + diag(u) R diag(u) is well
      // scaled however large u is.
      direction[j] *= u[j];
      for (std::size_t i = 0; i < k; ++i) {
        hessian[j * k + i] *= u[i] * u[j];
      }
      hessian[j * k + j] += 1.0;
    }
    const std::vector<double> slope = direction;
    expects(cholesky(hessian, k), "nash_mtl: the Hessian is not positive definite");
    cholesky_solve(hessian, direction);
    const double decrement = std::sqrt(std::max(0.0, dot(slope, direction)));
    // Quadratic convergence ends at the rounding of R u; there the decrement stops to fall.
    if (decrement <= 1e-14 || (decrement < 1e-4 && decrement >= 0.5 * last)) {
      return u;
    }
    const double length = decrement > 0.25 ? 1.0 / (1.0 + decrement) : 1.0;
    for (std::size_t j = 0; j < k; ++j) {
      u[j] *= 1.0 + length * direction[j];
    }
    last = decrement;
  }
  expects(last < 1e-4, "nash_mtl: Newton's method did not converge");
  return u;
}

}  // namespace

std::vector<double> nash_weights(std::span<const double> gram) {
  const auto m = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(gram.size()))));
  const UnitGram unit = unit_gram(gram, m);
  const std::size_t k = unit.kept.size();
  std::vector<double> u = solve({unit.cosine, std::vector<double>(k, 0.0), true});
  const double squared = dot(u, times(unit.cosine, u));
  if (squared > kStationary) {
    // The best uniform point: f(c 1) is smallest at c^2 = m / 1'R1; 1'R1 > 0 as squared > 0.
    const std::vector<double> ones(k, 1.0);
    const double sum = dot(ones, times(unit.cosine, ones));
    u = bargain(unit.cosine, std::vector<double>(k, std::sqrt(static_cast<double>(k) / sum)));
  }
  std::vector<double> weight(m, 0.0);
  for (std::size_t a = 0; a < k; ++a) {
    weight[unit.kept[a]] = u[a] / unit.norm[a];
  }
  return weight;
}

}  // namespace apo::direction
