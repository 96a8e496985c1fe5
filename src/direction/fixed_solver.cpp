#include <algorithm>
#include <cmath>
#include <limits>

#include "solvers.hpp"

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

/// mu is the preference: the gradient of the preference-weighted loss.
class FixedSolver final : public DirectionSolver {
 public:
  explicit FixedSolver(const DirectionOptions& options) : options_(options) {}

  [[nodiscard]] bool needs_gram() const noexcept override { return false; }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, false);
    const std::size_t m = problem.loss.size();
    const Balance quantities = balance(problem.loss, problem.preference, options_.loss_floor);
    Direction result = begin_direction(quantities, problem, options_.loss_floor);
    result.mu.assign(problem.preference.begin(), problem.preference.end());
    result.mode = Mode::kFixed;
    const bool has_gram =
        problem.gram.size() == m * m && std::all_of(problem.gram.begin(), problem.gram.end(),
                                                    [](double c) { return std::isfinite(c); });
    if (!has_gram) {
      result.gamma = std::numeric_limits<double>::quiet_NaN();
      result.direction_norm = std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    const std::vector<double> gram_mu = times(problem.gram, result.mu);
    const std::vector<double> gram_adjustment = times(problem.gram, result.adjustment);
    const std::vector<bool> rises = ascending(problem.gram, gram_mu);
    const double balancing_norm = std::sqrt(std::max(0.0, dot(result.adjustment, gram_adjustment)));
    for (std::size_t j = 0; j < m; ++j) {
      const double tolerance = options_.ascent_tolerance *
                               std::sqrt(std::max(0.0, problem.gram[j * m + j])) * balancing_norm;
      const bool aligned = gram_adjustment[j] > tolerance;
      result.num_ascending += rises[j] ? 1 : 0;
      result.num_aligned += aligned ? 1 : 0;
      result.num_aligned_ascending += aligned && rises[j] ? 1 : 0;
    }
    result.gamma = dot(result.adjustment, gram_mu);
    result.direction_norm = std::sqrt(std::max(0.0, dot(result.mu, gram_mu)));
    return result;
  }

 private:
  DirectionOptions options_;
};

}  // namespace

std::unique_ptr<DirectionSolver> make_fixed_solver(const DirectionOptions& options) {
  return std::make_unique<FixedSolver>(options);
}

}  // namespace apo::direction
