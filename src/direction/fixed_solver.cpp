#include <algorithm>
#include <cmath>
#include <limits>

#include "scaled_gram.hpp"
#include "solvers.hpp"

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

/// mu is the preference: the gradient of the preference-weighted loss.
class FixedSolver final : public DirectionSolver {
 public:
  explicit FixedSolver(const DirectionOptions& options) : options_(options) {}

  [[nodiscard]] bool needs_gram() const noexcept override { return false; }
  [[nodiscard]] bool weighs_by_preference() const noexcept override { return true; }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, false);
    const std::size_t m = problem.loss.size();
    const Balance quantities = balance(problem.loss, problem.preference, options_.loss_floor);
    Direction result = begin_direction(quantities, problem, options_.loss_floor);
    result.mu.assign(problem.preference.begin(), problem.preference.end());
    result.weight = result.mu;
    result.mode = Mode::kFixed;
    const bool has_gram =
        problem.gram.size() == m * m && std::all_of(problem.gram.begin(), problem.gram.end(),
                                                    [](double c) { return std::isfinite(c); });
    if (!has_gram) {
      result.gamma = std::numeric_limits<double>::quiet_NaN();
      result.direction_norm = std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    describe_weight(scale_gram(problem.gram, result.adjustment, options_.ascent_tolerance), result);
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
