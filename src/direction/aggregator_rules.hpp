#pragma once

/// @file
/// Inside the room: the weights w of the direction sum_j w_j g_j of gradient aggregators, from the
/// Gram matrix alone (algorithms.md, section 3.7). All are invariant under C -> s C but Nash-MTL,
/// whose weights scale with 1/sqrt(s). The papers weigh the objectives equally; where p appears it
/// takes the place of 1/m, so that without conflicts the weights are p (CAGrad: next to it).
///
/// gram: C, [m, m], some diagonal entry above kVanishedGram
/// (entries up to it count as 0); p: preference, [m], on the simplex.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scaled_gram.hpp"

namespace apo::direction {

/// d = g_0 + radius ||g_0|| g_w / ||g_w||, g_0 = sum_j p_j g_j, w on the simplex the minimiser of
/// g_w'g_0 + radius ||g_0|| ||g_w|| (CAGrad, Liu et al. 2021): the d within radius ||g_0|| of g_0
/// with the largest min_j g_j'd. No rescaling of d. Where g_w = 0 (Pareto stationary points) that d
/// is not unique, and the one nearest to g_0 is taken, which is dual_projection_weights().
[[nodiscard]] std::vector<double> cagrad_weights(std::span<const double> gram,
                                                 std::span<const double> p, double radius);

/// The minimiser of CAGrad's dual on the simplex.
/// @param by_supports  closed form on every support (m <= 8), empty when none passes the optimality
///                     conditions; else a search for ||g_w|| with a quadratic program at every
///                     step, empty when g_w = 0 at the minimum
[[nodiscard]] std::vector<double> cagrad_dual(std::span<const double> gram,
                                              std::span<const double> p, double radius,
                                              bool by_supports);

/// sum_i p_i g_i^PC: every g_i loses, in random order, its conflicting components along the other
/// gradients (PCGrad, Yu et al. 2020). It is PCGrad of the weighted losses p_j l_j.
/// @param random_key  names the orders: CounterRng, Purpose::kDirection
[[nodiscard]] std::vector<double> pcgrad_weights(std::span<const double> gram,
                                                 std::span<const double> p,
                                                 std::uint64_t random_key);

/// (C w)_j = 1 / w_j: the Nash bargaining solution (Navon et al. 2022), as the minimiser of
/// 1/2 w'Cw - sum_j log w_j. ||d|| = sqrt(m) always. Weights of the losses do not change d, so p
/// has no part. At Pareto stationary points there is no agreement better than d = 0: w is the
/// min-norm point of the unit gradients then. Vanishing gradients do not bargain: w_j = 0.
[[nodiscard]] std::vector<double> nash_weights(std::span<const double> gram);

/// sum_k p_k (projection of g_k onto the dual cone { d : g_j'd >= 0 for all j }) (UPGrad, Quinton
/// and Rey 2024). The projections work on unit gradients: short gradients count like long ones.
[[nodiscard]] std::vector<double> upgrad_weights(std::span<const double> gram,
                                                 std::span<const double> p);

/// Projection of g_0 = sum_j p_j g_j onto the dual cone (DualProj; GEM, Lopez-Paz and Ranzato
/// 2017).
[[nodiscard]] std::vector<double> dual_projection_weights(std::span<const double> gram,
                                                          std::span<const double> p);

/// w = B p, B = sqrt(s_min) V S^-1/2 V', C = V S V': the aligned gradients G B are orthogonal and
/// of equal length (Aligned-MTL, Senushkin et al. 2023, scale "min"). Eigenvalues up to m eps max S
/// count as 0 and are left out.
[[nodiscard]] std::vector<double> aligned_weights(std::span<const double> gram,
                                                  std::span<const double> p);

/// w with sum 1 and equal projections of d onto all unit gradients (IMTL-G, Liu et al. 2021), the
/// same for all weights of the losses: p has no part. Negative entries are possible. When the sum
/// cannot be made 1 (it vanishes to 1e-12 of sum |w|) it is sum |w| that is 1. Vanishing gradients
/// get weight 0.
[[nodiscard]] std::vector<double> equal_projection_weights(std::span<const double> gram);

/// w_j proportional to softmax(log(p_j l_j) / smoothing)_j / l_j, sum 1: the direction of the
/// gradient of smoothing * log sum_j exp(log(p_j l_j) / smoothing), which tends to
/// log max_j p_j l_j as smoothing -> 0 (after STCH, Lin et al. 2024). An objective with p_j = 0
/// gets weight 0.
/// @param loss  l, [m], positive
[[nodiscard]] std::vector<double> smooth_chebyshev_weights(std::span<const double> loss,
                                                           std::span<const double> p,
                                                           double smoothing);

/// The objectives whose gradients do not vanish, with the cosines of these.
struct UnitGram {
  std::vector<std::size_t> kept;  ///< k of the m objectives
  std::vector<double> norm;       ///< ||g_j||, [k]
  std::vector<double> cosine;     ///< [k, k], symmetric PSD, diagonal 1 up to the rounding of C
};
[[nodiscard]] UnitGram unit_gram(std::span<const double> gram, std::size_t m);

}  // namespace apo::direction
