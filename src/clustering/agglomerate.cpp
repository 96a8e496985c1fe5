#include "agglomerate.hpp"

#include <algorithm>
#include <cstddef>

namespace apo::clustering {

namespace {

/// A slot and its partner, as they were when the slot looked.
struct Entry {
  double cost = 0.0;
  int owner = 0;
  int partner = 0;
  int owner_version = 0;
  int partner_version = 0;
};

/// Heaps have their largest element on top, so this is "costs more".
bool after(const Entry& a, const Entry& b) {
  if (a.cost != b.cost) {
    return a.cost > b.cost;
  }
  const auto [a_low, a_high] = std::minmax(a.owner, a.partner);
  const auto [b_low, b_high] = std::minmax(b.owner, b.partner);
  return a_low != b_low ? a_low > b_low : a_high > b_high;
}

}  // namespace

std::vector<Join> agglomerate(int count, Linkage& linkage) {
  constexpr int kGone = -1;
  std::vector<int> version(static_cast<std::size_t>(count), 0);  // number of joins so far
  const auto version_of = [&](int slot) -> int& { return version[static_cast<std::size_t>(slot)]; };
  std::vector<Entry> heap;
  heap.reserve(static_cast<std::size_t>(count));
  const auto look = [&](int slot) {
    const Candidate found = linkage.nearest(slot);
    if (found.slot < 0) {
      return false;
    }
    heap.push_back({found.cost, slot, found.slot, version_of(slot), version_of(found.slot)});
    return true;
  };
  for (int slot = 0; slot < count; ++slot) {
    look(slot);
  }
  std::make_heap(heap.begin(), heap.end(), after);

  std::vector<Join> joins;
  joins.reserve(static_cast<std::size_t>(std::max(count, 1) - 1));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const Entry next = heap.back();
    heap.pop_back();
    if (version_of(next.owner) != next.owner_version) {
      continue;  // the owner was joined, and its union has an entry of its own
    }
    int searcher = next.owner;
    if (version_of(next.partner) == next.partner_version) {
      const auto [keep, gone] = std::minmax(next.owner, next.partner);
      linkage.join(keep, gone);
      joins.push_back({keep, gone, next.cost});
      version_of(gone) = kGone;
      ++version_of(keep);
      searcher = keep;
    }
    if (look(searcher)) {
      std::push_heap(heap.begin(), heap.end(), after);
    }
  }
  return joins;
}

}  // namespace apo::clustering
