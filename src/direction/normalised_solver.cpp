#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "scaled_gram.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

enum class Unit { kNone, kLength, kLoss, kLossLength };

Unit unit_of(const std::string& name) {
  if (name == "l2") {
    return Unit::kLength;
  }
  if (name == "loss") {
    return Unit::kLoss;
  }
  if (name == "loss+") {
    return Unit::kLossLength;
  }
  expects(name == "none", "direction: unknown gradient_normalisation '" + name +
                              "', expected none, l2, loss or loss+");
  return Unit::kNone;
}

/// Any solver on g_j / s_j with s_j = ||g_j|| (l2), l_j (loss) or l_j ||g_j|| (loss+), its weights
/// mixed with the uniform ones, and brought back to the gradients as they are:
///     weight_j = ((1 - f) mu_j + f / m) / s_j.
class NormalisedSolver final : public DirectionSolver {
 public:
  NormalisedSolver(std::unique_ptr<DirectionSolver> inner, const DirectionOptions& options)
      : inner_(std::move(inner)),
        options_(options),
        unit_(unit_of(options.gradient_normalisation)) {
    expects(options.mix_floor >= 0.0 && options.mix_floor <= 1.0,
            "direction: mix_floor is " + std::to_string(options.mix_floor) +
                ", expected a number in [0, 1]");
  }

  [[nodiscard]] bool needs_gram() const noexcept override {
    return inner_->needs_gram() || unit_ == Unit::kLength || unit_ == Unit::kLossLength;
  }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, needs_gram());
    const std::size_t m = problem.loss.size();
    const std::vector<double> unit = units(problem);
    std::vector<double> gram(problem.gram.begin(), problem.gram.end());
    for (std::size_t k = 0; k < gram.size(); ++k) {
      gram[k] = gram[k] / unit[k / m] / unit[k % m];
    }
    Problem normalised = problem;
    normalised.gram = gram;
    Direction result = inner_->solve(normalised);
    for (std::size_t j = 0; j < m; ++j) {
      result.weight[j] = ((1.0 - options_.mix_floor) * result.weight[j] +
                          options_.mix_floor / static_cast<double>(m)) /
                         unit[j];
    }
    const bool has_gram =
        gram.size() == m * m && std::all_of(problem.gram.begin(), problem.gram.end(),
                                            [](double c) { return std::isfinite(c); });
    if (has_gram) {
      describe_weight(scale_gram(problem.gram, result.adjustment, options_.ascent_tolerance),
                      result);
    }
    return result;
  }

 private:
  /// s, [m]. A gradient that vanishes has no length to divide by and keeps its own: whatever its
  /// weight, it adds nothing to the direction.
  [[nodiscard]] std::vector<double> units(const Problem& problem) const {
    const std::size_t m = problem.loss.size();
    std::vector<double> result(m, 1.0);
    for (std::size_t j = 0; j < m; ++j) {
      if (unit_ == Unit::kLength || unit_ == Unit::kLossLength) {
        const double squared = problem.gram[j * m + j];
        result[j] = squared > kVanishedGram ? std::sqrt(squared) : 1.0;
      }
      if (unit_ == Unit::kLoss || unit_ == Unit::kLossLength) {
        result[j] *= std::max(problem.loss[j], options_.loss_floor);
      }
    }
    return result;
  }

  std::unique_ptr<DirectionSolver> inner_;
  DirectionOptions options_;
  Unit unit_;
};

}  // namespace

std::unique_ptr<DirectionSolver> make_normalised_solver(std::unique_ptr<DirectionSolver> inner,
                                                        const DirectionOptions& options) {
  return std::make_unique<NormalisedSolver>(std::move(inner), options);
}

}  // namespace apo::direction
