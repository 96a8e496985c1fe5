#pragma once

/// @file
/// Multi-objective problems with a known Pareto point for every preference (spec algorithms.md,
/// section 7). Numbers only, float64; no torch.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/objective/options.hpp"

namespace apo::objective {

/// Minimiser of psi(x) = max_j lambda_j l_j(x).
struct ParetoPoint {
  std::vector<double> x;     ///< [dimension]; empty where psi* is only approached, at infinity
  std::vector<double> loss;  ///< l at the minimiser, or at one of several, [m]
  double chebyshev = 0.0;    ///< psi*
  bool on_ray = true;        ///< lambda_j l_j are all equal: the lambda^-1 ray meets the front
};

/// Immutable: one object may serve many threads.
class AnalyticProblem {
 public:
  virtual ~AnalyticProblem() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual int num_objectives() const = 0;  ///< m
  [[nodiscard]] virtual int dimension() const = 0;       ///< P
  /// Where training starts: not a Pareto point, no gradient vanishes. Exceptions: flat_stationary
  /// starts where both gradients vanish, its subject; of v_shape every point is a Pareto point.
  [[nodiscard]] virtual std::vector<double> start(std::uint64_t seed) const = 0;

  /// l_j alone. @param j  0 .. m - 1; @param x  [P]; @param[out] gradient  [P], or empty: loss only
  [[nodiscard]] virtual double objective(int j, std::span<const double> x,
                                         std::span<double> gradient) const = 0;

  /// Loss of observation k of objective j. Problems without data answer as objective().
  [[nodiscard]] virtual double observation(int j, int k, std::span<const double> x,
                                           std::span<double> gradient) const;

  /// @param x               [P]
  /// @param[out] loss       [m]
  /// @param[out] gradients  [m, P] row-major, or empty: losses only
  virtual void evaluate(std::span<const double> x, std::span<double> loss,
                        std::span<double> gradients) const;

  /// Exact to about 1e-14, by the formulas of section 7 (bisection to 1 ulp where they ask for it).
  /// @param preference  lambda, [m], strictly positive, on the simplex
  [[nodiscard]] virtual ParetoPoint pareto_point(std::span<const double> preference) const = 0;

  /// L_0, global; NaN where the gradients have no global Lipschitz bound in closed form.
  [[nodiscard]] virtual double smoothness() const = 0;
};

/// Problem T-A ... T-H and T-K of section 7 by its name in `task.analytic.problem`.
/// @param seed  of dpo_linear's data; the others have none
/// @throws Error(kConfig)  an unknown name, or a number of objectives or a dimension that the
///                         problem cannot have; says what it can
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_analytic_problem(const AnalyticOptions& options,
                                                                     std::uint64_t seed = 0);

/// Fronts of well-known test problems, without the problems: ZDT and DTLZ have box constraints.
enum class ClassicalFront { kZdt1, kZdt2, kDtlz1, kDtlz2 };

/// Where the lambda^-1 ray meets the front: f, [m]. ZDT has m = 2.
/// @param preference  lambda, [m], strictly positive, on the simplex
[[nodiscard]] std::vector<double> classical_front_point(ClassicalFront front,
                                                        std::span<const double> preference);

}  // namespace apo::objective
