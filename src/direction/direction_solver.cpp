#include "apo/direction/direction_solver.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "solvers.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

void check(const Problem& problem, bool with_gram) {
  const std::size_t m = problem.loss.size();
  expects(m > 0, "direction: no objectives");
  expects(problem.preference.size() == m, "direction: expected " + std::to_string(m) +
                                              " preferences, found " +
                                              std::to_string(problem.preference.size()));
  double sum = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    expects(std::isfinite(problem.loss[j]),
            "direction: the loss of objective " + std::to_string(j) + " is not finite");
    expects(std::isfinite(problem.preference[j]) && problem.preference[j] >= 0.0,
            "direction: the preference of objective " + std::to_string(j) + " is " +
                std::to_string(problem.preference[j]) + ", expected a number in [0, 1]");
    sum += problem.preference[j];
  }
  expects(std::abs(sum - 1.0) <= 1e-6,
          "direction: preferences add up to " + std::to_string(sum) + ", expected 1");
  if (with_gram) {
    expects(problem.gram.size() == m * m, "direction: expected a Gram matrix of " +
                                              std::to_string(m * m) + " numbers, found " +
                                              std::to_string(problem.gram.size()));
    for (std::size_t i = 0; i < m * m; ++i) {
      expects(std::isfinite(problem.gram[i]), "direction: entry (" + std::to_string(i / m) + ", " +
                                                  std::to_string(i % m) +
                                                  ") of the Gram matrix is not finite");
    }
  }
}

Direction begin_direction(const Balance& balance, const Problem& problem, double loss_floor) {
  Direction result;
  result.uniformity = balance.uniformity;
  result.adjustment = balance.adjustment;
  result.losses_floored = balance.losses_floored;
  for (std::size_t j = 0; j < problem.loss.size(); ++j) {
    result.chebyshev =
        std::max(result.chebyshev, problem.preference[j] * std::max(problem.loss[j], loss_floor));
  }
  return result;
}

std::vector<double> times(std::span<const double> gram, std::span<const double> y) {
  const std::size_t m = y.size();
  std::vector<double> result(m, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      result[i] += gram[i * m + j] * y[j];
    }
  }
  return result;
}

double dot(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += x[j] * y[j];
  }
  return sum;
}

std::vector<bool> ascending(std::span<const double> gram, std::span<const double> gram_mu) {
  const std::size_t m = gram_mu.size();
  std::vector<bool> result(m, false);
  for (std::size_t j = 0; j < m; ++j) {
    double largest = 0.0;
    for (std::size_t i = 0; i < m; ++i) {
      largest = std::max(largest, std::abs(gram[j * m + i]));
    }
    result[j] = gram_mu[j] < -1e-9 * largest;
  }
  return result;
}

std::unique_ptr<DirectionSolver> make_solver(const DirectionOptions& options) {
  if (options.solver == "fixed") {
    return make_fixed_solver(options);
  }
  expects(options.solver == "apo_lp",
          "direction: unknown solver '" + options.solver + "', expected apo_lp or fixed");
  return make_apo_lp_solver(options);
}

}  // namespace apo::direction
