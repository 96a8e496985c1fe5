#pragma once

/// @file
/// Lemma 8 of the FIRM paper: how far the multipliers of two clients can be apart when their
/// gradients are near (spec algorithms.md, section 3.4). Numbers only; all norms are Euclidean.

#include <span>

namespace apo::direction {

/// ||mu_a - mu_b|| over three upper bounds of it; 1 at most, up to rounding, when both mu minimise
/// w' (C + diag(r)) w over the simplex with their Gram matrix C and the same r. A bound of 0 gives
/// the ratio 0 when the multipliers agree, else infinity.
struct Lemma8Ratios {
  double distance = 0.0;  ///< ||mu_a - mu_b||
  double paper = 0.0;     ///< over 4 R m eps / modulus
  double root = 0.0;      ///< over 4 R sqrt(m) eps / modulus: the lemma with the better constant
  /// over (2 / modulus) min(||(C_a - C_b) mu_a||, ||(C_a - C_b) mu_b||), which needs no gradients
  double gram = 0.0;
};

/// @param gram_a             C of the first client, [m, m] row-major; @param gram_b  of the second
/// @param mu_a               its multipliers, [m]; @param mu_b  of the second
/// @param gradient_distance  eps = max_j ||g_j^a - g_j^b||, >= 0; NaN when unknown: the ratios
///                           paper and root are NaN then
/// @param gradient_bound     R >= ||g_j|| of every objective of both clients; NaN as above
/// @param modulus            of strong convexity, > 0: 2 min_j r_j, which is beta of FIRM for
///                           r = beta / 2 (see firm_modulus())
/// @throws Error(kInternal)  sizes disagree, a Gram entry or a multiplier is not finite, the
/// modulus
///                           is not positive, or a distance or bound is negative
[[nodiscard]] Lemma8Ratios lemma8_ratios(std::span<const double> gram_a,
                                         std::span<const double> gram_b,
                                         std::span<const double> mu_a, std::span<const double> mu_b,
                                         double gradient_distance, double gradient_bound,
                                         double modulus);

/// 2 min_j r_j: the modulus of strong convexity of w' (C + diag(r)) w.
/// @param regulariser  r, [m], m >= 1, as firm_regulariser() gives it
/// @throws Error(kInternal)  empty
[[nodiscard]] double firm_modulus(std::span<const double> regulariser);

}  // namespace apo::direction
