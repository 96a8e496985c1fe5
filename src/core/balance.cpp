#include "apo/core/balance.hpp"

#include <algorithm>
#include <cmath>

#include "apo/core/error.hpp"

namespace apo {

Balance balance(std::span<const double> loss, std::span<const double> preference,
                double loss_floor) {
  const std::size_t m = loss.size();
  // Messages are made on failure only: this runs in every client step.
  if (m == 0 || preference.size() != m) {
    expects(false, "balance: expected one preference per loss, found " +
                       std::to_string(preference.size()) + " for " + std::to_string(m));
  }
  Balance result;
  std::vector<double> weighted(m);
  for (std::size_t j = 0; j < m; ++j) {
    if (!std::isfinite(loss[j]) || !std::isfinite(preference[j]) || preference[j] < 0.0) {
      expects(false, "balance: objective " + std::to_string(j) + " has loss " +
                         std::to_string(loss[j]) + " and preference " +
                         std::to_string(preference[j]) +
                         ", expected finite numbers and a preference >= 0");
    }
    result.losses_floored += loss[j] < loss_floor ? 1 : 0;
    weighted[j] = preference[j] * std::max(loss[j], loss_floor);
    result.z += weighted[j];
  }
  if (!(result.z > 0.0) || !std::isfinite(result.z)) {
    expects(false, "balance: the preference-weighted loss is " + std::to_string(result.z) +
                       ", expected a positive number");
  }

  // log(m l_hat_j) as a sum of logarithms: a quotient would lose tiny losses to underflow.
  result.share.assign(m, 0.0);
  std::vector<double> log_ratio(m, 0.0);
  const double log_m_over_z = std::log(static_cast<double>(m)) - std::log(result.z);
  for (std::size_t j = 0; j < m; ++j) {
    if (preference[j] > 0.0) {
      result.share[j] = weighted[j] / result.z;
      log_ratio[j] =
          log_m_over_z + std::log(preference[j]) + std::log(std::max(loss[j], loss_floor));
      result.uniformity += result.share[j] * log_ratio[j];
    }
  }
  // A divergence is never negative; at balance rounding leaves some -1e-17.
  result.uniformity = std::max(0.0, result.uniformity);
  result.adjustment.assign(m, 0.0);
  for (std::size_t j = 0; j < m; ++j) {
    result.adjustment[j] = preference[j] * (log_ratio[j] - result.uniformity);
  }
  return result;
}

}  // namespace apo
