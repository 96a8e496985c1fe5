#include "apo/direction/direction_solver.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "solvers.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

void check(const Problem& problem, bool with_gram) {
  // Messages are made on failure only: this runs in every client step.
  const auto fail = [](const std::string& message) { expects(false, "direction: " + message); };
  const std::size_t m = problem.loss.size();
  expects(m > 0, "direction: no objectives");
  if (problem.preference.size() != m) {
    fail("expected " + std::to_string(m) + " preferences, found " +
         std::to_string(problem.preference.size()));
  }
  double sum = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    if (!std::isfinite(problem.loss[j])) {
      fail("the loss of objective " + std::to_string(j) + " is not finite");
    }
    if (!std::isfinite(problem.preference[j]) || problem.preference[j] < 0.0) {
      fail("the preference of objective " + std::to_string(j) + " is " +
           std::to_string(problem.preference[j]) + ", expected a number in [0, 1]");
    }
    sum += problem.preference[j];
  }
  if (std::abs(sum - 1.0) > 1e-6) {
    fail("preferences add up to " + std::to_string(sum) + ", expected 1");
  }
  if (!std::isfinite(problem.noise_uniformity) || problem.noise_uniformity < 0.0) {
    fail("the uniformity of the noise is " + std::to_string(problem.noise_uniformity) +
         ", expected a number >= 0");
  }
  if (!with_gram) {
    return;
  }
  if (problem.gram.size() != m * m) {
    fail("expected a Gram matrix of " + std::to_string(m * m) + " numbers, found " +
         std::to_string(problem.gram.size()));
  }
  for (std::size_t i = 0; i < m * m; ++i) {
    if (!std::isfinite(problem.gram[i])) {
      fail("entry (" + std::to_string(i / m) + ", " + std::to_string(i % m) +
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

double beta_noise(std::span<const double> loss, std::span<const double> standard_error) {
  const std::size_t m = loss.size();
  expects(m > 0 && standard_error.size() == m,
          "direction: beta_noise expected one standard error per loss");
  double sum = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    if (std::isnan(standard_error[j])) {
      continue;
    }
    expects(std::isfinite(loss[j]) && std::isfinite(standard_error[j]) && standard_error[j] >= 0.0,
            "direction: beta_noise expected finite losses and standard errors >= 0");
    const double relative = standard_error[j] / std::max(loss[j], kLossFloor);
    sum += relative * relative;
  }
  // With l_j = c (1 + e_j) / lambda_j and x_j = e_j - mean(e), beta is sum_j x_j^2 / (2m) up to
  // third order, and E x_j^2 sums to (1 - 1/m) sum_j s_j^2.
  const auto count = static_cast<double>(m);
  return (count - 1.0) / (2.0 * count * count) * sum;
}

std::unique_ptr<DirectionSolver> make_solver(const DirectionOptions& options) {
  std::unique_ptr<DirectionSolver> solver;
  if (options.solver == "apo_lp") {
    solver = make_apo_lp_solver(options);
  } else if (options.solver == "epo") {
    solver = make_epo_solver(options);
  } else if (options.solver == "fixed") {
    solver = make_fixed_solver(options);
  } else {
    solver = make_aggregator(options);
  }
  if (options.gradient_normalisation == "none" && options.mix_floor == 0.0) {
    return solver;
  }
  return make_normalised_solver(std::move(solver), options);
}

}  // namespace apo::direction
