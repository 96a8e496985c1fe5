#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "apo/clustering/clustering.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {

std::vector<int> bottleneck_order(std::span<const double> loss,
                                  std::span<const double> preference) {
  expects(!loss.empty() && loss.size() == preference.size(),
          "bottleneck_order: expected one preference per loss, found " +
              std::to_string(preference.size()) + " for " + std::to_string(loss.size()));
  // Quantised first: a tolerance inside the comparison would not be a strict weak order.
  std::vector<std::int64_t> key(loss.size());
  for (std::size_t j = 0; j < loss.size(); ++j) {
    const double weighted = loss[j] * preference[j];
    expects(std::isfinite(weighted) && weighted >= 0.0,
            "bottleneck_order: objective " + std::to_string(j) + " has weighted loss " +
                std::to_string(weighted) + ", expected a number >= 0");
    key[j] = weighted > 0.0 ? std::llround(std::log(weighted) / 1e-12)
                            : std::numeric_limits<std::int64_t>::min();
  }
  std::vector<int> order(loss.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
    return key[static_cast<std::size_t>(i)] > key[static_cast<std::size_t>(j)];
  });
  return order;
}

}  // namespace apo::clustering
