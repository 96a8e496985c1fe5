#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "active_set.hpp"
#include "lexicographic.hpp"
#include "linear_program.hpp"
#include "polytope_qp.hpp"
#include "scaled_gram.hpp"
#include "scaled_lp.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

constexpr double kFeasibilityTolerance = 1e-9;  // of max|C|

/// One way of solving the LP. GLPK's own scaling helps where gradients differ in length by 1e6 and
/// more; it is no step of the ladder of its own, since the LP stays the same. The exact solver
/// works on the relaxed rows: C itself is PSD only up to rounding, and exactly then the unrelaxed
/// LP can be infeasible by 1e-17.
struct Rung {
  LpStatus status;
  LpMethod method;
  double relaxation;
};
constexpr std::array<Rung, 4> kRungs{{
    {LpStatus::kOptimal, LpMethod::kSimplex, 0.0},
    {LpStatus::kOptimal, LpMethod::kScaledSimplex, 0.0},
    {LpStatus::kRelaxed, LpMethod::kSimplex, kFeasibilityTolerance},
    {LpStatus::kExact, LpMethod::kExact, kFeasibilityTolerance},
}};

class ApoLpSolver final : public DirectionSolver {
 public:
  ApoLpSolver(const DirectionOptions& options, LpStatus first_rung)
      : options_(options),
        guarded_(options.uniform_guard == "epo_restricted"),
        lexicographic_(options.lp_tie == "lexicographic"),
        first_rung_(first_rung) {
    expects(guarded_ || options.uniform_guard == "none", "direction: unknown uniform_guard '" +
                                                             options.uniform_guard +
                                                             "', expected none or epo_restricted");
    expects(lexicographic_ || options.lp_tie == "vertex",
            "direction: unknown lp_tie '" + options.lp_tie + "', expected vertex or lexicographic");
    expects(options.lp_regulariser >= 0.0 && std::isfinite(options.lp_regulariser),
            "direction: lp_regulariser is " + std::to_string(options.lp_regulariser) +
                ", expected a number >= 0");
  }

  [[nodiscard]] bool needs_gram() const noexcept override { return true; }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, true);
    const std::size_t m = problem.loss.size();
    const Balance quantities = balance(problem.loss, problem.preference, options_.loss_floor);
    Direction result = begin_direction(quantities, problem, options_.loss_floor);
    const ScaledGram gram =
        scale_gram(problem.gram, quantities.adjustment, options_.ascent_tolerance);
    if (gram.vanished()) {
      result.mode = Mode::kStationary;
      result.mu.assign(m, 1.0 / static_cast<double>(m));
      result.weight = result.mu;
      return result;
    }
    result.mode = mode_of(problem, quantities.uniformity);
    if (m == 1) {
      result.mode = Mode::kUniform;
      result.mu = {1.0};
    } else {
      ScaledLp lp =
          build_lp(gram, quantities, result.mode, options_.bottleneck_tolerance, guarded_);
      solve_lp(lp, gram, result);
      result.min_slack = lp.min_slack(result.mu);
    }
    result.weight = result.mu;
    describe_weight(gram, result);
    return result;
  }

 private:
  /// force_balancing changes nothing here: with beta within the tolerance the objective of LP (5)
  /// vanishes and the paper turns to the uniform direction (Cor. H.32).
  [[nodiscard]] Mode mode_of(const Problem& problem, double uniformity) const {
    double tolerance =
        std::max(options_.beta_tolerance, options_.beta_noise_factor * problem.noise_uniformity);
    if (problem.was_uniform) {
      tolerance *= std::max(1.0, options_.beta_hysteresis);
    }
    return uniformity > tolerance ? Mode::kBalancing : Mode::kUniform;
  }

  void solve_lp(ScaledLp& lp, const ScaledGram& gram, Direction& result) {
    const std::size_t m = lp.objective.size();
    bool found = attempt(lp, gram, result);
    if (!found && lp.num_rows() > m) {
      // Only the guard can make the LP infeasible (section 1.2).
      lp.drop_guard();
      result.guard_dropped = true;
      found = attempt(lp, gram, result);
    }
    if (found) {
      return;
    }
    if (first_rung_ <= LpStatus::kMinNorm && m <= kMaxMinNormObjectives) {
      result.mu = min_norm_point(gram.gram, static_cast<int>(m));
      result.lp_status = LpStatus::kMinNorm;
      return;
    }
    result.mu.assign(m, 1.0 / static_cast<double>(m));
    result.lp_status = LpStatus::kUniformWeights;
  }

  bool attempt(const ScaledLp& lp, const ScaledGram& gram, Direction& result) {
    return options_.lp_regulariser > 0.0 ? regularised(lp, gram, result)
                                         : climb_down(lp, gram, result);
  }

  /// max c'mu - (beta_R / 2) ||mu||^2 on the scaled problem: concave, so the answer is unique.
  bool regularised(const ScaledLp& lp, const ScaledGram& gram, Direction& result) {
    const std::size_t m = lp.objective.size();
    if (first_rung_ > LpStatus::kOptimal) {
      return false;
    }
    std::vector<double> hessian(m * m, 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      hessian[j * m + j] = options_.lp_regulariser;
    }
    const std::vector<LpRow> rows = lp.rows();
    const LpVertex* vertex = program(lp).solve(lp.normalised, rows, LpMethod::kSimplex);
    QpPoint start;
    if (vertex != nullptr) {
      start = {vertex->x, vertex->column_active, vertex->row_active};
    }
    const auto point =
        minimise_on_polytope(hessian, lp.objective, rows, {}, vertex != nullptr ? &start : nullptr);
    return point && accept(lp, gram, point->x, {point->column_active, point->row_active, true},
                           kRungs[0], result);
  }

  LinearProgram& program(const ScaledLp& lp) {
    auto& entry = programs_[{lp.objective.size(), lp.num_rows()}];
    if (!entry) {
      entry = std::make_unique<LinearProgram>(static_cast<int>(lp.objective.size()),
                                              static_cast<int>(lp.num_rows()));
    }
    return *entry;
  }

  /// The fallback ladder of section 1.4. The LP of the paper is always feasible (section 1.2), so a
  /// rung only fails by rounding.
  bool climb_down(const ScaledLp& lp, const ScaledGram& gram, Direction& result) {
    LinearProgram& simplex = program(lp);
    for (const Rung& rung : kRungs) {
      if (rung.status < first_rung_) {
        continue;
      }
      const LpVertex* vertex = simplex.solve(lp.normalised, lp.rows(rung.relaxation), rung.method);
      if (vertex == nullptr || !accept(lp, gram, vertex->x, active_set(*vertex), rung, result)) {
        continue;
      }
      result.nonunique = has_zero_reduced_cost(lp, *vertex);
      if (result.nonunique && lexicographic_) {
        const TieBreak tie = break_tie(lp, gram, *vertex, rung.relaxation, simplex);
        if (!tie.mu.empty()) {
          accept(lp, gram, tie.mu, tie.active, rung, result);
        }
      }
      return true;
    }
    return false;
  }

  /// Takes mu over into the result unless it violates the LP.
  static bool accept(const ScaledLp& lp, const ScaledGram& gram, const std::vector<double>& x,
                     const ActiveSet& active, const Rung& rung, Direction& result) {
    auto mu = cleaned(x);
    if (!mu || lp.min_slack(*mu) < -kFeasibilityTolerance - rung.relaxation) {
      return false;
    }
    result.mu = std::move(*mu);
    result.lp_status = rung.status;
    result.basis_id = basis_id(lp, gram.aligned, active);
    result.kappa_lp = kappa_lp(lp, gram, active);
    return true;
  }

  DirectionOptions options_;
  bool guarded_;
  bool lexicographic_;
  LpStatus first_rung_;
  /// One per number of objectives and rows, made on first use.
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<LinearProgram>> programs_;
};

}  // namespace

std::unique_ptr<DirectionSolver> make_apo_lp_solver(const DirectionOptions& options,
                                                    LpStatus first_rung) {
  return std::make_unique<ApoLpSolver>(options, first_rung);
}

}  // namespace apo::direction
