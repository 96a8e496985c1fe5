#include "scaled_lp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solvers.hpp"

namespace apo::direction {

namespace {

constexpr double kZeroRow = 1e-14;  // of max|C|: such a row is rounding noise

double largest_entry(std::span<const double> x) {
  double largest = 0.0;
  for (const double entry : x) {
    largest = std::max(largest, std::abs(entry));
  }
  return largest;
}

/// GLPK's tolerances are absolute near 0: a row of a short gradient must not drown in them.
void add_row(ScaledLp& lp, std::span<const double> coefficients, double bound, bool constrained) {
  const double largest = largest_entry(coefficients);
  const bool noise = largest <= kZeroRow;
  const double scale = noise ? 1.0 : std::ldexp(1.0, -std::ilogb(largest));
  for (const double c : coefficients) {
    lp.coefficient.push_back(c * scale);
  }
  lp.bound.push_back(bound);
  lp.row_scale.push_back(scale);
  lp.constrained.push_back(constrained && !noise);
}

}  // namespace

double ScaledLp::min_slack(std::span<const double> mu) const {
  double slack = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < num_rows(); ++r) {
    if (constrained[r]) {
      slack = std::min(slack, dot(row(r), mu) / row_scale[r] - bound[r]);
    }
  }
  return std::isfinite(slack) ? slack : 0.0;
}

std::vector<LpRow> ScaledLp::rows(double relaxation) const {
  std::vector<LpRow> result(num_rows());
  for (std::size_t r = 0; r < num_rows(); ++r) {
    result[r] = {row(r), (bound[r] - relaxation) * row_scale[r],
                 constrained[r] ? LpRowKind::kAtLeast : LpRowKind::kFree};
  }
  return result;
}

void ScaledLp::drop_guard() {
  const std::size_t m = objective.size();
  coefficient.resize(m * m);
  bound.resize(m);
  row_scale.resize(m);
  constrained.resize(m);
}

ScaledLp build_lp(const ScaledGram& gram, const Balance& quantities, Mode mode,
                  double bottleneck_tolerance, bool guard) {
  const std::size_t m = quantities.share.size();
  const bool balancing = mode == Mode::kBalancing;
  ScaledLp lp;
  lp.mode = mode;
  lp.objective = balancing ? gram.balancing : times(gram.gram, std::vector<double>(m, 1.0));
  lp.normalised = lp.objective;
  const double largest = largest_entry(lp.objective);
  for (double& c : lp.normalised) {
    c = largest > 0.0 ? c / largest : 0.0;
  }

  const double largest_share = *std::max_element(quantities.share.begin(), quantities.share.end());
  bool any_aligned = false;
  lp.bottleneck.resize(m);
  for (std::size_t j = 0; j < m; ++j) {
    lp.bottleneck[j] = quantities.share[j] >= (1.0 - bottleneck_tolerance) * largest_share;
    any_aligned = any_aligned || gram.aligned[j];
  }
  lp.coefficient.reserve((m + 1) * m);
  lp.bound.reserve(m + 1);
  lp.row_scale.reserve(m + 1);
  lp.constrained.reserve(m + 1);
  for (std::size_t j = 0; j < m; ++j) {
    const bool controlled = balancing && !lp.bottleneck[j];  // may ascend within a bound
    // The bound of an objective in J-bar is <= 0 up to the tolerance that put it there.
    const double bound = controlled && any_aligned ? std::min(0.0, gram.balancing[j]) : 0.0;
    add_row(lp, std::span(gram.gram).subspan(j * m, m), bound, !(controlled && gram.aligned[j]));
  }
  if (guard && mode == Mode::kUniform) {
    const double best = *std::max_element(gram.balancing.begin(), gram.balancing.end());
    add_row(lp, gram.balancing, std::min(0.0, best), true);
  }
  return lp;
}

std::optional<std::vector<double>> cleaned(std::vector<double> mu) {
  double sum = 0.0;
  for (double& entry : mu) {
    entry = entry > 1e-15 ? entry : 0.0;
    sum += entry;
  }
  if (!std::isfinite(sum) || std::abs(sum - 1.0) > 1e-6) {
    return std::nullopt;
  }
  for (double& entry : mu) {
    entry /= sum;
  }
  return mu;
}

}  // namespace apo::direction
