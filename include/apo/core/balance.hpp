#pragma once

/// @file
/// How evenly a client's losses match its preference (spec algorithms.md, section 0). Shared by the
/// direction and the clustering, which must agree on every bit of it.

#include <span>
#include <vector>

namespace apo {

inline constexpr double kLossFloor = 1e-12;  ///< nat

/// Balance quantities of one client.
struct Balance {
  double z = 0.0;                  ///< Z = sum_j lambda_j l_j
  std::vector<double> share;       ///< l_hat_j = lambda_j l_j / Z, [m], sums to 1
  double uniformity = 0.0;         ///< beta = KL(l_hat || 1/m), nat, in [0, log m]
  std::vector<double> adjustment;  ///< A_j = lambda_j (log(m l_hat_j) - beta), [m]; l'A = 0
  int losses_floored = 0;          ///< losses that were lifted to the floor
};

/// @param loss        l, [m]; entries below `loss_floor` count as `loss_floor`
/// @param preference  lambda, [m], on the simplex; a zero entry gets share 0 and adjustment 0, the
///                    limit of both
/// @throws Error(kInternal)  sizes disagree or are 0, a number is not finite, a preference is
///                           negative or all are zero
[[nodiscard]] Balance balance(std::span<const double> loss, std::span<const double> preference,
                              double loss_floor = kLossFloor);

}  // namespace apo
