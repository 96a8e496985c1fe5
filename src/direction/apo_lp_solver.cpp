#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "linear_program.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

constexpr double kFeasibilityTolerance = 1e-9;  // of max|C|
constexpr double kZeroReducedCost = 1e-12;      // of the largest objective coefficient
constexpr double kZeroRow = 1e-14;              // of max|C|: such a row is rounding noise
constexpr double kVanishedGram = 1e-300;

/// LP (4) of the paper with C divided by s = max_j C_jj, under which it is exactly invariant.
struct ScaledLp {
  std::vector<double> gram;         // C / s, symmetric
  std::vector<double> objective;    // C A or C 1, divided by its largest entry
  std::vector<double> bound;        // right-hand side of (C mu)_j >=, over s
  std::vector<bool> constrained;    // false: j in J \ J*
  std::vector<double> row_scale;    // power of two that lifts row j to O(1)
  std::vector<double> scaled_rows;  // gram rows times row_scale
  std::vector<bool> aligned;        // j in J
};

std::vector<double> symmetric_scaled(std::span<const double> gram, std::size_t m, double scale) {
  std::vector<double> result(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      result[i * m + j] = 0.5 * (gram[i * m + j] / scale + gram[j * m + i] / scale);
    }
    result[i * m + i] = std::max(0.0, result[i * m + i]);
  }
  return result;
}

ScaledLp build(const Problem& problem, const Balance& quantities, Mode mode, double scale,
               const DirectionOptions& options) {
  const std::size_t m = problem.loss.size();
  ScaledLp lp;
  lp.gram = symmetric_scaled(problem.gram, m, scale);
  const std::vector<double> gram_a = times(lp.gram, quantities.adjustment);
  const double balancing_norm = std::sqrt(std::max(0.0, dot(quantities.adjustment, gram_a)));
  double largest_weighted = 0.0;
  bool any_aligned = false;
  for (std::size_t j = 0; j < m; ++j) {
    const double tolerance =
        options.ascent_tolerance * std::sqrt(lp.gram[j * m + j]) * balancing_norm;
    lp.aligned.push_back(gram_a[j] > tolerance);
    any_aligned = any_aligned || lp.aligned[j];
    largest_weighted = std::max(largest_weighted, quantities.share[j]);
  }
  for (std::size_t j = 0; j < m; ++j) {
    const bool bottleneck =
        quantities.share[j] >= (1.0 - options.bottleneck_tolerance) * largest_weighted;
    const bool controlled = mode == Mode::kBalancing && !bottleneck;  // may ascend in a bound
    lp.constrained.push_back(!(controlled && lp.aligned[j]));
    // The bound of an objective in J-bar is <= 0 up to the tolerance that put it there.
    lp.bound.push_back(controlled && any_aligned ? std::min(0.0, gram_a[j]) : 0.0);
  }

  lp.objective = mode == Mode::kBalancing ? gram_a : times(lp.gram, std::vector<double>(m, 1.0));
  double largest = 0.0;
  for (const double c : lp.objective) {
    largest = std::max(largest, std::abs(c));
  }
  for (double& c : lp.objective) {
    c = largest > 0.0 ? c / largest : 0.0;
  }

  // GLPK's tolerances are absolute near 0: a row of a short gradient must not drown in them.
  for (std::size_t j = 0; j < m; ++j) {
    double row_largest = 0.0;
    for (std::size_t i = 0; i < m; ++i) {
      row_largest = std::max(row_largest, std::abs(lp.gram[j * m + i]));
    }
    const bool noise = row_largest <= kZeroRow;
    lp.row_scale.push_back(noise ? 1.0 : std::ldexp(1.0, -std::ilogb(row_largest)));
    lp.constrained[j] = lp.constrained[j] && !noise;
    for (std::size_t i = 0; i < m; ++i) {
      lp.scaled_rows.push_back(lp.gram[j * m + i] * lp.row_scale[j]);
    }
  }
  return lp;
}

/// Clips negatives, scales to sum 1; empty when that is impossible.
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

double min_slack(const ScaledLp& lp, std::span<const double> mu) {
  const std::vector<double> gram_mu = times(lp.gram, mu);
  double slack = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < mu.size(); ++j) {
    if (lp.constrained[j]) {
      slack = std::min(slack, gram_mu[j] - lp.bound[j]);
    }
  }
  return std::isfinite(slack) ? slack : 0.0;
}

bool has_zero_reduced_cost(const ScaledLp& lp, const LpVertex& vertex) {
  for (std::size_t j = 0; j < vertex.x.size(); ++j) {
    // NaN marks a basic variable and compares false.
    if (std::abs(vertex.column_dual[j]) <= kZeroReducedCost ||
        std::abs(vertex.row_dual[j]) * lp.row_scale[j] <= kZeroReducedCost) {
      return true;
    }
  }
  return false;
}

class ApoLpSolver final : public DirectionSolver {
 public:
  ApoLpSolver(const DirectionOptions& options, LpStatus first_rung)
      : options_(options), first_rung_(first_rung) {}

  [[nodiscard]] bool needs_gram() const noexcept override { return true; }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, true);
    const std::size_t m = problem.loss.size();
    const Balance quantities = balance(problem.loss, problem.preference, options_.loss_floor);
    Direction result = begin_direction(quantities, problem, options_.loss_floor);
    double scale = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      scale = std::max(scale, problem.gram[j * m + j]);
    }
    if (scale <= kVanishedGram) {
      result.mode = Mode::kStationary;
      result.mu.assign(m, 1.0 / static_cast<double>(m));
      return result;
    }
    // force_balancing ends here as well: with beta within the tolerance the objective of LP (5)
    // vanishes and the paper turns to the uniform direction (Cor. H.32).
    result.mode =
        quantities.uniformity > options_.beta_tolerance ? Mode::kBalancing : Mode::kUniform;
    if (m == 1) {
      result.mode = Mode::kUniform;
      result.mu = {1.0};
      result.direction_norm = std::sqrt(scale);
      return result;
    }
    const ScaledLp lp = build(problem, quantities, result.mode, scale, options_);
    climb_down(lp, result);

    const std::vector<double> gram_mu = times(lp.gram, result.mu);
    const std::vector<bool> rises = ascending(lp.gram, gram_mu);
    for (std::size_t j = 0; j < m; ++j) {
      result.num_ascending += rises[j] ? 1 : 0;
      result.num_aligned += lp.aligned[j] ? 1 : 0;
      result.num_aligned_ascending += rises[j] && lp.aligned[j] ? 1 : 0;
    }
    result.gamma = scale * dot(quantities.adjustment, gram_mu);
    result.direction_norm = std::sqrt(scale) * std::sqrt(std::max(0.0, dot(result.mu, gram_mu)));
    result.min_slack = min_slack(lp, result.mu);
    return result;
  }

 private:
  /// The fallback ladder of section 1.4. The LP is always feasible (section 1.2), so a rung only
  /// fails by rounding.
  void climb_down(const ScaledLp& lp, Direction& result) {
    const std::size_t m = lp.bound.size();
    auto& program = programs_[m];
    if (!program) {
      program = std::make_unique<LinearProgram>(static_cast<int>(m));
    }
    struct Rung {
      LpStatus status;
      LpMethod method;
      double relaxation;
    };
    // The exact solver works on the relaxed rows: C itself is PSD only up to rounding, and exactly
    // then the unrelaxed LP can be infeasible by 1e-17.
    // GLPK's own scaling helps where gradients differ in length by 1e6 and more; it is no rung of
    // its own, since the LP stays the same.
    const std::array<Rung, 4> rungs{{
        {LpStatus::kOptimal, LpMethod::kSimplex, 0.0},
        {LpStatus::kOptimal, LpMethod::kScaledSimplex, 0.0},
        {LpStatus::kRelaxed, LpMethod::kSimplex, kFeasibilityTolerance},
        {LpStatus::kExact, LpMethod::kExact, kFeasibilityTolerance},
    }};
    std::vector<LpRow> rows(m);
    for (const Rung& rung : rungs) {
      if (rung.status < first_rung_) {
        continue;
      }
      for (std::size_t j = 0; j < m; ++j) {
        rows[j] = {std::span(lp.scaled_rows).subspan(j * m, m),
                   (lp.bound[j] - rung.relaxation) * lp.row_scale[j], lp.constrained[j]};
      }
      const auto vertex = program->solve(lp.objective, rows, rung.method);
      const auto mu = vertex ? cleaned(vertex->x) : std::nullopt;
      if (mu && min_slack(lp, *mu) >= -kFeasibilityTolerance - rung.relaxation) {
        result.mu = *mu;
        result.lp_status = rung.status;
        result.nonunique = has_zero_reduced_cost(lp, *vertex);
        return;
      }
    }
    if (first_rung_ <= LpStatus::kMinNorm && m <= kMaxMinNormObjectives) {
      result.mu = min_norm_point(lp.gram, static_cast<int>(m));
      result.lp_status = LpStatus::kMinNorm;
      return;
    }
    result.mu.assign(m, 1.0 / static_cast<double>(m));
    result.lp_status = LpStatus::kUniformWeights;
  }

  DirectionOptions options_;
  LpStatus first_rung_;
  std::map<std::size_t, std::unique_ptr<LinearProgram>> programs_;  // one per m, made on first use
};

}  // namespace

std::unique_ptr<DirectionSolver> make_apo_lp_solver(const DirectionOptions& options,
                                                    LpStatus first_rung) {
  return std::make_unique<ApoLpSolver>(options, first_rung);
}

}  // namespace apo::direction
