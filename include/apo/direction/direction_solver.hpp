#pragma once

/// @file
/// From losses, Gram matrix and preference to the weights mu of the update direction d = G mu
/// (spec algorithms.md, sections 1.1 to 1.6). Numbers only: no torch, no MPI; the same input gives
/// the same bits on every rank.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apo/core/balance.hpp"
#include "apo/direction/options.hpp"

namespace apo::direction {

enum class Mode : std::int8_t {
  kBalancing = 0,   ///< uniformity above the tolerance: maximise mu' C A
  kUniform = 1,     ///< balanced: common descent, maximise mu' C 1
  kStationary = 2,  ///< all gradients vanish: mu = 1/m, d = 0
  kFixed = 3,       ///< mu is the preference
};

/// How the weights were found; higher is further down the fallback ladder of section 1.4.
enum class LpStatus : std::int8_t {
  kNone = 0,     ///< no LP: m = 1, stationary, or fixed weights
  kOptimal = 1,  ///< GLPK on the scaled LP
  kRelaxed = 2,  ///< right-hand sides relaxed by 1e-9 max|C|
  kExact = 3,    ///< glp_exact
  kMinNorm = 4,  ///< min-norm point (feasible by section 1.2)
  kUniformWeights = 5,
};

struct Problem {
  std::span<const double> loss;        ///< l, [m], positive
  std::span<const double> gram;        ///< C = G'G, [m, m] row-major, symmetric PSD
  std::span<const double> preference;  ///< lambda, [m], simplex
  /// LP (5): Phase II and adaptation. Balanced losses (beta <= beta_tolerance) still get the
  /// uniform direction, by the paper's convention in Cor. H.32, so with a tolerance LP (5) answers
  /// as LP (4).
  bool force_balancing = false;
};

struct Direction {
  std::vector<double> mu;  ///< [m], on the simplex
  Mode mode = Mode::kBalancing;
  LpStatus lp_status = LpStatus::kNone;
  double uniformity = 0.0;         ///< beta = KL(l_hat || 1/m), nat
  std::vector<double> adjustment;  ///< A, [m]
  double gamma = 0.0;              ///< gamma* = A' C mu
  double chebyshev = 0.0;          ///< psi = max_j lambda_j l_j
  double direction_norm = 0.0;     ///< ||d|| = sqrt(mu' C mu)
  double min_slack = 0.0;          ///< smallest slack of the LP's rows, over max_j C_jj; 0: no LP
  int num_ascending = 0;           ///< objectives with (C mu)_j < 0, beyond rounding
  int num_aligned = 0;             ///< |J|: objectives with (C A)_j > 0, beyond ascent_tolerance
  int num_aligned_ascending = 0;   ///< of those, the ascending ones (the LP may not constrain them)
  bool nonunique = false;          ///< some non-basic reduced cost is 0: the optimum may be a face
  int losses_floored = 0;
};

using apo::balance;  // shared with the clustering: core/balance.hpp
using apo::Balance;

inline constexpr int kMaxMinNormObjectives = 8;

/// Minimiser of mu' C mu over the simplex, by enumeration of all supports (2^m - 1 small systems).
/// Where several mu give the same direction, the smallest support wins, then the lower indices.
///
/// @param gram  C, [m, m] row-major, symmetric PSD; @param m  1 .. kMaxMinNormObjectives
/// @throws Error(kInternal)  m or the size out of range, or an entry that is not finite
[[nodiscard]] std::vector<double> min_norm_point(std::span<const double> gram, int m);

class DirectionSolver {
 public:
  virtual ~DirectionSolver() = default;

  /// All objectives of the problem are present: who drops one also renormalises lambda.
  ///
  /// @throws Error(kInternal)  sizes disagree, the preference is not on the simplex, or a number is
  ///         not finite (checked before GLPK, which would abort the process or answer wrongly)
  [[nodiscard]] virtual Direction solve(const Problem& problem) = 0;
  /// Whether solve() reads the Gram matrix; when false callers may pass one with NaN entries.
  [[nodiscard]] virtual bool needs_gram() const noexcept = 0;
};

/// One solver per thread: GLPK keeps its state per thread, so a solver belongs to the thread of its
/// first solve(), and ends there (elsewhere its GLPK memory is left behind, since freeing it would
/// abort the process). History-free: the answer does not depend on earlier calls.
///
/// apo_lp: LP (4)/(5) of section 1.1. fixed: mu is the preference; the Gram matrix is optional, and
/// without a finite one gamma and direction_norm are NaN.
///
/// @throws Error(kInternal)  unknown options.solver
[[nodiscard]] std::unique_ptr<DirectionSolver> make_solver(const DirectionOptions& options);

}  // namespace apo::direction
