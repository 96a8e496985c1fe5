#pragma once

/// @file
/// From losses, Gram matrix and preference to the weights mu of the update direction d = G mu
/// (spec algorithms.md, sections 1.1 to 1.6). Numbers only: no torch, no MPI; the same input gives
/// the same bits on every rank.

#include <cstdint>
#include <limits>
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
  kFixed = 3,       ///< the weights follow from the solver's own rule, without modes
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
  /// beta that noise of the batch losses alone would cause, nat (see beta_noise()); 0: unknown.
  double noise_uniformity = 0.0;
  /// Whether the client's previous step was uniform: what beta_hysteresis looks at.
  bool was_uniform = false;
  std::uint64_t random_key = 0;  ///< names the random order of pcgrad
};

struct Direction {
  std::vector<double> mu;      ///< [m], solution of the LP or QP, on the simplex; else = weight
  std::vector<double> weight;  ///< [m], d = sum_j weight_j g_j; differs from mu when gradients are
                               ///< normalised or mix_floor > 0; may leave the simplex (cagrad, ...)
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
  /// The guard of the uniform mode (uniform_guard, epo_mode) made the LP infeasible: solved
  /// without.
  bool guard_dropped = false;
  /// Hash of the LP's mode, its index sets J and J* (balancing mode) and optimal basis: equal ids,
  /// equal basis and index sets (T8 of section 5.3). 0: no LP, or no basis found (kMinNorm on).
  std::uint64_t basis_id = 0;
  /// kappa_LP = ||M_B^-1||_2 ||C||_2 of section 5.5 for C / max_j C_jj; M_B: the m active rows 1',
  /// e_j' (mu_j = 0) and (C mu)_j. NaN: no LP, or a solution that is no vertex (ties resolved
  /// inside a face, lp_regulariser).
  double kappa_lp = std::numeric_limits<double>::quiet_NaN();
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
  /// Whether the weights are the preference, whatever the losses and gradients: one backward pass
  /// of the weighted loss then does for m.
  [[nodiscard]] virtual bool weighs_by_preference() const noexcept { return false; }
};

/// One solver per thread: GLPK keeps its state per thread, so a solver belongs to the thread of its
/// first solve(), and ends there (elsewhere its GLPK memory is left behind, since freeing it would
/// abort the process). History-free: the answer does not depend on earlier calls.
///
/// apo_lp: LP (4)/(5) of section 1.1. fixed: mu is the preference; the Gram matrix is optional, and
/// without a finite one gamma and direction_norm are NaN. The others (epo, mgda, firm, cagrad,
/// pcgrad, nash_mtl, upgrad, dual_proj, aligned_mtl, imtl_g, smooth_chebyshev): sections 3 and 3.7.
///
/// @throws Error(kInternal)  unknown options.solver
[[nodiscard]] std::unique_ptr<DirectionSolver> make_solver(const DirectionOptions& options);

/// Uniformity that independent noise of the losses would show on average if they were balanced:
/// the mean of beta to second order, for relative standard errors s_j = standard_error_j / l_j
/// (section 1.3; with equal s_j it is (m - 1) s^2 / (2m)).
/// @param standard_error  of the mean losses, [m]; NaN entries count as 0
[[nodiscard]] double beta_noise(std::span<const double> loss,
                                std::span<const double> standard_error);

/// Minimiser of w' (C + diag(r)) w over the simplex (section 3.3), any m: closed form for m = 2,
/// else active sets, and a trial of all supports where those leave a doubt and m <= 8. Where
/// several w are optimal (r = 0), the limit of r -> 0+: the smallest norm.
/// @param regulariser  r, [m], >= 0
/// @throws Error(kInternal)  sizes disagree, or an entry that is negative or not finite
[[nodiscard]] std::vector<double> regularised_min_norm_point(std::span<const double> gram,
                                                             std::span<const double> regulariser);

/// r of FIRM's two preference forms and of the plain one (section 3.2).
/// @param form  none: (beta/2) 1; paper: 1/p; scaled: (beta/2) / (m p). p is floored at 1e-4
[[nodiscard]] std::vector<double> firm_regulariser(const std::string& form, double beta,
                                                   std::span<const double> preference);

}  // namespace apo::direction
