#pragma once

/// @file
/// Minimiser of max_j lambda_j l_j(w) for smooth, strongly convex losses without a closed form
/// (T-H of algorithms.md section 7).

#include <span>
#include <vector>

namespace apo::objective::analytic {

class ConvexLosses {
 public:
  virtual ~ConvexLosses() = default;
  [[nodiscard]] virtual std::size_t count() const = 0;  ///< m
  [[nodiscard]] virtual std::size_t size() const = 0;   ///< P
  /// l_j(w). @param[out] gradient  [P], or empty
  [[nodiscard]] virtual double loss(std::size_t j, std::span<const double> w,
                                    std::span<double> gradient) const = 0;
  /// hessian [P, P] += weight * (second derivative of l_j)
  virtual void add_hessian(std::size_t j, std::span<const double> w, double weight,
                           std::span<double> hessian) const = 0;
};

struct Minimax {
  std::vector<double> w;       ///< [P]
  std::vector<double> weight;  ///< KKT multipliers of the m losses, on the simplex
};

/// Primal-dual interior point method (Boyd and Vandenberghe, Convex Optimization, 11.7) on
/// min t subject to lambda_j l_j(w) <= t, then Newton's method on the KKT equations of the active
/// losses: to working precision.
/// @param preference  lambda, [m], positive
/// @param start       [P]
[[nodiscard]] Minimax minimise_maximum(const ConvexLosses& losses,
                                       std::span<const double> preference,
                                       std::span<const double> start);

}  // namespace apo::objective::analytic
