#include "ward.hpp"

#include <limits>

namespace apo::clustering {

double ward_cost(const Centroid& a, const Centroid& b) {
  double squared = 0.0;
  for (std::size_t j = 0; j < a.mean.size(); ++j) {
    const double difference = a.mean[j] - b.mean[j];
    squared += difference * difference;
  }
  return a.weight * b.weight / (a.weight + b.weight) * squared;
}

Centroid joined(const Centroid& a, const Centroid& b) {
  Centroid result{a.mean, a.weight + b.weight};
  const double pull = b.weight / result.weight;
  for (std::size_t j = 0; j < a.mean.size(); ++j) {
    result.mean[j] += pull * (b.mean[j] - a.mean[j]);
  }
  return result;
}

void agglomerate(int count, const std::function<JoinCost(int, int)>& cost,
                 const std::function<void(const Join&)>& join) {
  struct Slot {
    int nearest = -1;  // among the later slots; -1: none is left
    JoinCost cost{std::numeric_limits<int>::max(), std::numeric_limits<double>::infinity()};
    bool alive = true;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(count));
  const auto at = [&](int index) -> Slot& { return slots[static_cast<std::size_t>(index)]; };
  const auto search = [&](int index) {
    Slot& slot = at(index);
    slot = Slot{};
    for (int later = index + 1; later < count; ++later) {
      if (at(later).alive) {
        const JoinCost found = cost(index, later);
        if (slot.nearest < 0 || found < slot.cost) {
          slot.nearest = later;
          slot.cost = found;
        }
      }
    }
  };
  for (int index = 0; index < count; ++index) {
    search(index);
  }
  for (int step = 1; step < count; ++step) {
    int best = -1;
    for (int index = 0; index < count; ++index) {
      if (at(index).alive && at(index).nearest >= 0 &&
          (best < 0 || at(index).cost < at(best).cost)) {
        best = index;
      }
    }
    const Join next{best, at(best).nearest};
    at(next.other).alive = false;
    join(next);
    search(next.slot);
    for (int index = 0; index < next.other; ++index) {
      Slot& slot = at(index);
      if (!slot.alive || index == next.slot) {
        continue;
      }
      if (slot.nearest == next.slot || slot.nearest == next.other) {
        search(index);
      } else if (index < next.slot) {  // the union may be nearer than what was nearest
        const JoinCost found = cost(index, next.slot);
        if (found < slot.cost || (found == slot.cost && next.slot < slot.nearest)) {
          slot.nearest = next.slot;
          slot.cost = found;
        }
      }
    }
  }
}

}  // namespace apo::clustering
