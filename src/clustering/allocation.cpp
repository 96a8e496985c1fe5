#include <algorithm>
#include <cstdint>
#include <numeric>
#include <queue>

#include "dendrogram.hpp"

#include "apo/core/error.hpp"

namespace apo::clustering {

std::vector<int> largest_remainder(std::span<const int> sizes, std::span<const int> capacities,
                                   int budget) {
  expects(budget >= static_cast<int>(sizes.size()),
          "largest_remainder: fewer clusters than groups");
  const auto at = [](int g) { return static_cast<std::size_t>(g); };
  std::vector<int> share(sizes.size(), 1);
  std::vector<int> open(sizes.size());
  std::iota(open.begin(), open.end(), 0);
  // Groups whose quota is below 1 get 1 and leave; the others' quotas shrink, so look again.
  std::int64_t seats = budget;
  std::int64_t clients = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (bool changed = true; changed;) {
    std::int64_t seats_taken = 0;
    std::int64_t clients_gone = 0;
    std::erase_if(open, [&](int g) {
      const bool small = seats * sizes[at(g)] < clients;
      seats_taken += small ? 1 : 0;
      clients_gone += small ? sizes[at(g)] : 0;
      return small;
    });
    changed = seats_taken > 0;
    seats -= seats_taken;
    clients -= clients_gone;
  }
  const auto larger_first = [&](int a, int b) {
    return sizes[at(a)] != sizes[at(b)] ? sizes[at(a)] > sizes[at(b)] : a < b;
  };
  std::int64_t left = seats;
  for (const int g : open) {
    share[at(g)] = static_cast<int>(seats * sizes[at(g)] / clients);
    left -= share[at(g)];
  }
  std::sort(open.begin(), open.end(), [&](int a, int b) {
    const std::int64_t x = seats * sizes[at(a)] % clients;
    const std::int64_t y = seats * sizes[at(b)] % clients;
    return x != y ? x > y : larger_first(a, b);
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(left); ++i) {
    ++share[at(open[i])];
  }

  // Groups of too few different points pass on what they cannot use, one by one, to the group with
  // the smallest share per client.
  std::int64_t surplus = 0;
  const auto later = [&](int a, int b) {
    const std::int64_t x = std::int64_t{share[at(a)]} * sizes[at(b)];
    const std::int64_t y = std::int64_t{share[at(b)]} * sizes[at(a)];
    return x != y ? x > y : larger_first(b, a);
  };
  std::priority_queue<int, std::vector<int>, decltype(later)> able(later);
  for (int g = 0; g < static_cast<int>(sizes.size()); ++g) {
    surplus += std::max(0, share[at(g)] - capacities[at(g)]);
    share[at(g)] = std::min(share[at(g)], capacities[at(g)]);
    if (share[at(g)] < capacities[at(g)]) {
      able.push(g);
    }
  }
  for (; surplus > 0 && !able.empty(); --surplus) {
    const int next = able.top();
    able.pop();
    if (++share[at(next)] < capacities[at(next)]) {
      able.push(next);
    }
  }
  return share;
}

}  // namespace apo::clustering
