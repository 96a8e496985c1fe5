#include "distance_linkage.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ward.hpp"

namespace apo::clustering {

DistanceLinkage::DistanceLinkage(LinkageKind kind, std::span<const double> positions,
                                 std::vector<double> weight, int dimension)
    : kind_(kind), weight_(std::move(weight)), living_(weight_.size()) {
  std::iota(living_.begin(), living_.end(), 0);
  const std::size_t count = weight_.size();
  distance_.reserve(count * (count - 1) / 2);
  const auto m = static_cast<std::size_t>(dimension);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      distance_.push_back(std::sqrt(
          squared_distance(positions.data() + a * m, positions.data() + b * m, dimension)));
    }
  }
}

std::size_t DistanceLinkage::index(int a, int b) const {
  const auto low = static_cast<std::size_t>(std::min(a, b));
  const auto high = static_cast<std::size_t>(std::max(a, b));
  return low * (2 * weight_.size() - low - 1) / 2 + (high - low - 1);
}

Candidate DistanceLinkage::nearest(int slot) const {
  Candidate best;
  for (const int other : living_) {  // ascending, so the first of equals is the lowest
    if (other != slot) {
      const double found = distance_[index(slot, other)];
      if (best.slot < 0 || found < best.cost) {
        best = {found, other};
      }
    }
  }
  return best;
}

void DistanceLinkage::join(int keep, int gone) {
  living_.erase(std::lower_bound(living_.begin(), living_.end(), gone));
  double& weight = weight_[static_cast<std::size_t>(keep)];
  const double other_weight = weight_[static_cast<std::size_t>(gone)];
  const double pull = other_weight / (weight + other_weight);
  weight += other_weight;
  for (const int third : living_) {
    if (third == keep) {
      continue;
    }
    double& distance = distance_[index(keep, third)];
    const double other = distance_[index(gone, third)];
    switch (kind_) {
      case LinkageKind::kComplete:
        distance = std::max(distance, other);
        break;
      case LinkageKind::kSingle:
        distance = std::min(distance, other);
        break;
      default:  // average: the weighted mean, exact where both are equal
        distance += pull * (other - distance);
    }
  }
}

}  // namespace apo::clustering
