#include "aggregator_qp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "aggregator_algebra.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

namespace {

using Support = std::vector<std::size_t>;

// All relative to the size of the program, see size_of().
constexpr double kEqualGap = 1e-13;      // optima that differ by less are equally good
constexpr double kActiveSetGap = 1e-14;  // an objective that gains less is not let in
constexpr double kLargestGap =
    1e-6;  // active sets have failed; float32 Gram matrices are PSD to 1e-7
constexpr double kNegative = 1e-12;        // of the largest entry: rounding, becomes 0
constexpr double kTikhonov = 1e-8;         // for the search of the smallest norm by active sets
constexpr double kTikhonovSupport = 1e-5;  // entries of its solution below vanish in the limit

double size_of(const QuadraticProgram& program) {
  const std::size_t m = program.linear.size();
  double size = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    size = std::max({size, program.matrix[j * m + j], std::abs(program.linear[j])});
  }
  return size;
}

/// Gap that rounding alone leaves.
double rounding_of(const QuadraticProgram& program) {
  return static_cast<double>(program.linear.size()) * std::numeric_limits<double>::epsilon() *
         size_of(program);
}

std::vector<double> gradient(const QuadraticProgram& program, std::span<const double> x) {
  std::vector<double> y = times(program.matrix, x);
  for (std::size_t j = 0; j < y.size(); ++j) {
    y[j] += program.linear[j];
  }
  return y;
}

/// Stationary point of 1/2 x'Qx + c'x among the x of this support with sum `total` (on the
/// simplex), free of signs; where that is not unique, the one of smallest norm.
std::vector<double> on_support(const QuadraticProgram& program, std::span<const double> linear,
                               const Support& support, double total) {
  const std::size_t m = program.linear.size();
  const std::size_t k = support.size();
  const std::vector<double> q_block = block(program.matrix, m, support);
  std::vector<double> x = part(linear, support);
  for (double& entry : x) {
    entry = -entry;
  }
  std::vector<double> factor = q_block;
  if (cholesky(factor, k)) {
    cholesky_solve(factor, x);  // -Q^-1 c
    if (program.on_simplex) {
      std::vector<double> ones(k, 1.0);
      cholesky_solve(factor, ones);  // Q^-1 1
      const double multiplier = (total - std::accumulate(x.begin(), x.end(), 0.0)) /
                                std::accumulate(ones.begin(), ones.end(), 0.0);
      for (std::size_t a = 0; a < k; ++a) {
        x[a] += multiplier * ones[a];
      }
    }
    return x;
  }
  if (!program.on_simplex) {
    return pseudo_solve(q_block, x);
  }
  // Q may be singular where the system with the simplex row is not: opposite gradients.
  std::vector<double> bordered((k + 1) * (k + 1), 0.0);
  for (std::size_t a = 0; a < k; ++a) {
    std::copy_n(&q_block[a * k], k, &bordered[a * (k + 1)]);
    bordered[a * (k + 1) + k] = bordered[k * (k + 1) + a] = 1.0;
  }
  x.push_back(total);
  x = pseudo_solve(bordered, x);
  x.pop_back();
  return x;
}

/// The support's entries set into [m], or empty when one is negative beyond rounding.
std::vector<double> feasible(const QuadraticProgram& program, const Support& support,
                             std::span<const double> entries) {
  double largest = 0.0;
  for (const double entry : entries) {
    largest = std::max(largest, std::abs(entry));
  }
  std::vector<double> x(program.linear.size(), 0.0);
  double sum = 0.0;
  for (std::size_t a = 0; a < support.size(); ++a) {
    if (!(entries[a] >= -kNegative * largest)) {
      return {};
    }
    x[support[a]] = std::max(0.0, entries[a]);
    sum += x[support[a]];
  }
  if (program.on_simplex) {
    for (double& entry : x) {
      entry /= sum;
    }
  }
  return x;
}

bool positive_definite(const QuadraticProgram& program) {
  std::vector<double> factor(program.matrix.begin(), program.matrix.end());
  return cholesky(factor, program.linear.size());
}

void check_sizes(const QuadraticProgram& program) {
  const std::size_t m = program.linear.size();
  if (m == 0 || program.matrix.size() != m * m) {
    expects(false, "quadratic program: expected a matrix of " + std::to_string(m * m) +
                       " numbers and m > 0, found " + std::to_string(program.matrix.size()));
  }
}

/// The loop of solve_by_active_set(), without the search for the smallest norm.
std::vector<double> active_set_optimum(const QuadraticProgram& program) {
  const std::size_t m = program.linear.size();
  const double size = size_of(program);
  std::vector<double> x(m, 0.0);
  Support support;  // ascending; x > 0 on it
  if (program.on_simplex) {
    std::size_t best = 0;
    for (std::size_t j = 1; j < m; ++j) {
      const auto value = [&](std::size_t i) {
        return 0.5 * program.matrix[i * m + i] + program.linear[i];
      };
      best = value(j) < value(best) ? j : best;
    }
    x[best] = 1.0;
    support = {best};
  }
  for (std::size_t round = 0; round < 100 * m; ++round) {
    const std::vector<double> y = gradient(program, x);
    const double level = program.on_simplex ? dot(x, y) : 0.0;
    const auto lowest = static_cast<std::size_t>(std::min_element(y.begin(), y.end()) - y.begin());
    if (y[lowest] >= level - kActiveSetGap * size || x[lowest] > 0.0) {
      return x;
    }
    support.insert(std::lower_bound(support.begin(), support.end(), lowest), lowest);
    // Moves to the optimum of the support; whoever would become negative on the way leaves.
    for (bool first = true; !support.empty(); first = false) {
      const std::vector<double> slope = gradient(program, x);
      std::vector<double> step = on_support(program, slope, support, 0.0);  // from x, hence sum 0
      double length = 1.0;
      for (std::size_t a = 0; a < support.size(); ++a) {
        if (step[a] < 0.0) {
          length = std::min(length, -x[support[a]] / step[a]);
        }
      }
      if (first && length == 0.0) {
        return x;  // the one let in gains nothing beyond rounding
      }
      Support kept;
      for (std::size_t a = 0; a < support.size(); ++a) {
        const std::size_t j = support[a];
        const bool blocks = step[a] < 0.0 && -x[j] / step[a] <= length * (1.0 + 1e-12);
        x[j] = blocks ? 0.0 : std::max(0.0, x[j] + length * step[a]);
        if (x[j] > 0.0) {
          kept.push_back(j);
        }
      }
      const bool complete = length == 1.0;
      support = std::move(kept);
      if (complete) {
        break;
      }
    }
    if (program.on_simplex) {
      const double sum = std::accumulate(x.begin(), x.end(), 0.0);
      for (double& entry : x) {
        entry /= sum;
      }
    }
  }
  return x;
}

}  // namespace

double optimality_gap(const QuadraticProgram& program, std::span<const double> x) {
  const std::vector<double> y = gradient(program, x);
  const double smallest = *std::min_element(y.begin(), y.end());
  if (program.on_simplex) {
    return dot(x, y) - smallest;
  }
  double gap = std::max(0.0, -smallest);
  for (std::size_t j = 0; j < x.size(); ++j) {
    gap = x[j] > 0.0 ? std::max(gap, std::abs(y[j])) : gap;
  }
  return gap;
}

std::vector<double> solve_by_supports(const QuadraticProgram& program) {
  check_sizes(program);
  const std::size_t m = program.linear.size();
  if (m > kMaxEnumeratedObjectives) {
    expects(false, "quadratic program: expected at most " +
                       std::to_string(kMaxEnumeratedObjectives) + " objectives, found " +
                       std::to_string(m));
  }
  std::vector<unsigned> masks((1U << m) - (program.on_simplex ? 1U : 0U));
  std::iota(masks.begin(), masks.end(), program.on_simplex ? 1U : 0U);
  std::stable_sort(masks.begin(), masks.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
  const double size = size_of(program);
  const bool unique = positive_definite(program);
  const double exact = rounding_of(program);

  struct Candidate {
    std::vector<double> x;
    double gap;
  };
  std::vector<Candidate> candidates;
  double best_gap = std::numeric_limits<double>::infinity();
  Support support;
  for (const unsigned mask : masks) {
    support.clear();
    for (std::size_t j = 0; j < m; ++j) {
      if ((mask >> j & 1U) != 0) {
        support.push_back(j);
      }
    }
    std::vector<double> x =
        feasible(program, support, on_support(program, program.linear, support, 1.0));
    if (x.empty()) {
      continue;
    }
    // The gap and not the value: that one is flat near the optimum and would lose half the digits.
    const double gap = optimality_gap(program, x);
    if (gap <= best_gap + kEqualGap * size) {
      best_gap = std::min(best_gap, gap);
      candidates.push_back({std::move(x), gap});
      if (unique && gap <= exact) {
        break;
      }
    }
  }
  // The optimum has a support, and on it the system above has no other solution of smaller norm.
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    const auto better = [&](const Candidate& other) {
      return unique ? candidate.gap < other.gap
                    : dot(candidate.x, candidate.x) < dot(other.x, other.x) * (1.0 - 1e-12);
    };
    if ((unique || candidate.gap <= best_gap + kEqualGap * size) &&
        (best == nullptr || better(*best))) {
      best = &candidate;
    }
  }
  return best->x;  // single objectives, and x = 0 over x >= 0, are always feasible
}

std::vector<double> solve_by_active_set(const QuadraticProgram& program) {
  check_sizes(program);
  std::vector<double> x = active_set_optimum(program);
  const double size = size_of(program);
  const double gap = optimality_gap(program, x);
  if (!(gap <= kLargestGap * size)) {
    expects(false, "quadratic program: active sets end with a gap of " +
                       std::to_string(gap / size) + " of its size, expected at most " +
                       std::to_string(kLargestGap));
  }
  if (positive_definite(program) || size == 0.0) {
    return size == 0.0 && program.on_simplex
               ? std::vector<double>(x.size(), 1.0 / static_cast<double>(x.size()))
               : x;
  }
  // Among several optima the smallest norm is the limit of a vanishing ridge; its support is found
  // with a small one, and the optimum on that support exactly.
  const std::size_t m = x.size();
  std::vector<double> ridged(program.matrix.begin(), program.matrix.end());
  for (std::size_t j = 0; j < m; ++j) {
    ridged[j * m + j] += kTikhonov * size;
  }
  const std::vector<double> near = active_set_optimum({ridged, program.linear, program.on_simplex});
  Support support;
  for (std::size_t j = 0; j < m; ++j) {
    if (near[j] > kTikhonovSupport * *std::max_element(near.begin(), near.end())) {
      support.push_back(j);
    }
  }
  std::vector<double> smallest =
      feasible(program, support, on_support(program, program.linear, support, 1.0));
  const bool accepted =
      !smallest.empty() &&
      optimality_gap(program, smallest) <= std::max(gap, 0.0) + kEqualGap * size &&
      dot(smallest, smallest) < dot(x, x);
  return accepted ? smallest : x;
}

std::vector<double> solve(const QuadraticProgram& program) {
  check_sizes(program);
  // A unique optimum to the last digits needs no trial of all supports.
  if (positive_definite(program)) {
    std::vector<double> x = active_set_optimum(program);
    if (optimality_gap(program, x) <= rounding_of(program)) {
      return x;
    }
  }
  return program.linear.size() <= kMaxEnumeratedObjectives ? solve_by_supports(program)
                                                           : solve_by_active_set(program);
}

}  // namespace apo::direction
